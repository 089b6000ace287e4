"""A Lepton profile: the workspace is asked for node groups, shapes and volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends.cloud.preflight.checks import PATIENCE
from nemo_runspec.backends.lepton.api import LeptonApi, connect, id_of, name_of
from nemo_runspec.backends.lepton.credentials import find_login
from nemo_runspec.backends.lepton.fields import FIELDS
from nemo_runspec.backends.lepton.resolve import Volume, volumes_of
from nemo_runspec.backends.lepton.shapes import gpus_of, job_shapes
from nemo_runspec.backends.setup import (
    IMAGE,
    Interview,
    Setup,
    SetupChoice,
    SetupQuestion,
    ask_image,
    best,
    helps_of,
    set_values,
)
from nemo_runspec.errors import UserError


def _found() -> str:
    try:
        return f"logged in to workspace {find_login().workspace}"
    except UserError:
        return ""


def _ask(interview: Interview) -> Mapping[str, Any]:
    api, groups = _reached(interview)
    names = tuple(SetupChoice(name_of(group) or id_of(group)) for group in groups)
    named = interview.ask(SetupQuestion("node_group", "Node group", best(names), names, closed=bool(names)))
    group = next((group for group in groups if named in (name_of(group), id_of(group))), None)
    shapes = _shapes(api, group) if api and group else ()
    text = "Resource shape of a node"
    shape = interview.ask(SetupQuestion("resource_shape", text, best(shapes), shapes, closed=bool(shapes)))
    return {
        **set_values({"node_group": named, "resource_shape": shape}),
        **_ask_place(interview, api, group),
        **ask_image(interview),
    }


def _reached(interview: Interview) -> tuple[LeptonApi | None, Sequence[Mapping[str, Any]]]:
    try:
        api = connect(patience=PATIENCE)
        groups = api.node_groups()
    except UserError as error:
        interview.say("\n".join(filter(None, (f"Lepton was not asked: {error.what}", error.remedy))))
        return None, ()
    interview.say(f"workspace {api.login.workspace}: {len(groups)} node groups")
    return api, groups


def _shapes(api: LeptonApi, group: Mapping[str, Any]) -> tuple[SetupChoice, ...]:
    """Those with the most GPUs first: whole nodes."""
    gpus = {id_of(shape): gpus_of(shape) for shape in job_shapes(api, id_of(group))}
    ordered = sorted(gpus, key=lambda shape: (-gpus[shape], shape))
    return tuple(SetupChoice(shape, f"{gpus[shape]:g} GPUs") for shape in ordered)


def _ask_place(interview: Interview, api: LeptonApi | None, group: Mapping[str, Any] | None) -> dict[str, Any]:
    """A volume of the node group, and the directory for jobs on it."""
    volumes = volumes_of(api, group) if api and group else []
    offered = {volume.source: volume for volume in volumes if volume.prefixes}
    choices = tuple(SetupChoice(source, f"folders: {', '.join(each.prefixes)}") for source, each in offered.items())
    source = interview.ask(SetupQuestion("volume", "Volume for jobs and outputs", best(choices), choices))
    place = f"/mnt/{source.rpartition(':')[2]}" if source else ""
    text = "Directory for jobs and outputs on it, as jobs see it"
    folder = interview.ask(SetupQuestion("nemo_run_dir", text, f"{place}/nemotron" if place else ""))
    known = offered.get(source)
    return {"nemo_run_dir": folder, "mounts": [_mount(source, folder, known)]} if source and folder else {}


def _mount(source: str, folder: str, volume: Volume | None) -> dict[str, str]:
    """The volume where the directory for jobs begins: at `/mnt/NAME`."""
    place = "/".join(folder.split("/")[:3])
    return {"path": volume.prefixes[0] if volume else "/", "mount_path": place, "from": source}


SETUP = Setup(
    _ask,
    "Lepton",
    {
        **helps_of(FIELDS, "node_group", "resource_shape", IMAGE),
        "volume": "Volume for jobs and outputs, such as node-nfs:lustre.",
        "nemo_run_dir": "Directory for jobs and outputs on that volume, as jobs see it.",
    },
    found=_found,
    image=True,
)
