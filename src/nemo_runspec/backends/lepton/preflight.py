"""Checks a Lepton profile, or a job, before it runs: the workspace is asked; nothing is made there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from nemo_runspec.backends.cloud.preflight import checks as cloud
from nemo_runspec.backends.cloud.preflight.room import Room, room_check
from nemo_runspec.backends.lepton.api import LeptonApi, connect, id_of, name_of, rows, section
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.nodes import is_open
from nemo_runspec.backends.lepton.resolve import Volume, fill_mounts, group_of, source_of, volumes_of
from nemo_runspec.backends.lepton.shapes import described, gpus_of, job_shapes, resolve_shape
from nemo_runspec.check import Check, CheckRequest, Verdict, failed, ok, skipped, warning
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.reading import count, number, text
from nemo_runspec.transport.web import Refused

_KEPT = "image_pull_secrets of the workspace"

_PHASES: Mapping[str, tuple[Verdict, str]] = {
    "reserv": ("ok", ""),
    "waiting": ("warning", "it is not in force yet: the job will wait for it"),
    "pending": ("warning", "it is not approved yet: the job will wait for it"),
    "expired": ("failed", "set node_reservation to one in force, or take it out"),
    "rejected": ("failed", "set node_reservation to one in force, or take it out"),
    "": ("warning", "this version does not know that phase"),
}
"""What a reservation's phase begins with, whatever its case."""


def checks(question: CheckRequest) -> Iterator[Check]:
    """As `profile_checks`. About ten requests."""
    platform = cloud.PlatformPreflight("Lepton", _KEPT, LeptonTarget, LeptonRequest, _connected, _reached, _all)
    yield from cloud.profile_checks(platform, "lepton", question.env)


def _connected(_: LeptonTarget) -> LeptonApi:
    return connect(patience=cloud.PATIENCE)


def fast_checks(api: LeptonApi, plan: Plan, group: Mapping[str, Any] | None = None) -> list[Check]:
    """What is wrong with a submission, as `submission_checks`. A request for each thing that the plan names.

    Args:
        group: the plan's node group, where it was asked for already.
    """
    need = plan.resources
    request = LeptonRequest(api, target_of(plan, LeptonTarget), need.nodes, need.gpus_per_node, group)
    return cloud.submission_checks(plan, _before(request))


@dataclass(frozen=True)
class LeptonRequest(cloud.JobRequest[LeptonApi, LeptonTarget]):
    """What a job asks of a workspace. `given`: its node group."""

    @cached_property
    def group(self) -> Mapping[str, Any] | None:
        """The node group it names, None where it names none. Raises `UserError` where there is no such group."""
        return self.given if self.given is not None else group_of(self.api, self.target)

    @property
    def group_id(self) -> str:
        """Its id, '' where it names none."""
        return id_of(self.group) if self.group else ""

    @cached_property
    def shapes(self) -> Sequence[Mapping[str, Any]]:
        """The shapes for jobs of that group, else of the workspace."""
        return job_shapes(self.api, self.group_id)

    @property
    def shape(self) -> Mapping[str, Any] | None:
        """The shape it names, None where it names none, or there is none of that name."""
        named = self.target.resource_shape
        return next((shape for shape in self.shapes if id_of(shape) == named), None) if named else None


def _reached(request: LeptonRequest) -> Iterator[Check]:
    """Checks whether the token is accepted, and for this workspace."""
    login = request.api.login

    def refused(error: Refused) -> Check:
        if error.status == 401:
            seen = f"Lepton does not accept the token of {login.source} (HTTP 401): it is wrong, or has expired"
            return failed("credentials", seen, error.remedy or "")
        if error.status == 403:
            seen = f"the token of {login.source} is not for workspace '{login.workspace}' (HTTP 403)"
            return failed("credentials", seen, "see LEPTON_WORKSPACE_ID, or take a token of that workspace")
        return failed("workspace", error.what, "see LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL")

    def answered(workspace: Mapping[str, Any]) -> Iterator[Check]:
        state = text(workspace.get("workspace_state"))
        yield ok("workspace", f"{login.workspace} at {login.url}{f', {state}' if state else ''}")

    yield from cloud.reached("workspace", login.source, request.api.workspace, answered, refused)


def _all(request: LeptonRequest) -> Iterator[Check]:
    lost = skipped("the rest of it", "shape, room and mounts are not checked: they are those of a node group")
    others = {name: _CHECKS[name] for name in ("nemo_run_dir", "secrets")}
    yield from cloud.unless_failed(
        cloud.run_check("node group", _group, request),
        cloud.run_checks(_CHECKS, request),
        chain([lost], cloud.run_checks(others, request)),
    )


def _before(request: LeptonRequest) -> Iterator[Check]:
    """What nobody else looks at before a submission: what the profile names, and whether there is room."""
    names = ("shape", "room", "reservation") if request.target.resource_shape else ("room", "reservation")
    checks = {**{name: _CHECKS[name] for name in names}, "mounts": _named_mounts}
    group = cloud.run_check("node group", _group, request, patient=True) if request.target.node_group else ()
    yield from cloud.unless_failed(group, cloud.run_checks(checks, request, patient=True), ())


def _group(request: LeptonRequest) -> Iterator[Check]:
    group = request.group
    if group is None:
        names = ", ".join(sorted(name_of(each) or id_of(each) for each in request.api.node_groups())) or "none"
        yield ok("node group", f"none is named, so that Lepton chooses; there are: {names}")
        return
    ready = count(section(group, "status").get("ready_nodes"))
    yield ok("node group", f"{name_of(group)} ({id_of(group)}){f', {ready} nodes ready' if ready is not None else ''}")


def _shape(request: LeptonRequest) -> Iterator[Check]:
    named, shape, gpus = request.target.resource_shape, request.shape, request.gpus
    if not named and gpus is None:
        yield skipped("shape", "none is named, and gpus_per_node is the recipe's", "set resource_shape")
    elif not named:
        yield ok("shape", f"{resolve_shape(request.api, gpus or 0, request.group_id)} has {gpus} GPUs")
    elif shape is None:
        where = "that node group" if request.group else "the workspace"
        have = ", ".join(described(request.shapes)) or "none"
        yield failed("shape", f"there is no resource_shape '{named}' for jobs in {where}", f"there are: {have}")
    elif gpus is not None and gpus_of(shape) != gpus:
        seen = f"{named} has {gpus_of(shape):g} GPUs, gpus_per_node is {gpus}"
        mend = "set gpus_per_node to that: processes are counted by it; or name another resource_shape"
        yield warning("shape", seen, mend)
    else:
        yield ok("shape", f"{named} has {gpus_of(shape):g} GPUs")


def _room(request: LeptonRequest) -> Iterator[Check]:
    """A pod takes the GPUs of its shape, whatever the profile says."""
    group, shape = request.group, request.shape
    gpus = request.gpus if shape is None else int(gpus_of(shape))
    if group is None or gpus is None:
        yield skipped("room", "not known: no node group is named" if group is None else "not known: of how many GPUs")
        return
    rooms = [room for node in request.api.nodes(request.group_id) if (room := _room_of(node)) is not None]
    if rooms or not gpus:
        yield room_check(f"node group {name_of(group)}", rooms, request.nodes, gpus)
    else:
        yield skipped("room", f"Lepton does not say what the nodes of {name_of(group)} have")


def _room_of(node: Mapping[str, Any]) -> Room | None:
    """GPUs of a machine, none of them on one that takes no jobs; None where that is not said."""
    gpu = section(node, "spec", "resource", "gpu") or section(node, "status", "resource", "gpu")
    total, used = number(gpu.get("total")), number(gpu.get("allocated")) or 0
    if total is None or total < 0:
        return None
    return Room(int(total), max(0, int(total - used))) if is_open(node) else Room(0, 0)


def _reservation(request: LeptonRequest) -> Iterator[Check]:
    named, group = request.target.node_reservation, request.group
    if not named:
        return
    if group is None:
        yield failed("reservation", f"{named} needs the node group it is of", "set node_group in the profile")
        return
    there = request.api.reservations(request.group_id)
    found = next((each for each in there if named in (id_of(each), name_of(each))), None)
    if found is None:
        have = ", ".join(map(id_of, there)) or "none"
        yield failed("reservation", f"node group {name_of(group)} has no reservation {named}", f"there are: {have}")
        return
    phase = text(section(found, "status").get("phase")) or text(found.get("phase"))
    verdict, mend = next(_PHASES[word] for word in _PHASES if phase.lower().startswith(word))
    yield Check("reservation", verdict, f"{named}: {phase or 'no phase'}", mend)


def _queue(request: LeptonRequest) -> Iterator[Check]:
    target, group = request.target, request.group
    values = {"queue_priority": target.queue_priority, "can_preempt": target.can_preempt}
    values = {key: value for key, value in {**values, "can_be_preempted": target.can_be_preempted}.items() if value}
    if not values:
        return
    if group is None or section(group, "status").get("quota_enabled") is False:
        why = "no node group is named" if group is None else f"{name_of(group)} has no quota"
        yield warning("queue", f"{', '.join(values)} will do nothing: {why}", "take them out, or set node_group")
    else:
        yield ok("queue", ", ".join(f"{key} = {value}" for key, value in values.items()))


def _mounts(request: LeptonRequest) -> Iterator[Check]:
    """Permissions prove a mount; that a path is here on this machine would prove nothing."""
    target = request.target
    if not target.mounts and not target.mounted_at:
        yield ok("mounts", "none")
        return
    filled = fill_mounts(request.api, target, request.group)
    if not target.mounted_at:
        yield from _each_mount(request, dict(enumerate(target.mounts)))
        return
    found = next(iter(filled.values()), None) or []
    yield from (ok("mounts", f"{each['path']} of {each['from']} at {each['mount_path']}") for each in found)
    if not found:
        yield warning("mounts", "the node group has no volume to mount", "what a job writes is lost when it ends")


def _named_mounts(request: LeptonRequest) -> Iterator[Check]:
    """Those whose volume the profile names; that of another was looked for among what may be mounted."""
    mounts = {n: mount for n, mount in enumerate(request.target.mounts) if mount.get("from")}
    if any(not str(mount["from"]).startswith("node-local") for mount in mounts.values()):
        yield from _each_mount(request, mounts)


def _each_mount(request: LeptonRequest, mounts: Mapping[int, Mapping[str, Any]]) -> Iterator[Check]:
    """Mounts, by their number in the profile: one request for each volume that is named, for all where one is not."""
    group, sources = request.group, {str(mount.get("from") or "") for mount in mounts.values()}
    if group is not None:
        volumes = volumes_of(request.api, group, only=() if "" in sources else sources)
    else:
        there = {source_of(each) for any_ in request.api.node_groups() for each in rows(any_, "spec", "volumes")}
        volumes = [Volume(source, source, ()) for source in sorted(there)]
    yield from (_mount(n, mount, volumes, placed=group is not None) for n, mount in mounts.items())


def _mount(number: int, mount: Mapping[str, Any], volumes: Sequence[Volume], *, placed: bool) -> Check:
    """A mount of a job. `placed`: its node group is known; without one, any may get it."""
    path, source = str(mount["path"]), str(mount.get("from") or "")
    shown = f"mounts[{number}]: {path} at {mount['mount_path']}"
    if source.startswith("node-local"):
        return ok("mounts", f"{shown}: the node's own disk")
    fitting = [volume for volume in volumes if source in ("", volume.source)]
    if not fitting and (source or placed):
        where = f"the node group has no volume {source}" if placed else f"no node group has a volume {source}"
        have = ", ".join(volume.source for volume in volumes) or "none"
        return failed("mounts", f"{shown}: {where}", f"from is one of: {have}")
    if not placed:
        return skipped("mounts", f"{shown}: not proved, as no node group is named", "set node_group in the profile")
    prefixes = [prefix for volume in fitting for prefix in volume.prefixes]
    if any(below(path, prefix.rstrip("/") or "/") for prefix in prefixes):
        return ok("mounts", f"{shown}: permitted on {fitting[0].source}")
    seen = f"{shown}: you have no permission for it on {fitting[0].source}"
    return failed("mounts", seen, f"you have: {', '.join(prefixes) or 'none'}")


def _run_dir(request: LeptonRequest) -> Iterator[Check]:
    yield cloud.run_dir_check(request.target, "nemo_run_dir", "a mount", _on_no_mount)


def _on_no_mount(key: str, folder: str) -> Check:
    seen = f"{folder} is on none of mounts: what a job writes there is lost when it ends"
    return warning(key, seen, "put it below a mount_path; several nodes, or outputs, need that")


def _secrets(request: LeptonRequest) -> Iterator[Check]:
    target, mend = request.target, "make it in the workspace, or correct the profile"
    if target.secret_vars:
        names = target.secret_vars.values()
        yield cloud.names_check("secret_vars", names, request.api.secrets(), "secret of the workspace", mend)
    if target.image_pull_secrets:
        there = request.api.image_pull_secrets()
        yield cloud.names_check("pull secrets", target.image_pull_secrets, there, "secret for registries", mend)


_CHECKS: Mapping[str, Callable[[LeptonRequest], Iterable[Check]]] = {
    "shape": _shape, "room": _room, "reservation": _reservation, "queue": _queue, "mounts": _mounts,
    "nemo_run_dir": _run_dir, "secrets": _secrets,
}  # fmt: skip
"""What is looked at besides the node group, in the order in which it is shown."""
