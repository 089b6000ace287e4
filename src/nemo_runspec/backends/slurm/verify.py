"""Holds our batch script against NeMo-Run's own. A submission is to call `assert_same` first; it imports NeMo-Run."""

from __future__ import annotations

import posixpath
from difflib import unified_diff
from pathlib import Path
from tempfile import TemporaryDirectory

from nemo_runspec.backends.slurm.executor import make_executor
from nemo_runspec.backends.slurm.render import render_sbatch, submit_words
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Plan


def assert_same(plan: Plan) -> None:
    """Raises `UserError` where the batch script that was shown is not what NeMo-Run would submit."""
    ours, theirs = render_sbatch(plan), nemo_run_rendering(plan)
    if ours == theirs:
        return
    changes = unified_diff(ours.splitlines(), theirs.splitlines(), "nemotron", "NeMo-Run", lineterm="", n=0)
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
