"""The health check of a container: docker-py's words in a profile, the engine's in the request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HEALTH: Mapping[str, str] = {
    "test": "Test",
    "interval": "Interval",
    "timeout": "Timeout",
    "retries": "Retries",
    "start_period": "StartPeriod",
}
"""docker-py's keys (`types.Healthcheck`) → the engine's. Times are in nanoseconds."""


def health_body(check: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine gets; a test written as one string runs in a shell, as docker-py has it."""
    body = {HEALTH[key]: value for key, value in check.items() if key in HEALTH}  # `fields.py` refuses others
    if isinstance(body.get("Test"), str):
        body["Test"] = ["CMD-SHELL", body["Test"]]
    return body
