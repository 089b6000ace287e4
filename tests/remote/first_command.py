"""`nemotron nano3 pretrain -c tiny --run PROFILE`, the specification's first command, on every profile it has.

Each block is taken as it stands and filled in for a lab: addresses, accounts, names of partitions, images and volumes
that the lab has, and no more nodes and processes than its machine. Nothing else is changed. The data is not there at
first, as on a fresh cluster. It trains for a few steps: that it learns is held where README's commands are run, and by
the tests of the recipe. One profile of each executor takes all processes that the machine does; the others, in the full
tier, one process a node. Profiles that are equal once they are filled in are run once.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab_docker
import pytest
from labs.pods import needs_mounts
from labs.recipe_packages import linked, recipe_packages
from labs.slurm.fixtures import needs_slurm
from slurm_project import make_cluster
from support import SEED_BLOCKS, Project, make_project, make_repository, process

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = dict[str, Any]
SYSTEM = {"wandb", "artifacts", "cache", "cli"}
FIRST = ("nano3", "pretrain", "-c", "tiny")
SHORT = ("train.train_iters=3", "train.eval_iters=1", "train.require_below_unigram=false")
PROCESSES = ("ntasks_per_node", "nprocs_per_node", "nproc_per_node")
MOST = 2
"""Nodes of the labs' one machine, or processes on one of them."""

IMAGE = "nvcr.io/nvidia/nemo:25.11.nemotron_3_nano"
"""What the recipe names; on Slurm the specification mostly leaves it to that."""
SLURM = {
    "account": "acme", "partition": "batch", "run_partition": "interactive", "batch_partition": "backfill",
    "build_cache_dir": "{top}/cache", "remote_job_dir": "{top}/run", "host": "lab", "user": "root",
    "identity": "{identity}", "startup_commands": ["true"], "mounts": ["{top}:/lustre", "{packages}:/packages:ro"],
    "container_image": IMAGE, "cpus_per_task": 2, "time": "01:00:00",
}  # fmt: skip
LEPTON = {
    "resource_shape": "gpu.8xh100-sxm", "node_group": "h100-pool", "pre_launch_commands": ["true"],
    "mounts": [{"path": "/", "mount_path": "/nemo_run", "from": "node-nfs:lustre"}],
}  # fmt: skip
RUNAI = {
    "base_url": "{base_url}", "kube_apiserver_url": "{kube_url}", "client_id": "{client}", "app_id": "{client}",
    "client_secret": "{secret}", "app_secret": "{secret}", "project_name": "{project}",
    "pvcs": [{"claimName": "data", "path": "/pvc"}],
}  # fmt: skip
DOCKER = {"runtime": None, "gpus_per_node": 0, "nproc_per_node": MOST, "mounts": ["{packages}:/packages:ro"]}
ALWAYS: Mapping[str, Table] = {
    "slurm": {"mounts": SLURM["mounts"]},
    "lepton": {"mounts": LEPTON["mounts"]},
    "dgxcloud": {"pvcs": RUNAI["pvcs"]},
    "docker": {"mounts": DOCKER["mounts"], "nproc_per_node": MOST},
    "local": {},
}
"""What a profile needs to run at all, said or not."""

FILLED: Mapping[str, Table] = {"slurm": SLURM, "lepton": LEPTON, "dgxcloud": RUNAI, "docker": DOCKER, "local": {}}
IMAGES = {"docker": lab_docker.BASE, "lepton": "ubuntu:24.04", "dgxcloud": "ubuntu:24.04"}
PYTHONPATH = {"docker": "/packages", "lepton": "/nemo_run/packages", "dgxcloud": "/pvc/packages"}
LABS = {
    "local": [pytest.mark.full],  # README's own command, which a test of the docs runs
    "slurm": [needs_slurm],
    "lepton": [needs_mounts],
    "dgxcloud": [needs_mounts],
    "docker": [lab_docker.needs_docker],
}


def chain(tables: Mapping[str, Table], name: str) -> Table:
    """A profile with what it extends."""
    own = tables[name]
    above = chain(tables, own["extends"]) if "extends" in own else {}
    return {key: value for key, value in {**above, **own}.items() if key != "extends"}


def filled(profile: Table) -> Table:
    """The profile with the lab's own values in the place of the specification's; `{name}` is known when it runs."""
    executor = profile.get("executor", "local")
    wanted = {**{key: value for key, value in FILLED[executor].items() if key in profile}, **ALWAYS[executor]}
    small = {key: min(profile[key], MOST) for key in ("nodes", *PROCESSES) if key in profile}
    if small.get("nodes", 1) > 1:
        small |= {key: 1 for key in PROCESSES if key in profile}
    if executor in ("lepton", "dgxcloud") and "nprocs_per_node" not in profile:
        small["nprocs_per_node"] = MOST if small.get("nodes", 1) == 1 else 1
    if profile.get("packager") == "hybrid":
        small["packager_sub_packagers"] = {"code": {"packager": "git"}}
    image = {"container_image": IMAGES[executor]} if "container_image" in profile and executor in IMAGES else {}
    done = {**profile, **wanted, **small, **image}
    return {key: value for key, value in done.items() if value is not None}


def cases(wanted: Callable[[str, int], bool]) -> list[Any]:
    """The parameters of a test: those of the specification's profiles that a file of tests wants.

    Args:
        wanted: given a profile's executor and the number of its block. The files share them out: each takes minutes.
    """
    return [case for case, executor, block in _all() if wanted(executor, block)]


def _all() -> Iterator[tuple[Any, str, int]]:
    seen: set[str] = set()
    begun: set[str] = set()
    paired: set[str] = set()
    for block in SEED_BLOCKS:
        tables = tomllib.loads(block.read_text(encoding="utf-8"))
        for name in (name for name in tables if name not in SYSTEM):
            profile = filled(chain(tables, name))
            text = json.dumps(profile, sort_keys=True)
            if text in seen:
                continue
            seen.add(text)
            executor = profile.get("executor", "local")
            marks = [*LABS.get(executor, ()), *([pytest.mark.full] if executor in begun else ())]
            if executor in begun:
                one = ("nodes", *PROCESSES) if executor in paired else PROCESSES
                profile |= {key: 1 for key in one if key in profile}
                paired |= {executor} if profile.get("nodes", 1) > 1 else set()
            begun.add(executor)
            case = pytest.param(name, profile, id=f"{block.stem}-{name}", marks=marks)
            yield case, executor, int(re.match(r"\d+", block.stem)[0])


def toml(value: Any) -> str:
    """A value as TOML writes it inside of a line."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    return json.dumps(value)


def with_values(value: Any, known: Mapping[str, str]) -> Any:
    """The lab's addresses and folders put in."""
    if isinstance(value, str):
        for name, text in known.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, dict):
        return {key: with_values(item, known) for key, item in value.items()}
    return [with_values(item, known) for item in value] if isinstance(value, list) else value


Ready = tuple[Project, dict[str, str], str]
"""A project, what is known of its lab, and where its jobs find the recipe's packages."""


def _local(request: pytest.FixtureRequest, top: Path) -> Iterator[Ready]:
    yield make_project(top), {}, ""


def _slurm(request: pytest.FixtureRequest, top: Path) -> Iterator[Ready]:
    lab = request.getfixturevalue("slurm_lab")
    if not (lab.base / "registry" / re.sub("[/:#]", "+", IMAGE)).exists():
        lab.image(IMAGE)
    known = {"top": str(top), "identity": str(lab.ssh.identity), "packages": str(recipe_packages())}
    with make_cluster(lab, top) as cluster:
        yield cluster.project, known, "/packages"


def _docker(request: pytest.FixtureRequest, top: Path) -> Iterator[Ready]:
    engine = request.getfixturevalue("docker_engine")
    project = replace(make_project(top), extra={"DOCKER_HOST": engine.host})
    yield project, {"packages": str(recipe_packages())}, PYTHONPATH["docker"]


def _lepton(request: pytest.FixtureRequest, top: Path) -> Iterator[Ready]:
    lab = request.getfixturevalue("lepton_lab")
    linked(recipe_packages(), lab.volumes["lustre"] / "packages")
    yield replace(make_project(top), extra=lab.environment()), {}, PYTHONPATH["lepton"]
    lab.reset()


def _runai(request: pytest.FixtureRequest, top: Path) -> Iterator[Ready]:
    lab = request.getfixturevalue("runai_lab")
    linked(recipe_packages(), lab.claims["data"] / "packages")
    known = {"base_url": lab.base_url, "kube_url": lab.kube_url, "client": lab.client_id,
             "secret": lab.client_secret, "project": lab.project}  # fmt: skip
    yield make_project(top), known, PYTHONPATH["dgxcloud"]
    lab.tidy()


SITES: Mapping[str, Callable[[pytest.FixtureRequest, Path], Iterator[Ready]]] = {
    "local": _local, "slurm": _slurm, "docker": _docker, "lepton": _lepton, "dgxcloud": _runai,
}  # fmt: skip


def logs_of(project: Project) -> str:
    """What the jobs of a call that failed have written."""
    jobs = sorted(path.name for path in (project.state / "jobs").glob("nano3-*"))
    return "\n".join(f"{name}:\n{process(project, 'jobs', 'logs', name).out[-2000:]}" for name in jobs)


def run_the_first_command(request: pytest.FixtureRequest, tmp_path: Path, name: str, profile: Table) -> None:
    """The data is made, and the recipe trains on it."""
    for project, known, packages in SITES[profile.get("executor", "local")](request, tmp_path):
        profile = with_values(profile, known)
        variables = {**profile.get("env_vars", {}), **({"PYTHONPATH": packages} if packages else {})}
        variables |= {"HF_HUB_OFFLINE": "1", "MPLCONFIGDIR": "/tmp/mpl"}
        variables |= {"CUDA_VISIBLE_DEVICES": "-1"}  # no lab has the GPUs that profiles ask for
        rows = {**profile, "env_vars": variables}
        project.write("src/mine/code.py", "VALUE = 1\n")
        project.write("env.toml", f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in rows.items()))
        make_repository(project.folder)
        done = process(project, *FIRST, "--run", name, *SHORT, timeout=900)
        assert done.code == 0, done.out[-4000:] + done.err[-4000:] + logs_of(project)
        assert "nano3/data/prep/pretrain" in done.err, "its data was made first"
        # Of DGX Cloud, logs come from the Kubernetes API alone; on Slurm this is the job that waits.
        is_shown = profile.get("executor") != "dgxcloud" or "kube_apiserver_url" in profile
        assert "validation loss" in done.out or not is_shown
