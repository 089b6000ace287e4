"""`${auto_mount:…}` on Slurm: the repository's files at that commit, sent into the job's directory and mounted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import support
from labs.slurm.cluster import SlurmLab
from labs.slurm.fixtures import needs_slurm
from labs.slurm.process import CLEAN
from support import Outcome, Project

pytestmark = needs_slurm

SCRIPT = (
    "from pathlib import Path\nprint(*(path.read_text() for path in sorted(Path('/opt/x').glob('*'))), flush=True)\n"
)


def test_a_repository_is_mounted_at_its_commit(
    project: Project, nemotron_process: Callable[..., Outcome], slurm_lab: SlurmLab, tmp_path: Path
):
    library = tmp_path / "library"
    library.mkdir()
    (library / "said").write_text("two")
    support.make_repository(library)
    image = slurm_lab.image("mounting")
    project.write("train.py", SCRIPT)
    project.write(
        "env.toml",
        f'[lab]\nexecutor = "slurm"\naccount = "acme"\npartition = "batch"\ntime = "00:05:00"\n'
        f'remote_job_dir = "{tmp_path}/run"\ncontainer_image = "{image}"\n'
        f'mounts = ["${{auto_mount:git+file://{library}@main,/opt/x:ro}}"]\n',
    )
    path = f"{Path(sys.executable).parent}:{CLEAN['PATH']}"
    environment = {**slurm_lab.environment(), "PATH": path}
    dry = nemotron_process("run", "./train.py", "--run", "lab", "--dry-run", **environment).succeeds()
    assert "sent into mounts/library-" in dry.out
    done = nemotron_process("run", "./train.py", "--run", "lab", **environment)
    assert (done.code, done.out) == (0, "two\n"), done.err
    (library / "said").write_text("three")
    support.git(library, "commit", "-aqm", "three")
    again = nemotron_process("jobs", "retry", "last", **environment)
    assert (again.code, again.out) == (0, "two\n"), again.err
