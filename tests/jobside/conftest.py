"""The fixtures of job tests."""

from __future__ import annotations

from job_fixtures import own_state, torch_bin

__all__ = ["own_state", "torch_bin"]
