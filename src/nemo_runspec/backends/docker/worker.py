"""Docker jobs: one container on this machine, made from exactly the request that a dry run shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.backends.checks import MOUNTED
from nemo_runspec.backends.docker.container import (
    end_container,
    find_container,
    forget_place,
    has_ended,
    inspect,
    is_running,
    note_place,
    noted_place,
    remove_container,
)
from nemo_runspec.backends.docker.engine import connect, engine, is_gone, is_rootless, refusals, refused, words_of
from nemo_runspec.backends.docker.fields import DockerTarget, missing_sources
from nemo_runspec.backends.docker.identity import is_root
from nemo_runspec.backends.docker.images import ensure_image
from nemo_runspec.backends.docker.log_tail import complete_log, try_complete_log
from nemo_runspec.backends.docker.networks import address_of, drop_network, ensure_network
from nemo_runspec.backends.docker.render import request_body, request_query
from nemo_runspec.backends.docker.stream import Output
from nemo_runspec.backends.docker.work import ContainerWork, cause_of, has_begun
from nemo_runspec.backends.worker import ShellWorker, WorkerStatus
from nemo_runspec.console import Say
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.locks import Busy
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.records.process import is_alive
from nemo_runspec.records.record import JobRecord
from nemo_runspec.script.enter import ShellRequest
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import marked_end, read_markers
from nemo_runspec.script.quoting import exports

_TRIES = 3
_LATER = "and what it prints is added to its log when it has ended"


class DockerWorker(ShellWorker):
    """Makes Docker jobs ready, starts, finds and ends them."""

    def check(self, plan: Plan) -> None:
        """Asks the engine for what the plan needs of it, and this machine for what is mounted.

        The folder of artifacts is made, where it is mounted for the job alone.

        Raises:
            UserError: no engine, no permission, an unknown runtime, a mount whose path is not there.
        """
        _make_store(plan)
        _refuse_missing(plan)
        body = request_body(plan)
        with engine() as client, refusals("say what it is"):
            info = client.info()
        _refuse_runtime(body["HostConfig"].get("Runtime"), info)
        if is_rootless(info) and not is_root(body.get("User", "0")):
            raise UserError(
                f"the Docker engine is rootless, where you are the container's root, not its user {body['User']}",
                where=plan.env_file,
                remedy='set user = "root" in the profile',
            )

    def prepare(self, plan: Plan, say: Say) -> None:
        """Pulls the image where the engine does not have it. Raises `UserError`."""
        with engine() as client:
            image = target_of(plan, DockerTarget).container_image
            ensure_image(client, image, say, request_query(plan).get("platform"))

    def start(self, plan: Plan, prepared: None, secrets: Mapping[str, str]) -> ContainerWork:
        """Makes the container, attaches to it and starts it.

        Raises:
            UserError: the engine refuses; nothing is left behind then.
        """
        folder = Path(plan.job_dir)
        client = connect()
        made: dict[str, Any] = {}
        try:
            _make_folders(plan)
            _write_secrets(JobLayout(plan.job_dir), secrets)
            return _started(client, plan, folder, made)
        except BaseException:
            _undo(client, plan, made)
            raise

    def address(self, record: JobRecord, folder: Path) -> str:
        """The container's own, or this machine's where it has its network."""
        place = noted_place(folder)
        with engine(place.host if place else None) as client:
            known = find_container(client, record.name, folder, place)
        return address_of(known or {}, record.name)

    def shell(self, record: JobRecord, folder: Path, entry: ShellRequest) -> Sequence[str]:
        """As `ShellWorker.shell`: Docker's own command-line tool does it."""
        place = noted_place(folder)
        host = ("--host", place.host) if place else ()
        terminal = ("--tty",) if entry.terminal else ()
        return ("docker", *host, "exec", "--interactive", *terminal, record.name, *replace(entry, root=MOUNTED).words)

    def status(self, record: JobRecord, folder: Path) -> WorkerStatus:
        """What the exit marker says, else what the engine knows of the container."""
        marked = _seen_by_marker(folder)
        if marked is not None:
            return marked
        place = noted_place(folder)
        try:
            with engine(place.host if place else None) as client:
                known = find_container(client, record.name, folder, place)
        except UserError as error:
            return WorkerStatus("unknown", text_lines(error.what)[0])
        if known is None:
            why = "its supervisor and its container are gone, and it left no exit marker"
            return WorkerStatus("lost", why, absent=place is not None)
        return _seen(known, JobLayout(str(folder)))

    def end(self, record: JobRecord, folder: Path, grace: float) -> str:
        """TERM, `grace` seconds, KILL; then the log is completed, container and network are removed.

        Returns: what could not be done beyond the end itself. Raises `UserError`: it could not be ended.
        """
        left = ""
        place = noted_place(folder)
        with engine(place.host if place else None) as client:
            known = find_container(client, record.name, folder, place)
            if known is not None:
                with refusals("end the job's container"):
                    end_container(client, known["Id"], grace)
                left = _taken_away(client, record, known, folder)
        _remove_secrets(folder)
        return left

    def settle(self, record: JobRecord, folder: Path) -> bool:
        """Takes what the engine has of its output into its log, once the container has ended."""
        place = noted_place(folder)
        with engine(place.host if place else None) as client:
            known = find_container(client, record.name, folder, place)
            if known is None:
                return True
            if is_running(known):
                return False
            if place is None:  # its supervisor was killed before it could
                note_place(folder, known["Id"])
            return _log_completed(client, known["Id"], folder)

    def clear(self, record: JobRecord, folder: Path) -> None:
        """Removes its container and network; the engine is asked only where the job's folder names a container."""
        _remove_secrets(folder)
        place = noted_place(folder)
        if place is None:
            return
        with engine(place.host) as client:
            known = find_container(client, record.name, folder, place)
            if known is not None and is_running(known):
                short = place.container[:12]
                raise UserError(f"container {short} of job '{record.name}' still runs", remedy=f"docker stop {short}")
            left = _clear_away(client, known, folder, is_lost=record.state == "lost")
        if left:
            raise UserError(left)


def _make_store(plan: Plan) -> None:
    """The folder of artifacts that is mounted for the job alone; Docker would make it as root."""
    target = target_of(plan, DockerTarget)
    if not target.store:
        return
    try:
        Path(target.store).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        source = plan.sources.get("run.artifacts.root")
        raise UserError(
            f"the folder of artifacts cannot be made: {target.store}: {error.strerror}",
            where=source.place() if source else plan.env_file,
            remedy="set run.artifacts.root to a folder that you may write to",
        ) from None


def _refuse_missing(plan: Plan) -> None:
    lines = missing_sources(target_of(plan, DockerTarget).volumes, (mount.path for mount in plan.auto_mounts))
    if lines:
        raise Problems(
            "what is to be mounted is not there; nothing was submitted",
            [UserError(line) for line in lines],
            remedy="make it, or correct mounts; Docker would make an empty folder owned by root",
        )


def _refuse_runtime(runtime: str | None, info: Mapping[str, Any]) -> None:
    """An engine also takes the names of containerd's shims, which have dots and are not listed."""
    have = info.get("Runtimes") or {}
    if runtime and have and runtime not in have and "." not in runtime:
        known = ", ".join(sorted(name for name in have if "." not in name))
        raise UserError(
            f"runtime: the Docker engine has no '{runtime}'", remedy=f"it has: {known}; or leave runtime out"
        )


def _make_folders(plan: Plan) -> None:
    """Docker makes what is missing of a mount as root, so it is made here."""
    for folder in (paths.run_dir(), target_of(plan, DockerTarget).home):
        if folder:
            paths.private_dir(Path(folder))


def _write_secrets(layout: JobLayout, secrets: Mapping[str, str]) -> None:
    """The file that the job script reads and removes; a request is visible to all who may ask the engine."""
    if secrets:
        paths.write_private(Path(layout.secrets), exports(secrets))


def _started(client: Any, plan: Plan, folder: Path, made: dict[str, Any]) -> ContainerWork:
    """The running container. What the engine knows of it is put into `made` as soon as there is something."""
    body = request_body(plan)
    with refusals("make the container"):
        made.update(_created(client, plan, body))
        note_place(folder, made["Id"])
        output = Output(client, made["Id"], terminal=bool(body.get("Tty")))
        try:
            _start(
                client,
                made["Id"],
                body["HostConfig"].get("NetworkMode", "default"),
                target_of(plan, DockerTarget).container_image,
            )
        except BaseException:
            output.close()
            raise
    return ContainerWork(client, made, output, folder)


def _created(client: Any, plan: Plan, body: dict[str, Any]) -> dict[str, Any]:
    from docker.errors import APIError

    query = request_query(plan)
    try:
        created = client.create_container_from_config(body, query["name"], query.get("platform"))
    except APIError as error:
        raise refused("make the container", words_of(error), target_of(plan, DockerTarget).container_image) from None
    return inspect(client, created["Id"]) or {"Id": created["Id"]}


def _start(client: Any, container: str, network: str, image: str) -> None:
    """Starts it. Somebody else's last job may take the network away between our making it and joining it."""
    from docker.errors import APIError

    for attempt in range(_TRIES):
        ensure_network(client, network)
        try:
            client.start(container)
        except APIError as error:
            words = words_of(error)
            if is_gone(error) and "network" in words and attempt < _TRIES - 1:
                continue
            raise refused("start the container", words, image) from None
        return


def _undo(client: Any, plan: Plan, made: Mapping[str, Any]) -> None:
    """Nothing of a start that failed stays behind."""
    if made:
        remove_container(client, made, Path(plan.job_dir))
    else:
        drop_network(client, target_of(plan, DockerTarget).network)
    _remove_secrets(Path(plan.job_dir))
    client.close()


def _taken_away(client: Any, record: JobRecord, known: Mapping[str, Any], folder: Path) -> str:
    """What could not be done after a job's end. A supervisor that is there still writes the log itself."""
    problems = []
    if record.launcher is None or is_alive(record.launcher) is False:
        problems.append(try_complete_log(client, known["Id"], folder))
    problems.append(remove_container(client, known, folder))
    return "; ".join(filter(None, problems))


def _clear_away(client: Any, known: Mapping[str, Any] | None, folder: Path, *, is_lost: bool) -> str:
    """`is_lost`: whether the job may be found again, where it was."""
    if known is not None:
        return remove_container(client, known, folder)
    if not is_lost:
        forget_place(folder)
    return ""


def _log_completed(client: Any, container: str, folder: Path) -> bool:
    """False where another process is at it."""
    try:
        complete_log(client, container, folder)
    except Busy:
        return False
    return True


def _remove_secrets(folder: Path) -> None:
    with suppress(OSError):
        Path(JobLayout(str(folder)).secrets).unlink(missing_ok=True)


def _seen_by_marker(folder: Path) -> WorkerStatus | None:
    """How the job script says that it ended; None where it has not."""
    markers = read_markers(Path(JobLayout(str(folder)).status))
    if not markers:
        return None
    end = marked_end(markers)
    return WorkerStatus("failed" if end.exit_code else "succeeded", end.cause, end.exit_code)


def _seen(known: Mapping[str, Any], layout: JobLayout) -> WorkerStatus:
    short = str(known["Id"])[:12]
    if known["State"]["Status"] == "created":
        return WorkerStatus("lost", f"its supervisor is gone, and container {short} was never started")
    if not has_ended(known):
        return WorkerStatus("running", f"its supervisor is gone; container {short} still runs, {_LATER}")
    status = int(known["State"]["ExitCode"])
    why = cause_of(known, status, None, begun=has_begun(layout)) or f"container {short} ended with exit code {status}"
    return WorkerStatus("failed", why, status or 1)
