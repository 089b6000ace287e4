"""What `-v` tells of commands on other machines: who, what, how long, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from labs.sshd import needs_ssh

from nemo_runspec import tracing

SCRIPT = """\
# squeue is only named here
value=1
cat /dev/null
if true; then mkdir -p .; fi
tail -n 1 /dev/null
exit 3
"""


@pytest.fixture
def told() -> Iterator[list[str]]:
    lines: list[str] = []
    tracing.tell_to(lines.append)
    yield lines
    tracing.tell_to(None)


def test_a_command(host, told):
    host.run(SCRIPT, data=b"a secret")
    [line] = told
    assert re.search(r"bash: cat, mkdir, tail  \(\d+\.\d\d s, exit code 3\)$", line)
    assert host.name in line
    assert "secret" not in line


@needs_ssh
def test_a_machine_that_does_not_answer(server, reach, told):
    host = reach()
    server.stop()
    with pytest.raises(Exception):  # noqa: B017  # how it is refused is told elsewhere
        host.run("true", timeout=5)
    assert "no answer: " in told[-1]


def test_nobody_listens(host):
    assert host.run("echo on").text == "on\n"
