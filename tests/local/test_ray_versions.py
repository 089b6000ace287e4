"""Real Rays of several versions: of a cluster and of its command, of an environment of its own, and an older one."""

from __future__ import annotations

import pytest
from ray_jobs import RAY, ray_env

pytestmark = pytest.mark.slow

OTHER, WITHOUT_TOKENS = "2.52.1", "2.49.2"
JOB = """\
# /// script
# dependencies = []
# [tool.runspec]
# schema = "1"
# [tool.runspec.run]
# launch = "ray"
# ///
import os, ray, sys
print("the command runs", flush=True)
ray.init(logging_level="ERROR")
print("task of", ray.get(ray.remote(lambda: ray.__version__).remote()), "with a server of", os.environ["RAY_ADDRESS"])
"""


def prepared(project, command: str, cluster: str, **keys: str) -> None:
    """A profile whose command finds one Ray on `PATH`, and whose cluster has another."""
    project.write("job.py", JOB)
    lines = [
        "[here]",
        'executor = "local"',
        f'ray_venv = "{ray_env(cluster)}"',
        f'startup_commands = ["export PATH={ray_env(command)}/bin:$PATH"]',
        *(f'{key} = "{value}"' for key, value in keys.items()),
    ]
    project.write("env.toml", "\n".join(lines) + "\n")


def test_a_command_with_another_ray_does_not_start(project, nemotron_process):
    """Both are named, with where they lie."""
    prepared(project, command=OTHER, cluster=RAY)
    done = nemotron_process("run", "./job.py", "--run", "here")
    assert done.code == 1 and "the command runs" not in done.out, done.err + done.out
    assert f"the command's {ray_env(OTHER)}/bin/python has Ray {OTHER} with Python 3." in done.err, done.err
    assert f"and the cluster's {ray_env()}/bin/python has Ray {RAY} with Python 3." in done.err


@pytest.mark.full
def test_what_finds_its_ray_by_itself_is_refused_by_ray_and_explained(project, nemotron_process):
    """As `uv run` does: which Python that is, nobody knows before."""
    prepared(project, command=RAY, cluster=RAY, run_command=f"exec {ray_env(OTHER)}/bin/python {{script}}")
    done = nemotron_process("run", "./job.py", "--run", "here")
    assert done.code == 1 and "the command runs" in done.out, done.err + done.out
    assert "another Ray or Python than that" in done.err, done.err + done.out


def test_a_ray_without_tokens_is_told_of(project, nemotron_process):
    prepared(project, command=WITHOUT_TOKENS, cluster=WITHOUT_TOKENS)
    done = nemotron_process("run", "./job.py", "--run", "here")
    assert done.code == 0 and f"task of {WITHOUT_TOKENS} " in done.out, done.err + done.out
    assert f"Ray {WITHOUT_TOKENS} knows no tokens: whoever reaches its ports may use it" in done.out + done.err
