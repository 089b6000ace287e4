"""Whether the secrets that a profile lists, and the credentials its env file implies, are found here. Never shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nemo_runspec import secrets
from nemo_runspec.doctor.check import Check, failed, ok, skipped, warning

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
        sections: of the env file. `names`, `given`: as for `listed`; what is listed there is not said again.
    """
    table = sections.get("wandb") or {}
    wanted = any(table.get(key) for key in ("project", "entity")) and table.get("mode") not in ("disabled", "offline")
    asked = ((_WANDB, "W&B", wanted, "wandb login"), (_HF, "Hugging Face", False, "hf auth login"))
    for variable, name, needed, login in asked:
        if variable in names:
            continue
        reference, value = secrets.find(variable)
        if value or given.get(variable):
            yield ok(name, f"{variable}: found ({reference.origin if value else 'profile'})")
        elif needed:
            seen = f"[wandb] is set up, but no {variable} is found here{_note(reference.detail)}"
            yield warning(name, seen, f"{login}, or export {variable}=…")
        else:
            yield skipped(name, f"no {variable} is found here{_note(reference.detail)}; this profile asks for none")


def _note(detail: str) -> str:
    return f" ({detail})" if detail else ""
