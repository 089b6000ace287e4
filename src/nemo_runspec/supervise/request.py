"""The wish of another process that a job be ended. It lies with the records, as it says how a job ended."""

from __future__ import annotations

from nemo_runspec.jobs.request import CancelRequest, read_request, write_request

__all__ = ["CancelRequest", "read_request", "write_request"]
