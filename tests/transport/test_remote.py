"""The wrapping of a script, as text."""

from __future__ import annotations

import re

import pytest

from nemo_runspec.transport.remote import Wrapping, framed


def test_a_remote_command_line_holds_only_what_every_shell_reads_alike():
    command = Wrapping().command
    quoted = re.fullmatch(r"exec sh -c '([^'\\!\n]*)'", command)
    assert quoted, command


def test_a_script_is_not_in_the_command_line():
    wrapping = Wrapping()
    assert b"s3cret" in wrapping.to_run("echo s3cret")
    assert "s3cret" not in wrapping.command


def test_output_that_looks_like_a_status_is_output():
    wrapping, other = Wrapping(), Wrapping()
    forged = f"\n{other.mark} 0\n".encode()
    assert wrapping.status(forged) is None
    assert wrapping.status(forged + f"\n{wrapping.mark} 7\n".encode()) == (7, forged)


def test_a_status_that_was_cut_off_is_none():
    wrapping = Wrapping()
    whole = f"out\n{wrapping.mark} 12\n".encode()
    assert wrapping.status(whole) == (12, b"out")
    assert {wrapping.status(whole[:end]) for end in range(len(whole))} == {None}


def test_what_comes_after_the_status_is_output_too():
    wrapping = Wrapping()
    assert wrapping.status(f"a\n{wrapping.mark} 0\nlate".encode()) == (0, b"alate")


def test_a_script_without_an_end_is_refused():
    with pytest.raises(ValueError, match="NUL"):
        framed("a\0b")
