"""Checks a token with Hugging Face: by the hub's own `whoami`, the token in a header over TLS, no redirect."""

from __future__ import annotations

import os
from http.client import HTTPException
from typing import Literal
from urllib.error import HTTPError

HubAnswer = Literal["accepted", "refused", "silent", "offline", "unsafe"]

_HUB, _PATH = "https://huggingface.co", "/api/whoami-v2"
_SECONDS = 5.0
_TRUE = frozenset({"1", "on", "yes", "true"})


def hub_url() -> str:
    """The hub that `huggingface_hub` would use: `HF_ENDPOINT`, else Hugging Face's own."""
    return (os.environ.get("HF_ENDPOINT") or _HUB).rstrip("/")


def ask(token: str) -> HubAnswer:
    """What the hub says of a token.

    Returns:
        `refused`: it does not know it. `silent`: it did not answer, or with anything else. `offline`: it is not asked
        where `HF_HUB_OFFLINE` says so. `unsafe`: nor where anybody on the way could read the token.
    """
    from urllib.request import Request

    from nemo_runspec.transport.loopback import is_in_clear
    from nemo_runspec.transport.registry import opener

    if os.environ.get("HF_HUB_OFFLINE", "").casefold() in _TRUE:
        return "offline"
    if is_in_clear(hub_url()):
        return "unsafe"
    try:
        request = Request(f"{hub_url()}{_PATH}", headers={"Authorization": f"Bearer {token}"})
        with opener(follow=False).open(request, timeout=_SECONDS) as answer:
            return "accepted" if answer.status == 200 else "silent"
    except HTTPError as error:
        return "refused" if error.code in (401, 403) else "silent"
    except (OSError, HTTPException, ValueError):  # not reached, no URL, or a token that no header can hold
        return "silent"
