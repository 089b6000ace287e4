"""The text of a job script. Pure and deterministic: the same plan and layout give the same bytes.

The script is called once per node (`bash job.sh`), or once per task where a scheduler starts several tasks on a node,
and by torchrun once per rank (`bash job.sh --rank`). It needs bash 4.1 or later and coreutils; no Python of its own.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from nemo_runspec import forms
from nemo_runspec.artifacts.store import newest_inputs, versions_of
from nemo_runspec.plans.model import Launch, Plan
from nemo_runspec.redact import HIDDEN
from nemo_runspec.script.launchers import launch
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity, node_identity_of
from nemo_runspec.script.quoting import join, quote
from nemo_runspec.script.reserved import check_environment
from nemo_runspec.script.stall import stall_section

_LAUNCHER_VARIABLES = (
    "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK NODE_RANK NNODES MASTER_ADDR MASTER_PORT RAY_ADDRESS"
)


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
        _head(plan),
        _constants(layout),
        ("# --- the command of one rank", *_command(plan, layout)),
        ("# --- functions", shared_functions(), *("\n" + _beside(f"{name}.sh") for name in _FUNCTIONS)),
        *stall_section(plan, layout, identity),
        ("# --- what comes before the lines of a rank", *_prefix(plan)),
        ("# --- torchrun starts this script once more for every rank", *_RANK_ENTRY),
        ("# --- this node", *_node(plan, identity)),
        ("# --- environment", *_environment(plan, layout, identity)),
        ("# --- inputs", *_inputs(plan, layout)),
        ("# --- the nodes meet", *_meeting(plan, identity)),
        *_named_inputs(plan),
        ("# --- setup, in the shell that the command runs in", *_setup(plan, layout)),
        ("# --- the command", *launch(plan, identity)),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


_FUNCTIONS = ("functions", "address", "inputs", "outputs")

_RANK_ENTRY = (
    'if [ "${1-}" = --rank ]; then',
    "  set +e",
    '  nemotron_rank "$RANK"',
    "  exit",
    "fi",
)


def _head(plan: Plan) -> Iterator[str]:
    shape = f"{plan.resources.nodes} x {plan.resources.nproc_per_node}"
    yield "#!/usr/bin/env bash"
    yield f"# nemotron job {plan.name}: {_one_line(plan.recipe.path)} ({plan.launch.kind}, {shape}) on {plan.executor}"
    yield "set -eo pipefail"
    yield "unset CDPATH"


def _constants(layout: JobLayout) -> Iterator[str]:
    yield f"nemotron_status={quote(layout.status)}"
    yield f"nemotron_secrets={quote(layout.secrets)}"
    yield "case ${BASH_SOURCE[0]} in"
    yield "  /*) nemotron_script=${BASH_SOURCE[0]} ;;"
    yield "  *) nemotron_script=$PWD/${BASH_SOURCE[0]} ;;"
    yield "esac"


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


def _prefix(plan: Plan) -> Iterator[str]:
    hidden = () if node_identity_of(plan.executor).supervised else _secret_variables(plan)
    yield f"nemotron_hidden={quote(' '.join(hidden))}"
    yield f"nemotron_prefix_program={quote(prefix_program())}"
    yield f"nemotron_common={quote(forms.COMMON)}"
    yield _beside("prefix.sh")


def _secret_variables(plan: Plan) -> Iterator[str]:
    """Names of variables whose values must not be seen: the plan's secrets, and those that a cloud keeps."""
    names = (*(secret.name for secret in plan.secrets), *plan.target.secret_vars)
    yield from dict.fromkeys(names)


def shared_functions() -> str:
    """Functions of the job script that a script around it needs too."""
    return _beside("values.sh")


def address_function() -> str:
    """The function by which a node finds out under which address the others reach it."""
    return _beside("address.sh")


def downsample_program() -> str:
    """The program by which metrics are fetched from where a job ran: `python3 -c PROGRAM FILE [--packed]`."""
    return _beside("downsample.py")


@lru_cache
def prefix_program() -> str:
    """The program that stands between a rank and its log, whole: what it imports of ours stands before it."""
    imported = "from nemo_runspec.forms import hidden_forms, hide\n"
    first, rest = Path(forms.__file__).read_text(encoding="utf-8"), _beside("prefix.py")
    return f"{first}\n\n{rest.replace(imported, '', 1)}"


@lru_cache
def _beside(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8").strip()


def _node(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    yield f"nemotron_node={_expression(identity.node)}"
    yield f"nemotron_nodes={_expression(identity.nodes or str(plan.resources.nodes))}"
    yield f"nemotron_task={_expression(identity.task)}"
    yield f"nemotron_tasks={_expression(identity.tasks or '$nemotron_nodes')}"
    yield f"nemotron_local={_expression(identity.local)}"
    yield f"nemotron_attempt={_expression(identity.attempt)}"
    yield f"nemotron_restarts={_expression(identity.restarts)}"
    for name in ("requeues", "signals_all", "ends_all"):
        yield f"nemotron_{name}={'1' if getattr(identity, name) else quote('')}"
    yield f"nemotron_master={_expression(identity.master or '')}"
    yield f"nemotron_port={_expression(identity.port or '')}"
    versions = versions_of(plan) if identity.publishes else ()
    yield f"nemotron_versions=({join(versions)})"
    yield "nemotron_begin"


def _inputs(plan: Plan, layout: JobLayout) -> Iterator[str]:
    """The versions that are the newest now are found before any task is let go on."""
    words = [word for pair in newest_inputs(plan).items() for word in pair]
    yield f"nemotron_inputs=({join(words)})"
    if words:
        line = f'nemotron_find_inputs {quote(layout.config)} "${{nemotron_inputs[@]}}"'
        yield f'if [ "$nemotron_task" -eq 0 ]; then {line}; fi'


def _named_inputs(plan: Plan) -> Iterator[tuple[str, ...]]:
    paths = newest_inputs(plan).values()
    names = [variable.name for variable in plan.env if any(path in variable.value for path in paths)]
    if names:
        lines = (f'nemotron_name_inputs {name} "${{nemotron_inputs[@]}}"' for name in names)
        yield ("# --- variables that name them", *lines)


def _environment(plan: Plan, layout: JobLayout, identity: NodeIdentity) -> Iterator[str]:
    fixed = {
        "NEMOTRON_JOB_NAME": plan.name,
        "NEMOTRON_JOB_DIR": layout.root,
        "NEMOTRON_METRICS_FILE": layout.metrics,
        "NEMOTRON_GPUS_PER_NODE": str(plan.resources.gpus_per_node),
    }
    yield f"unset {_LAUNCHER_VARIABLES}"
    yield "export PYTHONUNBUFFERED=1"
    for variable in plan.env:
        yield f"export {variable.name}={quote(variable.value)}"
    for name, value in fixed.items():
        yield f"export {name}={quote(value)}"
    yield 'export NEMOTRON_NODE_RANK="$nemotron_node" NEMOTRON_NUM_NODES="$nemotron_nodes"'
    yield 'export NODE_RANK="$nemotron_node" NNODES="$nemotron_nodes" NEMOTRON_ATTEMPT="$nemotron_restarts"'
    if plan.package.kind != "none":
        yield _on_python_path(layout.code)
    if identity.secrets_file:
        yield "nemotron_read_secrets"


def _meeting(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    if identity.master:
        yield 'if [ -z "${MASTER_ADDR-}" ]; then MASTER_ADDR=$nemotron_master; fi'
        yield 'if [ -z "${MASTER_PORT-}" ]; then MASTER_PORT=$nemotron_port; fi'
    yield "nemotron_meet"
    if identity.pods and not any(variable.name == "WORKER_ADDRS" for variable in plan.env):
        yield "nemotron_tell_workers"
    if identity.secrets_file and not identity.requeues:
        yield 'if [ "$nemotron_task" -eq 0 ]; then nemotron_remove_secrets; fi'
    yield from _world_size(plan)
    if plan.launch.kind == "direct":
        # With RANK or LOCAL_RANK set, libraries set up process groups that a single process does not need.
        yield 'if [ "$nemotron_tasks" -gt 1 ]; then export RANK=$nemotron_task LOCAL_RANK=$nemotron_local; fi'


def _world_size(plan: Plan) -> Iterator[str]:
    """By default as PyTorch means it; containers that begin processes of their own may mean the nodes."""
    if plan.launch.world_size == "nodes":
        yield "export WORLD_SIZE=$nemotron_nodes"
        if not any(variable.name == "NUM_GPU_PER_NODE" for variable in plan.env):
            yield f"export NUM_GPU_PER_NODE={plan.resources.gpus_per_node}"
    elif plan.launch.kind == "torchrun":
        yield f"export WORLD_SIZE=$((nemotron_nodes * {plan.resources.nproc_per_node}))"
    elif plan.launch.kind == "direct":
        yield "export WORLD_SIZE=$nemotron_tasks"


def _setup(plan: Plan, layout: JobLayout) -> Iterator[str]:
    if plan.package.kind != "none":
        yield f"cd {quote(layout.code)}"
    yield "set +u"
    total = len(plan.launch.setup)
    for number, command in enumerate(plan.launch.setup, 1):
        yield f"nemotron_phase='setup: startup command {number} of {total}'"
        yield f"eval {quote(command)}"
    yield "set -eo pipefail"
    yield "nemotron_phase=setup"
    if plan.launch.workdir:
        yield f"nemotron_phase={quote(f'setup: change to {plan.launch.workdir}')}"
        yield f"cd {_workdir(plan.launch.workdir)}"
    yield "nemotron_gate setup"
    yield "nemotron_phase=command"


def _workdir(workdir: str) -> str:
    if workdir == "~" or workdir.startswith("~/"):
        return f'"$HOME"{quote(workdir[1:]) if workdir != "~" else ""}'
    return f"-- {quote(workdir)}"


def _expression(text: str) -> str:
    return f'"{text}"' if "$" in text else quote(text)


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]+", "?", text)
