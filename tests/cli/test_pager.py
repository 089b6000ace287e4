"""Long output on a terminal goes through a pager, and nowhere else."""

from __future__ import annotations

import re

import pytest

DRY = ("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "--dry-run")
END = "Dry run: nothing was written and nothing was submitted."


@pytest.mark.slow
def test_a_long_page_goes_through_the_pager(terminal, project):
    own = {"NEMOTRON_PAGER": "tr a-z A-Z", "PAGER": "false"}
    for more in ((), ("--full",), ("--script",), ("-m", "rng.seed=range(1,40)")):
        code, seen = terminal(*DRY, *more, **own)
        assert code == 0
        assert "#SBATCH --PARTITION=INTERACTIVE" in seen, more
    assert END.upper() in terminal(*DRY, PAGER="tr a-z A-Z")[1]
    assert "MODEL:\n" in terminal(*DRY[:4], "--cfg", "job", **own)[1]


@pytest.mark.slow
def test_what_fits_is_printed(terminal):
    code, seen = terminal(*DRY, rows=500, columns=2000, PAGER="tr a-z A-Z")
    assert (code, END in seen) == (0, True)
    rows = seen.count("\n")
    for there, paged in ((rows, True), (rows + 1, False)):
        colours = {"NO_COLOR": "", "FORCE_COLOR": "1"}
        _, seen = terminal(*DRY, rows=there, columns=2000, PAGER="tr a-z A-Z", **colours)
        assert ("DRY RUN: " in seen) is paged, "colours take no room"


@pytest.mark.slow
@pytest.mark.parametrize("pager", ["", "cat", "no-such-pager", "/dev/null", "exit 126"])
def test_no_pager_is_no_error(terminal, pager):
    code, seen = terminal(*DRY, NEMOTRON_PAGER=pager)
    assert (code, seen.count(END)) == (0, 1)


@pytest.mark.slow
def test_a_machine_without_less(terminal):
    code, seen = terminal(*DRY[:4], "--dry-run", PATH="/nowhere")
    assert (code, "Dry run: nothing was written" in seen, "not found" in seen) == (0, True, False)


@pytest.mark.slow
def test_a_pager_that_is_left_early_is_no_error(terminal):
    code, seen = terminal(*DRY, "--full", PAGER="head -n 1")
    assert (code, seen.count("\n")) == (0, 1), seen


@pytest.mark.slow
def test_json_and_pipes_have_none(terminal, project, nemotron_process):
    assert '"schema": 1' in terminal(*DRY, "--json", PAGER="tr a-z A-Z")[1]
    assert END in nemotron_process(*DRY, PAGER="tr a-z A-Z", TERM="xterm").succeeds().out
    assert END in terminal(*DRY, PAGER="tr a-z A-Z", TERM="dumb")[1]


@pytest.mark.slow
def test_the_pager_gets_no_secrets_and_nothing_that_drives_it(terminal, project):
    project.recipe("mine/train", default='text: "\\e[2J\\e]0;title\\a"\n')
    url = "postgres://me:s3cretpart9@db/x"
    for more in (("--dry-run", "--full"), ("--cfg", "job")):
        code, seen = terminal("mine", "train", f"+value='{url}'", *more, rows=2, PAGER="sed s/^/paged:/")
        assert code == 0
        assert "paged:" in seen
        assert "\x1b" not in seen
        assert "s3cretpart9" not in seen


@pytest.mark.slow
def test_less_leaves_what_was_shown_on_the_screen(terminal):
    """As git sets it up: it ends by itself where all fits, keeps colours, clears nothing."""
    code, seen = terminal(*DRY, PAGER='printf "%s\\n" "$LESS"; cat')
    assert (code, seen.splitlines()[0]) == (0, "FRX")
    assert terminal(*DRY, LESS="R", PAGER='printf "%s\\n" "$LESS"; cat')[1].splitlines()[0] == "R"


@pytest.mark.slow
def test_the_page_at_80_columns(terminal):
    """Nothing of ours is wider, but for values, which are never broken."""
    for profile in ("my-cluster", "lepton", "runai", "box"):
        _, seen = terminal("nano3", "pretrain", "-c", "tiny", "--run", profile, "-d", rows=500)
        ours = re.split(r"^--- ", seen, maxsplit=1, flags=re.M)[0].split("\n\n", 1)[1].splitlines()
        wide = [line for line in ours if len(line) > 80 and not re.match(r"  \S.* = \S+(?: \S+)*$", line)]
        assert wide == []
