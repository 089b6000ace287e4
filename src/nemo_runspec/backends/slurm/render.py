"""The files of a job: its batch script, byte for byte what NeMo-Run 0.11.1 makes, and `batch.sh`, what is ours in it.

NeMo-Run's template is read from the installed package and filled with values of ours, without importing NeMo-Run, which
takes three seconds. `verified.py` holds the two together.

The only room in it that is ours is `setup_lines`, whose first line sources `batch.sh`, before the profile's own lines.
It runs on the job's first node, outside any container, and goes on in `slurm.py` (`jobside/`), the process that Slurm
signals from then on: that runs the batch script once more, in a shell in which `srun` is a function, and decides what
becomes of the job.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Iterator
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nemo_runspec.artifacts.store import versions_of
from nemo_runspec.backends.base import Program, RenderedFile, Rendering, common_ranges
from nemo_runspec.backends.checks import JOB_DIR, MOUNTED
from nemo_runspec.backends.slurm.executor import (
    BATCH_LINES,
    executor_arguments,
    job_layout,
    job_name,
    job_script,
    sbatch_script,
)
from nemo_runspec.backends.slurm.fields import FIELDS, SlurmTarget
from nemo_runspec.backends.slurm.health import health_files, health_seconds
from nemo_runspec.backends.slurm.values import HOME, HOST, lead_of, name_of, shell_word
from nemo_runspec.errors import UserError
from nemo_runspec.placeholders import Placeholder, explained
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.script.quoting import json_page, quote

if TYPE_CHECKING:
    from jinja2 import Template

VERSIONS = "versions.sh"
"""Of tasks of an array that are jobs of their own, each has one in its directory."""

_JOBSIDE = Path(__file__).with_name("jobside")
_OF_BOTH_SUPERVISORS = (
    "artifacts", "exit_status", "processes", "records", "registration", "secrets", "signals", "text", "values",
)  # fmt: skip
"""Modules of the job side that the batch script's supervisor has, too."""

NEEDS_PYTHON = ("resume", "retries", "stall_timeout", "health_check")
"""Keys of a profile that take a python3 on nodes: a batch script without one does the least that a job needs."""


def batch_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """`batch.sh`, and what it needs beside it."""
    return (
        RenderedFile("batch script's values", BATCH_LINES, batch_text(plan)),
        *version_files(plan),
        *health_files(plan),
    )


def version_files(plan: Plan) -> tuple[RenderedFile, ...]:
    """What is registered in the end: the versions, as its shell sees them; no file where there are none."""
    paths = [shell_word(path) for path in version_paths(plan)]
    return (RenderedFile("versions", VERSIONS, f"nemotron_versions=({' '.join(paths)})\n"),) if paths else ()


def version_paths(plan: Plan) -> list[str]:
    """The versions of artifacts that a job makes, as the login node sees them."""
    storage = target_of(plan, SlurmTarget).storage(plan.job_dir)
    return [found for path in versions_of(plan) if (found := storage.source_of(path))]


def batch_text(plan: Plan, *, members: bool = False, ends_all: bool = False) -> str:
    """`batch.sh`. As `batch_values`."""
    own = "$nemotron_root/members/$SLURM_ARRAY_TASK_ID" if members else "$nemotron_root"
    lines = (
        "# Sourced by the batch script: this job's values. What is done with them is in slurm.py.",
        f"nemotron_root={plan.job_dir}",
        f"nemotron_own={own}",
        f"nemotron_script={quote(job_script(plan))}",
        f"nemotron_needs={quote(', '.join(needs_python(plan)))}",
        f"nemotron_values={quote(json_page(batch_values(plan, members=members, ends_all=ends_all)))}",
        '. "$nemotron_root/slurm.sh"',
    )
    return "\n".join(lines) + "\n"


def needs_python(plan: Plan) -> list[str]:
    """Settings of this job that take a python3 on the nodes of Slurm, beside any container."""
    target = target_of(plan, SlurmTarget)
    return [name for name in NEEDS_PYTHON if getattr(target, name)]


def batch_values(plan: Plan, *, members: bool = False, ends_all: bool = False) -> dict[str, Any]:
    """What the batch script's supervisor is told of a job (`jobside.job.BatchJob`).

    Args:
        members: of an array whose tasks are jobs of their own.
        ends_all: one of them that fails ends all others.
    """
    target = target_of(plan, SlurmTarget)
    return {
        "name": job_name(plan),
        "script": job_script(plan),
        "retries": target.retries,
        "resume": target.resume,
        "max_restarts": target.max_restarts,
        "signal": name_of(target.signal),
        "lead": lead_of(target.signal),
        "health_seconds": health_seconds(plan),
        "members": members,
        "ends_all": ends_all,
    }


_SUBMIT = ("sbatch", "--requeue", "--parsable")
"""NeMo-Run's own words."""

_TEMPLATES = "core/execution/templates"
_OPTIONS = {declared.nemo_run: declared.sbatch for declared in FIELDS if declared.nemo_run and declared.sbatch}
"""Arguments of the executor that become `#SBATCH` lines."""


def render(plan: Plan) -> Rendering:
    """The job script and the batch script of a plan, what they need beside them, and the command that submits it.

    The files' names are paths below the job's directory. `paths.HOME` in a text is a placeholder.
    """
    from nemo_runspec.script.render import job_file, render_job_script

    text, name = render_sbatch(plan), posixpath.basename(sbatch_script(plan))
    files = (
        job_file(job_script(plan), render_job_script(plan, job_layout(plan))),
        RenderedFile("sbatch script", name, text, common=common_ranges(text, _template_text())),
        *batch_files(plan),
    )
    holes = explained([*_placeholders(plan)])
    return Rendering(files, submit_command(plan), holes, programs_of(plan), name)


def programs_of(plan: Plan) -> tuple[Program, ...]:
    """The programs of ours that go with a plan."""
    from nemo_runspec.script.programs import checks_programs, programs

    health = (health_program(),) if target_of(plan, SlurmTarget).health_check else ()
    return (*slurm_programs(), *health, *programs(*checks_programs(plan)))


@cache
def slurm_programs() -> tuple[Program, ...]:
    """Those that go with every job."""
    from nemo_runspec.script.programs import PROGRAMS, REGISTERS, PythonProgram, program, programs

    shared = (f"jobside/{name}.py" for name in _OF_BOTH_SUPERVISORS)
    places = ("backends/slurm/jobside", "lines.py", *REGISTERS, *shared)
    main = PythonProgram("nemo_runspec.backends.slurm.jobside.main", places, supervises=True)
    shell = (program(name, (_JOBSIDE / name).read_text("utf-8")) for name in ("slurm.sh", "slurm_fallback.sh"))
    return (*programs(*PROGRAMS), program("slurm.py", main.text()), *shell)


@cache
def health_program() -> Program:
    """The one of a job that looks at its nodes first."""
    from nemo_runspec.script.programs import PythonProgram, program

    places = ("backends/slurm/health/net.py", "jobside/address.py")
    return program("health.py", PythonProgram("nemo_runspec.backends.slurm.health.net", places).text())


def render_sbatch(plan: Plan) -> str:
    """The batch script's text."""
    arguments = executor_arguments(plan)
    text = _template().render(
        sbatch_command=shlex.join(submit_words(plan)),
        sbatch_flags=_flags(plan, arguments),
        max_retries=arguments["retries"],
        env_vars=[],
        head_node_ip_var="head_node_ip",
        setup_lines=arguments["setup_lines"],
        memory_measure=_srun_log(plan) if arguments["memory_measure"] else None,
        srun_commands=[_srun(plan, arguments)],
        group_env_vars=[],
        heterogeneous=False,
        run_as_group=False,
        monitor_group_job=False,
        ft_enabled=False,
    )
    return text if arguments["container_image"] is not None else text.replace(MOUNTED, plan.job_dir)


def submit_words(plan: Plan) -> tuple[str, ...]:
    """sbatch and its options. One of them wins over a line of the script, and so must not contradict it."""
    contradicted = "no_requeue" in target_of(plan, SlurmTarget).additional_parameters
    return tuple(word for word in _SUBMIT if word != "--requeue" or not contradicted)


def submit_command(plan: Plan) -> tuple[str, ...]:
    """The process that submits the plan: `sbatch` here, or on the login node. `HOST` in it is a placeholder."""
    target = target_of(plan, SlurmTarget)
    command = (*submit_words(plan), sbatch_script(plan))
    if target.tunnel != "ssh":
        return command
    port = ("-p", str(target.port)) if target.port else ()
    identity = ("-i", target.identity) if target.identity else ()
    host = target.host or HOST
    login = f"{target.user}@{host}" if target.user else host
    return ("ssh", *port, *identity, login, *command)


def _placeholders(plan: Plan) -> Iterator[Placeholder]:
    target = target_of(plan, SlurmTarget)
    if target.remote_job_dir.startswith(HOME):
        whose = f"{target.user or 'your user'} on {target.host or HOST}"
        yield Placeholder(HOME, f"the home directory of {whose}, asked for when it is submitted")
    if target.tunnel == "ssh" and not target.host:
        yield HOST


def _flags(plan: Plan, arguments: dict[str, Any]) -> list[str]:
    target = target_of(plan, SlurmTarget)
    options = {_OPTIONS[name]: value for name, value in arguments.items() if name in _OPTIONS and value is not None}
    options["job_name"] = job_name(plan)
    number = "%A_%a" if arguments["array"] is not None else "%j"
    options["output"] = f"{plan.job_dir}/sbatch_{job_name(plan)}_{number}.out"
    options.update(arguments["additional_parameters"] or {})
    flags = [_flag(name, options[name]) for name in sorted(options)]
    if target.dependencies:
        flags.append(_flag("dependency", ":".join((target.dependency_type, *target.dependencies))))
    return flags


def _flag(name: str, value: Any) -> str:
    option = f"#SBATCH --{name.replace('_', '-')}"
    return option if value is True else f"{option}={shlex.quote(str(value))}"


def _srun(plan: Plan, arguments: dict[str, Any]) -> str:
    words = [
        "srun", "--output", _srun_log(plan), *_where(plan, arguments), "--wait=60", "--kill-on-bad-exit=1",
        *(arguments["srun_args"] or ()), "bash", f"{MOUNTED}/{job_script(plan)}",
    ]  # fmt: skip
    return " ".join(words)


def _srun_log(plan: Plan) -> str:
    return f"{plan.job_dir}/log-{job_name(plan)}_%j_${{SLURM_RESTART_COUNT:-0}}.out"


def _where(plan: Plan, arguments: dict[str, Any]) -> list[str]:
    if arguments["container_image"] is None:
        return ["--chdir", f"{plan.job_dir}/code"]
    given = arguments["container_mounts"]
    mounts = [m.replace(JOB_DIR, plan.job_dir, 1) if m.startswith(JOB_DIR) else m for m in given]
    words = [
        "--container-image", arguments["container_image"],
        "--container-mounts", ",".join([*mounts, f"{plan.job_dir}:{MOUNTED}"]),
        "--container-workdir", f"{MOUNTED}/code",
    ]  # fmt: skip
    if arguments["container_env"]:
        words += ["--container-env", ",".join(arguments["container_env"])]
    return words


@lru_cache(maxsize=1)
def _template() -> Template:
    """NeMo-Run's batch template, in the environment NeMo-Run reads it with: Jinja2's defaults and its own folder."""
    from jinja2 import Environment, FileSystemLoader

    folder = _template_folder()
    return Environment(loader=FileSystemLoader(folder), autoescape=False).from_string(_template_text())


@lru_cache(maxsize=1)
def _template_text() -> str:
    return (_template_folder() / "slurm.sh.j2").read_text(encoding="utf-8")


def _template_folder() -> Path:
    spec = find_spec("nemo_run")
    places = [Path(place) / _TEMPLATES for place in (spec.submodule_search_locations or ())] if spec else []
    folder = next((place for place in places if (place / "slurm.sh.j2").is_file()), None)
    if folder is None:
        raise UserError("NeMo-Run is not installed, and its batch template is needed", remedy="reinstall nemotron")
    return folder
