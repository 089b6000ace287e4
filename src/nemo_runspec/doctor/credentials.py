"""Checks that the secrets a profile lists, and the credentials its env file implies, are found here. Never shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_runspec import secrets
from nemo_runspec.check import Check, failed, ok, skipped, warning
from nemo_runspec.doctor import hub

_WANDB, _HF = "WANDB_API_KEY", "HF_TOKEN"


def listed(names: Iterable[str], given: Mapping[str, Any]) -> Iterator[Check]:
    """The secrets a profile lists. `given`: its `env_vars`, which may bring one."""
    found, missing = [], []
    for name in names:
        reference, value = secrets.find(name)
        if value or given.get(name):
            found.append(f"{name} ({reference.origin if value else 'profile'})")
        else:
            missing.append(name)
    if missing:
        mend = " ".join(f"export {name}=…" for name in missing)
        yield failed("secrets", f"not found here: {', '.join(missing)}", mend)
    elif found:
        yield ok("secrets", ", ".join(found))


def usual(sections: Mapping[str, Mapping[str, Any]], names: Iterable[str], given: Mapping[str, Any]) -> Iterator[Check]:
    """W&B's key, where the env file names a project, and Hugging Face's token.

    Args:
        sections: of the env file.
        names, given: as for `listed`; what is listed there is not said again.
    """
    table = sections.get("wandb") or {}
    wanted = any(table.get(key) for key in ("project", "entity")) and table.get("mode") not in ("disabled", "offline")
    asked = ((_WANDB, "W&B", wanted, "wandb login"), (_HF, "Hugging Face", False, "hf auth login"))
    for variable, name, needed, login in asked:
        reference, value = secrets.find(variable)
        value = value or str(given.get(variable) or "")
        if value and variable == _HF:
            yield _hugging_face(value, reference.origin if reference.origin != "missing" else "profile", login)
        elif variable in names:
            continue
        elif value:
            yield ok(name, f"{variable}: found ({reference.origin if reference.origin != 'missing' else 'profile'})")
        elif needed:
            seen = f"[wandb] is set up, but no {variable} is found here{_note(reference.detail)}"
            yield warning(name, seen, f"{login}, or export {variable}=…")
        else:
            yield skipped(name, f"no {variable} is found here{_note(reference.detail)}; this profile asks for none")


def _hugging_face(token: str, origin: str, login: str) -> Check:
    """Checks whether the hub takes the token, where it answers."""
    name, found = "Hugging Face", f"{_HF}: found ({origin})"
    answer = hub.ask(token)
    if answer == "refused":
        return failed(name, f"{hub.hub_url()} does not accept {_HF} ({origin})", f"{login}, or export {_HF}=…")
    said = {
        "accepted": f", and {hub.hub_url()} accepts it",
        "silent": f"; {hub.hub_url()} did not say whether it accepts it",
        "unsafe": f"; not asked whether it is accepted: {hub.hub_url()} is no https:// address",
        "offline": "",
    }
    return ok(name, f"{found}{said[answer]}")


def _note(detail: str) -> str:
    return f" ({detail})" if detail else ""
