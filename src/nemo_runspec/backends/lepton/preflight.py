"""Whether a Lepton profile, or a job, is going to work: the workspace is asked; nothing is made there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.cloud import preflight as cloud
from nemo_runspec.backends.lepton.api import LeptonApi, connect, id_of, name_of, rows, section
from nemo_runspec.backends.lepton.fields import LeptonTarget
from nemo_runspec.backends.lepton.mounts import Volume, fill_mounts, source_of, volumes_of
from nemo_runspec.backends.lepton.nodes import is_open
from nemo_runspec.backends.lepton.shapes import described, gpus_of, job_shapes, resolve_shape
from nemo_runspec.check import Check, Question, failed, of_error, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import narrowed, target_of
from nemo_runspec.transport.reading import count, number, text
from nemo_runspec.transport.web import Refused

_PATIENCE = 20.0
"""Seconds that a question of the doctor's may take in all."""

_KEPT = "image_pull_secrets of the workspace"

_OF_A_GROUP = ("shape", "room", "reservation", "queue", "mounts")
"""What cannot be looked at without the node group that is named."""

_PHASES: Mapping[str, tuple[Callable[..., Check], str]] = {
    "reserv": (ok, ""),
    "waiting": (warning, "it is not in force yet: the job will wait for it"),
    "pending": (warning, "it is not approved yet: the job will wait for it"),
    "expired": (failed, "set node_reservation to one in force, or take it out"),
    "rejected": (failed, "set node_reservation to one in force, or take it out"),
}
"""What a reservation's phase begins with, whatever its case."""


def checks(question: Question) -> Iterator[Check]:
    """Everything, each check as soon as it is known. About ten requests."""
    target = narrowed(get_backend("lepton").target_alone(question.env), LeptonTarget)
    yield from cloud.profile_checks(_of_workspace(target, question.env), target, question.env, _KEPT)


def fast_checks(api: LeptonApi, plan: Plan, group: Mapping[str, Any] | None = None) -> list[Check]:
    """What is wrong with a submission, as `submission_checks`. Few requests: at most one each for the node groups, the
    group's nodes, its shapes and its reservations, each only where the plan names one; and one for each volume that
    its mounts name, and for each address on S3.

    Args:
        group: the plan's node group, where it was asked for already.

    Raises:
        Unreachable: as the API.
    """
    wanted = LeptonRequest(
        api, target_of(plan, LeptonTarget), plan.resources.nodes, plan.resources.gpus_per_node, group
    )
    return cloud.submission_checks(plan, _before(wanted))


@dataclass(frozen=True)
class LeptonRequest(cloud.JobRequest[LeptonApi, LeptonTarget]):
    """What a job asks of a workspace. `given`: its node group."""

    @cached_property
    def group(self) -> Mapping[str, Any] | None:
        """The node group it names, None where it names none. Raises `UserError` where there is no such group."""
        if self.given is not None or not self.target.node_group:
            return self.given
        return self.api.node_group(self.target.node_group)

    @cached_property
    def shapes(self) -> Sequence[Mapping[str, Any]]:
        """The shapes for jobs of that group, else of the workspace."""
        return job_shapes(self.api, id_of(self.group) if self.group else "")

    @property
    def pod_gpus(self) -> int | None:
        """GPUs that one pod takes of a machine: those of its shape."""
        named = [shape for shape in self.shapes if id_of(shape) == self.target.resource_shape]
        return int(gpus_of(named[0])) if named else self.gpus


def _of_workspace(target: LeptonTarget, env: Mapping[str, Any]) -> Iterator[Check]:
    try:
        api = connect(patience=_PATIENCE)
    except UserError as error:
        yield of_error("credentials", error)
        yield skipped("Lepton", "not checked: there is no login")
        return
    wanted = LeptonRequest(api, target, int(env.get("nodes") or 1), env.get("gpus_per_node"))
    instead = skipped("the rest of Lepton", "not checked: the workspace does not answer as it should")
    yield from cloud.unless_failed(_reached(api), lambda: _all(wanted), instead)


def _reached(api: LeptonApi) -> Iterator[Check]:
    """Whether the token is accepted, and for this workspace."""
    login = api.login
    try:
        told = api.workspace()
    except Refused as error:
        if error.status == 401:
            seen = f"Lepton does not accept the token of {login.source} (HTTP 401): it is wrong, or has expired"
            yield failed("credentials", seen, error.remedy or "")
        elif error.status == 403:
            seen = f"the token of {login.source} is not for workspace '{login.workspace}' (HTTP 403)"
            yield failed("credentials", seen, "see LEPTON_WORKSPACE_ID, or take a token of that workspace")
        else:
            yield failed("workspace", error.what, "see LEPTON_WORKSPACE_ID and LEPTON_WORKSPACE_URL")
    except UserError as error:
        yield ok("credentials", f"found: {login.source}; whether they are accepted is not known")
        yield of_error("workspace", error)
    else:
        yield ok("credentials", f"{login.source} is accepted")
        state = text(told.get("workspace_state"))
        yield ok("workspace", f"{login.workspace} at {login.url}{f', {state}' if state else ''}")


def _all(wanted: LeptonRequest) -> Iterator[Check]:
    group = list(cloud.told("node group", partial(_group, wanted)))
    yield from group
    lost = any(check.verdict == "failed" for check in group)
    if lost:
        yield skipped("the rest of it", "shape, room and mounts are not checked: they are those of a node group")
    looks = {name: look for name, look in _LOOKS.items() if not (lost and name in _OF_A_GROUP)}
    yield from cloud.looked_at(looks, wanted)


def _before(wanted: LeptonRequest) -> Iterator[Check]:
    """What nobody else looks at before a submission: what the profile names, and whether there is room."""
    group = list(cloud.told("node group", lambda: _group(wanted) if wanted.target.node_group else (), patient=True))
    if any(check.verdict == "failed" for check in group):
        yield from group
        return
    names = ("shape", "room", "reservation") if wanted.target.resource_shape else ("room", "reservation")
    looks = {**{name: _LOOKS[name] for name in names}, "mounts": _named_mounts}
    yield from cloud.looked_at(looks, wanted, patient=True)


def _group(wanted: LeptonRequest) -> Iterator[Check]:
    group = wanted.group
    if group is None:
        names = ", ".join(sorted(name_of(each) or id_of(each) for each in wanted.api.node_groups())) or "none"
        yield ok("node group", f"none is named, so that Lepton chooses; there are: {names}")
        return
    ready = count(section(group, "status").get("ready_nodes"))
    yield ok("node group", f"{name_of(group)} ({id_of(group)}){f', {ready} nodes ready' if ready is not None else ''}")


def _shape(wanted: LeptonRequest) -> Iterator[Check]:
    named = wanted.target.resource_shape
    group = id_of(wanted.group) if wanted.group else ""
    if not named:
        if wanted.gpus is None:
            yield skipped("shape", "none is named, and gpus_per_node is the recipe's", "set resource_shape")
            return
        yield ok("shape", f"{resolve_shape(wanted.api, wanted.gpus, group)} has {wanted.gpus} GPUs")
        return
    found = [shape for shape in wanted.shapes if id_of(shape) == named]
    if not found:
        where = "that node group" if group else "the workspace"
        have = ", ".join(described(wanted.shapes)) or "none"
        yield failed("shape", f"there is no resource_shape '{named}' for jobs in {where}", f"there are: {have}")
    elif wanted.gpus is not None and gpus_of(found[0]) != wanted.gpus:
        seen = f"{named} has {gpus_of(found[0]):g} GPUs, gpus_per_node is {wanted.gpus}"
        yield warning("shape", seen, "name another resource_shape, or leave it out to take the one that fits")
    else:
        yield ok("shape", f"{named} has {gpus_of(found[0]):g} GPUs")


def _room(wanted: LeptonRequest) -> Iterator[Check]:
    group = wanted.group
    gpus = wanted.pod_gpus if wanted.target.resource_shape else wanted.gpus
    if group is None or gpus is None:
        yield skipped("room", "not known: no node group is named" if group is None else "not known: of how many GPUs")
        return
    rooms = [room_of(node) for node in wanted.api.nodes(id_of(group))]
    known = [room for room in rooms if room is not None]
    if not known and gpus:
        yield skipped("room", f"Lepton does not say what the nodes of {name_of(group)} have")
        return
    yield cloud.room_check(f"node group {name_of(group)}", known, wanted.nodes, gpus)


def room_of(node: Mapping[str, Any]) -> cloud.Room | None:
    """GPUs of a machine, none of them on one that takes no jobs; None where that is not said."""
    spec = section(node, "spec")
    gpu = section(spec, "resource", "gpu") or section(node, "status", "resource", "gpu")
    total, used = number(gpu.get("total")), number(gpu.get("allocated")) or 0
    if total is None or total < 0:
        return None
    return cloud.Room(int(total), max(0, int(total - used))) if is_open(node) else cloud.Room(0, 0)


def _reservation(wanted: LeptonRequest) -> Iterator[Check]:
    named, group = wanted.target.node_reservation, wanted.group
    if not named:
        return
    if group is None:
        yield failed("reservation", f"{named} needs the node group it is of", "set node_group in the profile")
        return
    there = wanted.api.reservations(id_of(group))
    found = [each for each in there if named in (id_of(each), name_of(each))]
    if not found:
        have = ", ".join(id_of(each) for each in there) or "none"
        yield failed("reservation", f"node group {name_of(group)} has no reservation {named}", f"there are: {have}")
        return
    phase = text(section(found[0], "status").get("phase")) or text(found[0].get("phase"))
    unknown = (warning, "this version does not know that phase")
    verdict, mend = next((_PHASES[word] for word in _PHASES if phase.lower().startswith(word)), unknown)
    yield verdict("reservation", f"{named}: {phase or 'no phase'}", *([mend] if mend else []))


def _queue(wanted: LeptonRequest) -> Iterator[Check]:
    target = wanted.target
    keys = [key for key in ("queue_priority", "can_preempt", "can_be_preempted") if getattr(target, key)]
    if not keys:
        return
    quota = section(wanted.group, "status").get("quota_enabled") if wanted.group else None
    if wanted.group is None or quota is False:
        why = "no node group is named" if wanted.group is None else f"{name_of(wanted.group)} has no quota"
        yield warning("queue", f"{', '.join(keys)} will do nothing: {why}", "take them out, or set node_group")
    else:
        yield ok("queue", ", ".join(f"{key} = {getattr(target, key)}" for key in keys))


def _mounts(wanted: LeptonRequest) -> Iterator[Check]:
    """Permissions prove a mount; that a path is here on this machine would prove nothing."""
    target, group = wanted.target, wanted.group
    if not target.mounts and not target.mounted_at:
        yield ok("mounts", "none")
        return
    filled = fill_mounts(wanted.api, target, group)
    if target.mounted_at:
        found = next(iter(filled.values()), None) or []
        yield from (ok("mounts", f"{each['path']} of {each['from']} at {each['mount_path']}") for each in found)
        if not found:
            yield warning("mounts", "the node group has no volume to mount", "what a job writes is lost when it ends")
        return
    yield from _each_mount(wanted, dict(enumerate(target.mounts)))


def _named_mounts(wanted: LeptonRequest) -> Iterator[Check]:
    """Those whose volume the profile names; that of another was looked for among what may be mounted."""
    mounts = {n: mount for n, mount in enumerate(wanted.target.mounts) if mount.get("from")}
    if any(not str(mount["from"]).startswith("node-local") for mount in mounts.values()):
        yield from _each_mount(wanted, mounts)


def _each_mount(wanted: LeptonRequest, mounts: Mapping[int, Mapping[str, Any]]) -> Iterator[Check]:
    """Mounts, by their number in the profile: one request for each volume that is named, for all where one is not."""
    group, sources = wanted.group, {str(mount.get("from") or "") for mount in mounts.values()}
    if group is not None:
        volumes = volumes_of(wanted.api, group, only=() if "" in sources else sources)
        yield from (_mount(n, mount, volumes) for n, mount in mounts.items())
        return
    there = {source_of(each) for any_ in wanted.api.node_groups() for each in rows(any_, "spec", "volumes")}
    yield from (_unplaced(n, mount, there) for n, mount in mounts.items())


def _mount(number: int, mount: Mapping[str, Any], volumes: Sequence[Volume]) -> Check:
    path, source = str(mount["path"]), str(mount.get("from") or "")
    shown = f"mounts[{number}]: {path} at {mount['mount_path']}"
    if source.startswith("node-local"):
        return ok("mounts", f"{shown}: the node's own disk")
    fitting = [volume for volume in volumes if source in ("", volume.source)]
    if not fitting:
        have = ", ".join(volume.source for volume in volumes) or "none"
        return failed("mounts", f"{shown}: the node group has no volume {source}", f"from is one of: {have}")
    if any(below(path, prefix.rstrip("/") or "/") for volume in fitting for prefix in volume.prefixes):
        return ok("mounts", f"{shown}: permitted on {fitting[0].source}")
    have = ", ".join(prefix for volume in fitting for prefix in volume.prefixes) or "none"
    return failed("mounts", f"{shown}: you have no permission for it on {fitting[0].source}", f"you have: {have}")


def _unplaced(number: int, mount: Mapping[str, Any], there: Collection[str]) -> Check:
    """A mount of a job that any node group may get."""
    source = str(mount.get("from") or "")
    shown = f"mounts[{number}]: {mount['path']} at {mount['mount_path']}"
    if source.startswith("node-local"):
        return ok("mounts", f"{shown}: the node's own disk")
    if source and source not in there:
        have = ", ".join(sorted(there)) or "none"
        return failed("mounts", f"{shown}: no node group has a volume {source}", f"from is one of: {have}")
    return skipped("mounts", f"{shown}: not proved, as no node group is named", "set node_group in the profile")


def _run_dir(wanted: LeptonRequest) -> Iterator[Check]:
    target = wanted.target
    if target.shared:
        yield ok("nemo_run_dir", f"{target.nemo_run_dir} is on a mount")
        return
    seen = f"{target.nemo_run_dir} is on none of mounts: what a job writes there is lost when it ends"
    yield warning("nemo_run_dir", seen, "put it below a mount_path; several nodes, or outputs, need that")


def _secrets(wanted: LeptonRequest) -> Iterator[Check]:
    target, mend = wanted.target, "make it in the workspace, or correct the profile"
    if target.secret_vars:
        names = target.secret_vars.values()
        yield cloud.names_check("secret_vars", names, wanted.api.secrets(), "secret of the workspace", mend)
    if target.image_pull_secrets:
        there = wanted.api.image_pull_secrets()
        yield cloud.names_check("pull secrets", target.image_pull_secrets, there, "secret for registries", mend)


_LOOKS: Mapping[str, Callable[[LeptonRequest], Iterable[Check]]] = {
    "shape": _shape, "room": _room, "reservation": _reservation, "queue": _queue, "mounts": _mounts,
    "nemo_run_dir": _run_dir, "secrets": _secrets,
}  # fmt: skip
"""What is looked at besides the node group, in the order in which it is shown."""
