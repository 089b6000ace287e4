"""Is this going to work? Looked at before a job is made: this machine, a profile, and what its backend needs."""

from __future__ import annotations

from nemo_runspec.check import Check, CheckRequest, failed, ok, skipped, warning

__all__ = ["Check", "CheckRequest", "failed", "ok", "skipped", "warning"]
