"""The specification's first command on its profiles of Slurm; see first_command.py."""

from __future__ import annotations

import pytest
from first_command import cases, run_the_first_command

CASES = cases(lambda executor, block: executor == "slurm" and block < 10)


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_the_first_command(request, tmp_path, name, profile):
    run_the_first_command(request, tmp_path, name, profile)
