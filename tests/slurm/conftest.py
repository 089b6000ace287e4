"""The labs, and what they looked like when a test failed."""

from __future__ import annotations

from labs.slurm.fixtures import (
    mended_slurm,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    slurm_lab,
    slurm_lab_plain,
)

__all__ = ["mended_slurm", "pytest_runtest_makereport", "pytest_runtest_protocol", "slurm_lab", "slurm_lab_plain"]
