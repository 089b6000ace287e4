"""`nemotron artifacts pull`."""

from __future__ import annotations

from pathlib import Path

from nemo_runspec.errors import UserError
from nemotron.cli.commands.artifacts.opening import opened, tell_problems
from nemotron.cli.commands.jobs.pull import brought
from nemotron.cli.forms import print_json


def call(reference: str, to: str | None, no_verify: bool, profile: str | None, root: str | None, as_json: bool) -> int:
    """Brings a version's data into a folder here."""
    from nemo_runspec.artifacts.content import measured
    from nemo_runspec.paths import expanded
    from nemo_runspec.remote.artifact_stores import files_of, place_of

    registry = opened(profile, root)
    version = registry.get(reference)
    tell_problems(registry)
    files = files_of(registry.storage)
    where = place_of(registry.storage, version)
    tree = files.listed(where)
    if tree is None:
        raise UserError(f"the data of {version.reference} are gone: there is no {where} on {files.name}")
    top = expanded(to) if to else Path.cwd() / version.reference.replace(":", "-")
    brought(files, tree, top, version.reference)
    place = top if tree.is_folder else top / tree.files[0].path
    if version.digest and not no_verify:
        digest = measured(str(place))["digest"]
        if digest != version.digest:
            raise UserError(
                f"{version.reference} is not what was registered: {digest[:19]} here, {version.digest[:19]} then",
                where=str(place),
                remedy="its data have changed since, or the folder held other files before; --no-verify takes them so",
            )
    if as_json:
        verified = bool(version.digest) and not no_verify
        print_json({"reference": version.reference, "path": str(place), "verified": verified})
    else:
        print(place)
    return 0
