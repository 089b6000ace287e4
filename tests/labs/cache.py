"""Where the tests keep what takes long to make: once for all test processes, and for the next run."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(os.environ.get("NEMOTRON_TEST_CACHE", Path.home() / ".cache" / "nemotron-tests"))
"""Found when this module is imported: a test has another HOME later, and what it asks for first was kept there."""

UV_CACHE = Path(
    os.environ.get("UV_CACHE_DIR") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "uv"
)
"""What uv has downloaded: the same for everybody, so that tests with a home of their own may use the user's."""
