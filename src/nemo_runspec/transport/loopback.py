"""Which hosts are this machine: only to those may a secret travel in clear."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine by its name, or by its address (127.0.0.0/8, ::1)."""
    from ipaddress import ip_address

    with suppress(ValueError):
        return ip_address(host or "").is_loopback
    return host == "localhost"


def is_in_clear(url: str) -> bool:
    """Whether what is sent there can be read on the way: plain HTTP to another machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and not is_loopback(parts.hostname)
