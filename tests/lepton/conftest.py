"""The Lepton lab, and what it saw when a test failed."""

from __future__ import annotations

from labs.lepton.fixtures import lepton_lab, mended_lepton, pytest_runtest_makereport

__all__ = ["lepton_lab", "mended_lepton", "pytest_runtest_makereport"]
