"""The text of a job script: a page of this job's own values. Pure and deterministic.

The script is called once per node (`bash job.sh`), or once per task where a scheduler starts several tasks on a node,
and by torchrun once per rank (`bash job.sh --rank`). `start.sh` goes on in the supervisor (`jobside/`), which calls it
once more for the lines behind that: the job's variables, its startup commands, and its command, in one bash (4.1 or
later).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from nemo_runspec.artifacts.store import newest_inputs, versions_of
from nemo_runspec.artifacts.wandb import wandb_tasks
from nemo_runspec.backends.base import RenderedFile, common_ranges
from nemo_runspec.plans.model import EnvVar, Launch, Plan, RayCluster
from nemo_runspec.plans.wandb import run_id
from nemo_runspec.redact import HIDDEN
from nemo_runspec.script.launchers import launch
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity, node_identity_of
from nemo_runspec.script.quoting import join, json_page, quote
from nemo_runspec.script.reserved import WAITS, check_environment

_FLAGS = ("requeues", "signals_all", "ends_all", "secrets_file", "pods", "here")
_WORDS = ("node", "nodes", "task", "tasks", "local", "attempt", "restarts", "master", "port", "log")
"""What a node finds out of itself: of these, the page names what is not the supervisor's own default."""

_TOLD = (*WAITS, "MASTER_ADDR", "MASTER_PORT", "NEMO_RUN_DIR")
"""Variables of a job that its supervisor heeds."""

KEEPS = (
    "for nemotron_word in TERM INT HUP USR1 USR2; do "
    """trap "nemotron_early+=' $nemotron_word'" "$nemotron_word"; done"""
)
"""The first line of all scripts that go on in a supervisor: what is told to the job until then is told to that."""

_COMMON = f"""\
{KEEPS}
[ $# -gt 0 ] || {KEEPS}
unset CDPATH
nemotron_ready"""
"""Lines that stand in every page, and say nothing of one job."""


def job_file(name: str, text: str, title: str = "job script") -> RenderedFile:
    """A page as it is shown and sent. `name`: its path in the job's directory."""
    return RenderedFile(title, name, text, common=common_ranges(text, _COMMON))


def render_job_script(plan: Plan, layout: JobLayout) -> str:
    """The job script of a plan.

    Args:
        layout: the job directory as the job itself sees it.

    Raises:
        UserError: a value no shell script can hold (a NUL byte, text that is not UTF-8), or a variable that a job
            cannot be given, see `check_environment`.
    """
    check_environment(plan.env, (secret.name for secret in plan.secrets))
    identity = node_identity_of(plan.executor, plan.resources.nodes)
    sections = (
        _head(plan, layout),
        ("# --- this job, as its supervisor is told", *_told(plan, identity)),
        ("# --- the command of one rank", *_command(plan, layout)),
        ("# --- what stands below runs in a shell that the supervisor starts", '. "$nemotron_root/start.sh" "$@"'),
        ("# --- environment", *_environment(plan, layout)),
        ("# --- setup", *_setup(plan, layout)),
        ("# --- the command", *_forwarding(plan), *_followers(plan), *launch(plan, identity)),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


def _head(plan: Plan, layout: JobLayout) -> Iterator[str]:
    shape = f"{plan.resources.nodes} x {plan.resources.nproc_per_node}"
    yield "#!/usr/bin/env bash"
    yield f"# nemotron job {plan.name}: {_one_line(plan.recipe.path)} ({plan.launch.kind}, {shape}) on {plan.executor}"
    yield f"[ $# -gt 0 ] || {KEEPS}"  # the shells that the supervisor starts do as the signals mean
    yield "set -eo pipefail"
    yield "unset CDPATH"
    yield f"nemotron_root={quote(layout.root)}"


def _told(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    # Ray's own logs are kept by the job's side itself, whoever reads its output.
    hidden = () if identity.supervised and plan.launch.kind != "ray" else _secret_variables(plan)
    versions = versions_of(plan) if identity.publishes else ()
    yield f"nemotron_values={quote(json_page(job_values(plan, identity)))}"
    yield f"nemotron_words=({' '.join(_words(identity))})"
    yield f"nemotron_hidden={quote(' '.join(hidden))}"
    yield f"nemotron_versions=({join(versions)})"


def job_values(plan: Plan, identity: NodeIdentity) -> dict[str, Any]:
    """What the supervisor is told of a job that is so for all of its tasks (`jobside.job.JobTask`)."""
    inputs = newest_inputs(plan)
    target = plan.target
    stall = {"seconds": target.stall_timeout, "action": target.stall_action} if target.stall_timeout else {}
    return {
        "name": plan.name,
        "launch": plan.launch.kind,
        "nodes": plan.resources.nodes,
        "ranks": plan.resources.nproc_per_node if plan.launch.kind == "torchrun" else None,
        "gpus_per_node": _gpus_per_node(plan) or None,
        "world": plan.launch.world_size if plan.launch.world_size == "nodes" else None,
        "flags": [*(flag for flag in _FLAGS if getattr(identity, flag)), *_own_flags(plan)],
        "settings": {variable.name: variable.value for variable in plan.env if variable.name in _TOLD},
        "inputs": inputs,
        "named": {variable.name: variable.value for variable in _naming(plan)},
        "stall": stall,
        "ray": _ray(plan) if plan.launch.kind == "ray" else None,
        "checks": list(_checks(plan)) or None,
    }


def _gpus_per_node(plan: Plan) -> int:
    """Those that a node was asked for: a shape or another key of the target's says how many they are in truth."""
    asked = plan.resources.gpus_per_node
    known = plan.target.gpus_of_node(plan.resources) if asked else None
    return asked if known is None else known


def _ray(plan: Plan) -> dict[str, Any]:
    """What the keeper of a node's Ray is told (`jobside.ray`)."""
    ray = plan.ray or RayCluster()
    own = any(variable.name == "NCCL_SOCKET_IFNAME" for variable in plan.env)
    by = (plan.launch.cmd or "python").partition(" ")[0]
    told = {
        "timeout": ray.start_timeout,
        "cpus": ray.cpus,
        "resources": dict(ray.resources),
        "worker_resources": dict(ray.worker_resources),
        "runtime_env": dict(ray.runtime_env),
        "venv": ray.venv,
        "port": ray.port,
        "dashboard": ray.dashboard_port,
        "tolerate": ray.tolerate_lost,
        "own_interface": own,
        "by": "" if by == "python" else by,
    }
    return {key: value for key, value in told.items() if value or (key == "dashboard" and value is not None)}


def _own_flags(plan: Plan) -> Iterator[str]:
    if run_id(plan):
        yield "wandb"
    if plan.launch.head_only:
        yield "head_only"


def _checks(plan: Plan) -> Iterator[dict[str, Any]]:
    """What the supervisor looks at before the command and after it (`jobside.verify`)."""
    for side, artifacts in (("input", plan.consumes), ("output", plan.produces)):
        for each in artifacts:
            if each.check and each.path:
                facts = {"side": side, "name": each.name, "type": each.type, "check": each.check, "path": each.path}
                folder = {"folder": posixpath.dirname(plan.launch.script)} if each.is_bundled else {}
                yield {**facts, "required": each.required, **folder}


def _words(identity: NodeIdentity) -> Iterator[str]:
    default = NodeIdentity()
    for name in _WORDS:
        value = getattr(identity, name)
        if value is not None and value != getattr(default, name):
            yield f"{name}={_expression(value)}"


def _naming(plan: Plan) -> list[EnvVar]:
    """Variables that name the newest version of an input: which one that is, is found out where the job runs."""
    paths = newest_inputs(plan).values()
    return [variable for variable in plan.env if any(path in variable.value for path in paths)]


def _command(plan: Plan, layout: JobLayout) -> Iterator[str]:
    launch = plan.launch
    script = f"{layout.bundle}/{launch.script}"
    yield "nemotron_command() {"
    folder = _own_folder(plan, layout)
    if folder is not None:
        yield f"  {_on_python_path(folder)}"
    if launch.cmd is None:
        config = ("--config", layout.config) if launch.takes_config else ()
        yield f"  exec {' '.join((join(('python', script, *config)), *_arguments(launch)))}"
    else:
        line = launch.cmd.replace("{script}", quote(script)).replace("{config}", quote(layout.config))
        # This shell stays for the processes of the line: it must outlive the signals that they get too.
        yield "  trap ':' TERM INT HUP USR1 USR2"
        yield f"  eval {quote(' '.join((line, *_arguments(launch))))}"
    yield "}"


def _arguments(launch: Launch) -> Iterator[str]:
    """The script's arguments as shell words; the secrets among them by their variables."""
    names = iter(launch.secret_args)
    for argument in launch.args:
        if not launch.secret_args or HIDDEN not in argument:
            yield quote(argument)
            continue
        first, *rest = (quote(part) if part else "" for part in argument.split(HIDDEN))
        yield first + "".join(f'"${next(names)}"{part}' for part in rest)


def _own_folder(plan: Plan, layout: JobLayout) -> str | None:
    """Where what lies beside a script of the user's own is for the job: `python train.py` would import from there.

    Several folders are joined as on `PYTHONPATH`.

    What is packaged is imported from the package, never from here: what is here may have changed since.
    """
    if "/" in plan.launch.script:
        return None
    if plan.launch.beside:
        return ":".join(posixpath.normpath(f"{layout.code}/{folder}") for folder in plan.launch.beside)
    return posixpath.dirname(plan.recipe.script) if node_identity_of(plan.executor).here else None


def _on_python_path(folder: str) -> str:
    return f'export PYTHONPATH={quote(folder)}"${{PYTHONPATH:+:$PYTHONPATH}}"'


def _secret_variables(plan: Plan) -> Iterator[str]:
    """Names of variables whose values must not be seen: the plan's secrets, and those that a cloud keeps."""
    names = (*(secret.name for secret in plan.secrets), *plan.target.secret_vars)
    yield from dict.fromkeys(names)


def _environment(plan: Plan, layout: JobLayout) -> Iterator[str]:
    """The plan's variables. A secret of the same name counts instead; what names an input, the supervisor sets."""
    others = {secret.name for secret in plan.secrets} | {variable.name for variable in _naming(plan)}
    for variable in plan.env:
        if variable.name not in others:
            yield f"export {variable.name}={quote(variable.value)}"
    if plan.package.kind != "none":
        yield _on_python_path(layout.code)


def _setup(plan: Plan, layout: JobLayout) -> Iterator[str]:
    if plan.package.kind != "none":
        yield f"cd {quote(layout.code)}"
    yield "set +u"
    if plan.launch.head_setup:
        yield 'if [ "$NEMOTRON_NODE_RANK-${LOCAL_RANK:-0}" = 0-0 ]; then'
        yield from _commands("head startup command", plan.launch.head_setup)
        yield "fi"
        yield "nemotron_gate 'gate head'"
    yield from _commands("startup command", plan.launch.setup)
    yield "set -eo pipefail"
    if plan.launch.workdir:
        yield f"nemotron_at {quote(f'setup: change to {plan.launch.workdir}')}"
        yield f"cd {_workdir(plan.launch.workdir)}"
    yield "nemotron_ready"


def _commands(what: str, commands: tuple[str, ...]) -> Iterator[str]:
    for number, command in enumerate(commands, 1):
        yield f"nemotron_at 'setup: {what} {number} of {len(commands)}'"
        # What it leaves behind holds neither the output nor the supervisor's socket.
        yield f"eval {quote(command)} 8>&- 9>&-"


def _forwarding(plan: Plan) -> Iterator[str]:
    if tasks := wandb_tasks(plan):
        yield f"nemotron_forward {','.join(tasks)}"


def _followers(plan: Plan) -> Iterator[str]:
    if plan.launch.head_only and plan.resources.nodes > 1:
        yield '[ "$NEMOTRON_NODE_RANK" -eq 0 ] || nemotron_follow'


def _workdir(workdir: str) -> str:
    if workdir == "~" or workdir.startswith("~/"):
        return f'"$HOME"{quote(workdir[1:]) if workdir != "~" else ""}'
    return f"-- {quote(workdir)}"


def _expression(text: str) -> str:
    return f'"{text}"' if "$" in text else quote(text)


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]+", "?", text)
