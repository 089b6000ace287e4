"""Holds our batch script against NeMo-Run's own where it is not known that the two are alike: asking takes seconds.

The property test that holds the two renderings equal ships what it was run on: digests of NeMo-Run's template and of
the renderer here (`compared.json`). They speak for the two programs and not for single scripts: that test draws from
everything that a plan takes, and another one holds every plan to what is drawn from. So with the NeMo-Run that
nemotron pins, no submission compares anything, the first of its shape as little as any.

What is left is a NeMo-Run, or a renderer, that somebody has changed, and a plan that no profile can make (a saved one
that was edited). Those are compared before anything is sent: a job that has been submitted cannot be taken back.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterable, Mapping
from difflib import unified_diff
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nemo_runspec.backends.slurm.executor import executor_arguments, make_executor
from nemo_runspec.backends.slurm.fields import FIELDS
from nemo_runspec.backends.slurm.render import render_sbatch, submit_words
from nemo_runspec.backends.slurm.values import PATH
from nemo_runspec.digests import digest_of_blocks
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.plans.model import Plan

SHIPPED = Path(__file__).with_name("compared.json")

_RENDERERS = ("executor.py", "render.py", "verified.py", "values.py")
"""What makes a batch script, or NeMo-Run's executor, of a plan's arguments."""

_THEIRS = (
    "core/execution/base.py", "core/execution/launcher.py", "core/execution/slurm.py", "core/execution/utils.py",
    "core/execution/templates/slurm.sh.j2", "run/torchx_backend/packaging.py",
)  # fmt: skip
"""What does in NeMo-Run (0.11.1)."""

_MANY_LINES = ("setup_lines",)

_UNTRIED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
"""What the property test puts into no text: characters that no plan takes."""


def require_same(plan: Plan) -> None:
    """Raises `UserError` where NeMo-Run would submit something else. `plan`: with its placeholders filled."""
    if not is_proved(plan):
        assert_same(plan)


def is_proved(plan: Plan) -> bool:
    """True if the property test's result that was shipped covers this plan's batch script, as installed here."""
    tried = (_within(name, value) for name, value in executor_arguments(plan).items())
    return _as_shipped() and PATH.fullmatch(plan.job_dir) is not None and all(tried)


def renderings() -> dict[str, str]:
    """What the property test's result covers: NeMo-Run's version, and digests of its renderer and of ours."""
    ours = [Path(__file__).with_name(name) for name in _RENDERERS]
    spec = find_spec("nemo_run")
    folders = spec.submodule_search_locations if spec else None
    theirs = [Path(folders[0], name) for name in _THEIRS] if folders else []
    declared = str([(field.name, field.nemo_run, field.sbatch) for field in FIELDS])
    return {"nemo_run": version("nemo-run"), "theirs": _digest(theirs), "ours": _digest(ours, declared)}


@lru_cache(maxsize=1)
def _as_shipped() -> bool:
    try:
        return bool(json.loads(SHIPPED.read_text(encoding="utf-8")) == renderings())
    except (OSError, ValueError, PackageNotFoundError):
        return False


def _within(name: str, value: Any) -> bool:
    """True if the property test has tried such values."""
    if isinstance(value, Mapping):
        return all(_within(str(key), key) and _within(str(key), each) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return all(_within(name, each) for each in value)
    return not isinstance(value, str) or is_tried(value, lines=name in _MANY_LINES)


def is_tried(text: str, *, lines: bool = False) -> bool:
    """True if the property test draws such a text.

    Args:
        lines: it may be more than one line.
    """
    return _UNTRIED.search(text) is None and (lines or not {"\r", "\n"} & set(text))


def _digest(files: Iterable[Path], text: str = "") -> str:
    return digest_of_blocks((text.encode(), *(file.read_bytes() + b"\0" for file in files)))


def assert_same(plan: Plan) -> None:
    """Raises `UserError` where the batch script that was shown is not what NeMo-Run would submit."""
    ours, theirs = render_sbatch(plan), nemo_run_rendering(plan)
    if ours == theirs:
        return
    changes = unified_diff(text_lines(ours), text_lines(theirs), "nemotron", "NeMo-Run", lineterm="", n=0)
    raise UserError(
        "NeMo-Run would submit another batch script than the one nemotron shows; nothing was submitted\n"
        + "\n".join(changes),
        remedy="install the NeMo-Run version this nemotron was made for, and report this text",
    )


def nemo_run_rendering(plan: Plan) -> str:
    """The batch script NeMo-Run's own executor makes of a plan's inline job script.

    The same calls its Slurm scheduler makes (`schedulers/slurm.py`, seen in 0.11.1), without packaging any code.
    """
    executor = make_executor(plan)
    from nemo_run import Script
    from nemo_run.core.execution.slurm import SlurmBatchRequest
    from nemo_run.run.torchx_backend.packaging import package

    executor.tunnel.job_dir = posixpath.dirname(plan.job_dir)
    with TemporaryDirectory() as scratch:
        executor.job_dir = str(Path(scratch, posixpath.basename(plan.job_dir)))
        script = Script(inline="true")
        app = package(plan.name, script, executor, serialize_metadata_for_scripts=False)
        role = executor.macro_values().apply(app.roles[0])
        request = SlurmBatchRequest(
            launch_cmd=list(submit_words(plan)),
            jobs=[role.name],
            command_groups=[[" ".join([role.entrypoint, *role.args])]],
            executor=executor,
            max_retries=role.max_retries,
            extra_env=role.env,
            launcher=executor.get_launcher(),
        )
        return str(request.materialize())
