"""The file of a job's secrets, as it is written for a shell and read without one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from shlex import quote

from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.jobside import secrets

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(st.dictionaries(st.from_regex("[A-Z_][A-Z0-9_]{0,9}", fullmatch=True), TEXTS))
def test_what_was_quoted_is_read(values: dict[str, str]):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "secrets.env"
        lines = "".join(f"export {name}={quote(value)}\n" for name, value in values.items())
        file.write_bytes(os.fsencode(lines))
        assert secrets.read(str(file)) == values
        assert secrets.forget(str(file))
        assert not file.exists()


def test_without_a_file_there_is_none_and_nothing_to_forget(tmp_path: Path):
    assert secrets.read(str(tmp_path / "none")) == {}
    assert secrets.forget(str(tmp_path / "none"))
