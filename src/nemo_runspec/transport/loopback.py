"""Which hosts are this machine: only to those may a secret travel in clear."""

from __future__ import annotations

from contextlib import suppress


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine by its name, or by its address (127.0.0.0/8, ::1)."""
    from ipaddress import ip_address

    with suppress(ValueError):
        return ip_address(host or "").is_loopback
    return host == "localhost"
