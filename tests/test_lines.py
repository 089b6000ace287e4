"""What a line is: ended by a line feed. `str.splitlines` cuts at eight more characters, which a line may hold."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import REPOSITORY, make_repository

from nemo_runspec.backends.cloud.code.origin import _tips
from nemo_runspec.envs import note_use, used_by
from nemo_runspec.lines import text_lines
from nemo_runspec.packaging.git import Repository
from nemo_runspec.planning.given import variables_in
from nemo_runspec.script.pod_marker import read_ends

SRC = REPOSITORY / "src" / "nemo_runspec"
OF_BYTES = {
    "artifacts/checks/documents.py", "artifacts/checks/parquet.py", "backends/cloud/storage/data_outputs.py",
    "backends/docker/log_tail.py", "backends/slurm/diagnose.py", "backends/slurm/observe.py", "diagnosis/model.py",
    "forms.py", "jobside/forward.py", "jobside/ray_versions.py", "jobside/stacks.py", "remote/results.py",
    "supervise/progress.py", "transport/ssh_config.py",
}  # fmt: skip
"""Where bytes are cut, once each: at carriage returns too, which stand in no JSON and redraw a terminal's line. The two
that check artifacts take the first line of what an error says, to be shown."""


def uses(file: Path) -> Iterator[ast.Attribute]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return (node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "splitlines")


def test_nothing_in_src_cuts_text_with_splitlines():
    found = {
        file.relative_to(SRC).as_posix() for file in SRC.parent.rglob("*.py") if SRC in file.parents and any(uses(file))
    }
    assert found == OF_BYTES
    assert all(sum(1 for _ in uses(SRC / name)) == 1 for name in OF_BYTES)
    assert not [file for file in (SRC.parent / "nemotron").rglob("*.py") if any(uses(file))]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("\n", [""]),
        ("a\r\nb\n\n", ["a", "b", ""]),
        ("a\rb\x85c\u2028d\x0c", ["a\rb\x85c\u2028d\x0c"]),
    ],
)
def test_lines_end_with_a_line_feed(text, lines):
    assert text_lines(text) == lines


ODD = "a\x85b\u2028c\x0bd\x1ce"


def test_a_value_of_an_env_file_is_whole(tmp_path):
    (tmp_path / "file.env").write_text(f"FIRST={ODD}\nSECOND=2\n", encoding="utf-8")
    found = variables_in(tmp_path / "file.env")
    assert [(each.name, each.value) for each in found] == [("FIRST", ODD), ("SECOND", "2")]


def test_an_environment_that_is_in_use_is_known_wherever_it_lies(tmp_path):
    note_use(tmp_path, [tmp_path / ODD / "env" / "bin"])
    assert used_by(tmp_path) == [tmp_path / ODD / "env"]


def test_half_a_branch_name_is_no_tip(tmp_path):
    """The listing of a remote has a line a branch: `COMMIT<tab>refs/heads/NAME`."""
    (tmp_path / "file").touch()
    make_repository(tmp_path)
    repository = Repository(tmp_path)
    repository.run("branch", f"odd\u2028{'f' * 40}")
    assert set(_tips(repository, str(tmp_path), anonymous=True) or ()) == {repository.line("rev-parse", "HEAD")}


def test_what_a_command_says_behind_a_carriage_return_is_no_last_word():
    end = b"nemotron-end: node=0 attempt=0 exit_code=0 phase=command reason="
    assert read_ends(b"50 %\r" + end + b"\n") == {}
    assert read_ends(b"50 %\n" + end + b"\r\n")[0].exit_code == 0
