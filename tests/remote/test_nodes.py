"""Nodes as Slurm writes them."""

from __future__ import annotations

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.remote.hostlist import expand, require_node


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", "n1"),
        ("n[1-4,7]", "n1 n2 n3 n4 n7"),
        ("a-b,gpu[08-11,3],login", "a-b gpu08 gpu09 gpu10 gpu11 gpu3 login"),
        ("r[1-2]n[1-2]-ib,r1n1-ib", "r1n1-ib r1n2-ib r2n1-ib r2n2-ib"),
        ("n[1-x]", "n1-x"),
        ("n[1-2000000000]", "n1-2000000000"),
        ("", ""),
    ],
)
def test_expand(text: str, names: str):
    assert " ".join(expand(text)) == names


def test_a_node_of_another_job():
    require_node("job", "n[1-2]", "n2")
    require_node("job", "", "n9")
    with pytest.raises(UserError) as refused:
        require_node("job", "n[1-2]", "n12")
    assert str(refused.value) == "job 'job' has no node 'n12'\n  fix: name one of its nodes: n[1-2]"
