"""The version of the toolkit, and where its files lie."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"

FOLDER = Path(__file__).parent
"""The package's own folder: programs that go with jobs are made of its files."""
