"""The text of a job script. Pure and deterministic: the same plan and layout give the same bytes.

The script is called once per node (`bash job.sh`), or once per task where a scheduler starts several tasks on a node,
and by torchrun once per rank (`bash job.sh --rank`). It needs bash 4.1 or later and coreutils; no Python of its own.

torchrun's rendezvous is `static` for several nodes, not c10d: c10d numbers the nodes by host name, so that `NODE_RANK`
would not say which ranks a node has, and it guesses from its host name whether a node is the master (torch 2.13).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from nemo_runspec import forms
from nemo_runspec.artifacts.store import newest_inputs, versions_of
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Launch, Plan
from nemo_runspec.planning.reserved import check_environment
from nemo_runspec.redact import HIDDEN
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.node_identity import NodeIdentity, node_identity_of
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
        ("# --- the command", *_launch(plan, identity)),
    )
    return "\n\n".join("\n".join(section) for section in sections) + "\n"


_FUNCTIONS = ("functions", "inputs", "outputs")

_RANK_ENTRY = (
    'if [ "${1-}" = --rank ]; then',
    "  set +e",
    '  nemotron_rank "$RANK"',
    "  exit",
    "fi",
)


def quote(text: str) -> str:
    """A shell word. Raises `UserError` for what no script can hold."""
    if "\0" in text:
        raise UserError(f"a NUL byte cannot be handed to a job: {text!r}", remedy="put it into a file")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UserError(
            f"text that is not UTF-8 cannot be handed to a job: {text!r}", remedy="put it into a file"
        ) from None
    return shlex.quote(text)


def join(words: Iterable[str]) -> str:
    """Shell words as one line."""
    return " ".join(quote(word) for word in words)


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


def _launch(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    if plan.launch.kind == "torchrun":
        yield from _torchrun(plan)
    elif plan.launch.kind == "ray" and plan.resources.nodes > 1:
        yield from _ray(plan, identity)
    else:
        yield from _launched('nemotron_rank "${RANK:-0}"')
        yield 'nemotron_finish "$nemotron_code" "${RANK:-0}" 1'


def _launched(command: str, indent: str = "") -> Iterator[str]:
    """Its status in `nemotron_code`. Not by `||`: bash would ignore `set -e` in all that runs below."""
    for line in ("set +e", f"nemotron_launch {command}", "nemotron_code=$?", "set -e"):
        yield indent + line


def _torchrun(plan: Plan) -> Iterator[str]:
    ranks = plan.resources.nproc_per_node
    if plan.resources.nodes == 1:
        where = "--standalone --local-addr=127.0.0.1 --nnodes=1"
    else:
        where = (
            '--nnodes="$NNODES" --node-rank="$NODE_RANK" --rdzv-backend=static '
            '--master-addr="$MASTER_ADDR" --master-port="$MASTER_PORT"'
        )
    yield "nemotron_apart=1"
    yield from _launched(
        f"python -m torch.distributed.run {where} \\\n"
        f'  --nproc-per-node={ranks} --no-python bash "$nemotron_script" --rank'
    )
    yield f'nemotron_finish "$nemotron_code" $((nemotron_node * {ranks})) {ranks}'


def _ray(plan: Plan, identity: NodeIdentity) -> Iterator[str]:
    yield "# Node 0 is Ray's head and runs the command; the others serve it until it has ended. Nothing here waits for"
    yield "# workers to join: ask Ray for the resources the job needs."
    gpus = f" --num-gpus={plan.resources.gpus_per_node}" if plan.resources.gpus_per_node else ""
    # Ray names nodes by their addresses; that of a pod is a name.
    head = "${NEMOTRON_NODE_IPS%%$'\\n'*}" if identity.pods else "$MASTER_ADDR"
    yield f"export RAY_ADDRESS={head}:$((MASTER_PORT + 1))"
    yield 'if [ "$nemotron_node" -eq 0 ]; then'
    yield '  ray start --head --block --node-ip-address="${RAY_ADDRESS%:*}" --port="${RAY_ADDRESS##*:}"' + gpus + " &"
    yield "  nemotron_ray=$!"
    yield "  nemotron_gate ray"
    yield from _launched("nemotron_rank 0", "  ")
    yield '  nemotron_record "$nemotron_gates/driver" "exit_code=$nemotron_code"'
    yield "else"
    yield "  nemotron_gate ray"
    yield f'  ray start --block --address="$RAY_ADDRESS"{gpus} &'
    yield "  nemotron_ray=$!"
    yield '  until [ -f "$nemotron_gates/driver" ]; do'
    yield '    kill -0 "$nemotron_ray" 2> /dev/null || { nemotron_reason="Ray ended on node $nemotron_node"; exit 1; }'
    yield '    sleep 1; ls "$nemotron_gates" > /dev/null'
    yield "  done"
    yield '  nemotron_code=`nemotron_value "$nemotron_gates/driver" exit_code`'
    yield "fi"
    yield 'kill "$nemotron_ray" 2> /dev/null || :'
    yield 'nemotron_finish "$nemotron_code" 0 1'


def _expression(text: str) -> str:
    return f'"{text}"' if "$" in text else quote(text)


def _one_line(text: str) -> str:
    return re.sub(r"[^\x20-\x7e]+", "?", text)
