"""Which hosts are this machine: only to those may a secret travel in clear."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from nemo_runspec.errors import UserError


def is_loopback(host: str | None) -> bool:
    """True if a host is this machine by its name, or by its address (127.0.0.0/8, ::1)."""
    from ipaddress import ip_address

    with suppress(ValueError):
        return ip_address(host or "").is_loopback
    return host == "localhost"


def is_in_clear(url: str) -> bool:
    """True if what is sent there can be read on the way: plain HTTP to another machine. A URL that is none is."""
    try:
        parts = urlsplit(url)
        return parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname))
    except ValueError:
        return True


def require_tls(key: str, url: str, sent: str, *, example: str = "https://example.com") -> None:
    """Refuses an address to which credentials would travel in clear. Plain HTTP stays on this machine.

    Args:
        key: which names the address: of the profile, or a variable.
        sent: what others could read, for a person.

    Raises:
        UserError: it is such an address, or none.
    """
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("https", "http") and bool(parts.hostname)
    except ValueError:  # such as `http://[::1`
        known = False
    if not known:
        raise UserError(f"{key} {url!r} is no URL", remedy=f"such as {example}", key=key)
    if is_in_clear(url):
        raise UserError(
            f"{key} {url!r} is plain HTTP: everybody on the way could read {sent}",
            remedy="use https://; http:// is for this machine alone, such as http://127.0.0.1:8080",
            key=key,
        )
