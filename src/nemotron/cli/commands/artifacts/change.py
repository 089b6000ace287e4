"""`nemotron artifacts add | tag | rm`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.console import note
from nemo_runspec.errors import UserError
from nemo_runspec.text import size
from nemotron.cli.commands.artifacts.opening import opened, tell_problems, writable
from nemotron.cli.confirm import confirmed
from nemotron.cli.forms import print_json

if TYPE_CHECKING:
    from nemo_runspec.artifacts.store_changes import WritableStorage


def add(
    path: str,
    name: str | None,
    type: str | None,
    tag: str | None,
    note: str | None,
    no_check: bool,
    profile: str | None,
    root: str | None,
    as_json: bool,
) -> int:
    """Registers data from outside."""
    from nemo_runspec.artifacts.store_changes import add as add_to
    from nemo_runspec.artifacts.store_changes import tag as tag_in
    from nemo_runspec.artifacts.types import Types
    from nemo_runspec.paths import expanded
    from nemotron.cli.commands.artifacts.listing import as_data

    if not name or not type:
        raise UserError("a version has a name and a type", remedy=f"artifacts add {path} --name NAME --type TYPE")
    types = Types.load()
    types.get(type)
    storage = writable(profile, root)
    whole = path if storage.elsewhere else str(expanded(path).absolute())
    if not storage.elsewhere and not Path(whole).exists():
        raise UserError(f"there is nothing at {path}", remedy="name a file or a folder")
    checked = not no_check and bool(types.checker(type))
    if checked:
        _require_good(storage, whole, types.checker(type), type)
    version = add_to(storage, name, whole, type=type, note=note or "")
    if tag:
        tag_in(storage, version, tag)
    if as_json:
        print_json(as_data(version))
        return 0
    looked = "" if checked else "; its content was not looked at"
    print(f"{version.reference}  {type}, {size(version.size or 0)}, {version.digest[:19]}{looked}")
    return 0


def register(job: str | None, as_json: bool) -> int:
    """Registers what ended jobs have made."""
    from nemo_runspec.records import JobStore
    from nemo_runspec.remote.registration import register_job, unregistered_jobs

    store = JobStore()
    jobs = [store.get(job)] if job else unregistered_jobs(store)
    made = {record.name: list(register_job(store, record)) for record in jobs}
    if as_json:
        print_json(made)
    elif not made:
        print("Nothing is left to be registered.")
    else:
        print("\n".join(f"{name}: registered {', '.join(artifacts)}" for name, artifacts in made.items()))
    return 0


def tag(reference: str, tag: str, profile: str | None, root: str | None) -> int:
    """Lets a tag lead to a version."""
    from nemo_runspec.artifacts.store_changes import require_manifest
    from nemo_runspec.artifacts.store_changes import tag as tag_in

    storage = writable(profile, root)
    version = opened(profile, root).get(reference)
    require_manifest(version)
    tag_in(storage, version, tag)
    print(f"{version.name}:{tag} is {version.reference}")
    return 0


def remove(reference: str, data: bool, yes: bool, profile: str | None, root: str | None) -> int:
    """Takes a version away, unless something else was made from it."""
    from nemo_runspec.artifacts.store_changes import remove as remove_from
    from nemo_runspec.artifacts.store_changes import require_manifest

    storage = writable(profile, root)
    registry = opened(profile, root)
    version = registry.get(reference)
    require_manifest(version)
    tell_problems(registry)
    made = [other.reference for other in registry.made_from(version)]
    if made:
        named = ", ".join(made[:5]) + (f" and {len(made) - 5} more" if len(made) > 5 else "")
        raise UserError(
            f"{version.reference} is not removed: {named} {'was' if len(made) == 1 else 'were'} made from it",
            remedy=f"remove that first: nemotron artifacts rm {made[0]}",
        )
    what = f"{version.reference} and its data, {size(version.size or 0)} in {version.path}" if data else (
        f"{version.reference}; its data stay in {version.path}"
    )  # fmt: skip
    if not confirmed(
        f"Remove {what}?", yes=yes, what=f"this would remove {what}", remedy="add -y where nobody can be asked"
    ):
        print("nothing was removed")
        return 1
    remove_from(storage, version, data=data)
    print(f"removed {what}")
    return 0


def _require_good(storage: WritableStorage, path: str, checker: str, type: str) -> None:
    from nemotron.cli.commands.artifacts.check import looked_at

    found = storage.checked(path, checker) if storage.elsewhere else looked_at(path, checker)
    for line in found["notes"]:
        note(f"not looked at: {line}")
    if found["unchecked"]:
        raise UserError(
            f"{path} could not be looked through as {type}: {found['unchecked']}", remedy="--no-check registers it"
        )
    if found["findings"]:
        first = found["findings"][0]
        place = f", {first['place']}" if first["place"] else ""
        all_of_it = "" if storage.elsewhere else f"all of it: nemotron artifacts check {path} --type {type}; "
        raise UserError(
            f"{path} is no whole {type}: {first['file']}{place}: {first['what']}",
            remedy=f"{all_of_it}--no-check registers it as it is",
        )
