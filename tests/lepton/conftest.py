"""The Lepton lab."""

from __future__ import annotations

from labs.lepton.fixtures import lepton_lab

__all__ = ["lepton_lab"]
