"""What a job writes outlives it: proved of a plan alone, and held against real folders, links and mounts."""

from __future__ import annotations

import os
import posixpath
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from cloud_plans import plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from nemo_runspec.backends import BUILTIN
from nemo_runspec.planning.kept import problems_of
from nemo_runspec.plans.model import Artifact
from nemo_runspec.plans.storage import Storage, StorageMount, may_be_mounted_over, mounts_of_words

NAMES = st.sampled_from(["a", "aa", "b", "data", "database"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
MOUNTS = st.lists(st.tuples(PATHS, st.sampled_from(["", "ro", "rw"]), st.booleans()), max_size=4)
LINKS = st.lists(st.tuples(PATHS, PATHS | st.sampled_from(["..", "../b", "../../database", "a"])), max_size=3)
ODD = st.sampled_from(["", "/", "/.", "//", "/../a", "/./b"])


class World:
    """A container as folders: its own disk, and mounts that lead to folders outside; no kernel is asked to mount.

    A mount's place in the container is a link to what is mounted there, which the operating system follows.
    """

    def __init__(self, top: Path, mounts: list[tuple[str, str, bool]]) -> None:
        shutil.rmtree(top, ignore_errors=True)
        self.disk = top / "container"
        self.disk.mkdir(parents=True)
        self.mounts = {place: (top / f"outside-{number}", flags) for number, (place, flags, _) in enumerate(mounts)}
        for source, _ in self.mounts.values():
            source.mkdir()

    def outside(self, path: str) -> Path | None:
        """The folder that a place of the container is, link by link; None on the container's own disk."""
        over = [place for place in self.mounts if path == place or path.startswith(f"{place}/")]
        if not over:
            return None
        inner = max(over, key=len)
        return Path(f"{self.mounts[inner][0]}{path[len(inner) :]}")

    def link(self, place: str, target: str) -> None:
        """A link on one of the mounts, never where something is mounted."""
        real = self.outside(place)
        taken = any(mount == place or mount.startswith(f"{place}/") for mount in self.mounts)
        if real is None or taken or os.path.lexists(real):
            return
        try:
            real.parent.mkdir(parents=True, exist_ok=True)
            real.symlink_to(target)
        except OSError:
            return  # below another link

    def lands(self, path: str, left: int = 60) -> str | None:
        """Where writing to a path really leads, as POSIX resolves it, part by part; None where it cannot be."""
        done = ""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for number, part in enumerate(parts):
            if part == "..":
                done = posixpath.dirname(done) if done else ""
                continue
            done = f"{done.rstrip('/')}/{part}"
            real = self.outside(done)
            if real is not None and done not in self.mounts and real.is_symlink():
                if left == 0:
                    return None
                target = os.readlink(real)  # noqa: PTH115
                base = "" if target.startswith("/") else posixpath.dirname(done)
                return self.lands("/".join([base, target, *parts[number + 1 :]]), left - 1)
        return done or "/"

    def keeps(self, path: str) -> bool:
        """Whether what is written there is there without the container."""
        found = self.lands(path)
        if found is None or self.outside(found) is None:
            return False
        inner = max((p for p in self.mounts if found == p or found.startswith(f"{p}/")), key=len)
        return self.mounts[inner][1] != "ro"


@pytest.mark.slow
@given(mounts=MOUNTS, links=LINKS, path=PATHS, odd=ODD, slash=st.booleans())
@settings(max_examples=400, deadline=None)
def test_a_path_that_is_passed_is_really_kept(tmp_path_factory, mounts, links, path, odd, slash):
    """Whatever the mounts and links: what is told to be kept is kept; and nothing plain is refused that would be."""
    top = tmp_path_factory.getbasetemp() / "world"
    mounts = list({place: (place, flags, slashed) for place, flags, slashed in mounts}.values())
    world = World(top, mounts)
    for place, target in links:
        world.link(place, target)
    words = [
        f"{world.mounts[place][0]}:{place}{'/' if slashed else ''}{f':{flags}' if flags else ''}"
        for place, flags, slashed in mounts
    ]
    path = f"{path}{odd}{'/' if slash else ''}"
    storage = Storage(
        mounts_of_words(words),
        link_of=lambda path: os.readlink(path) if os.path.islink(path) else None,  # noqa: PTH114, PTH115
    )
    refused = storage.why_lost(path)
    if not refused:
        assert world.keeps(path), (words, path)
    elif ".." not in path.split("/") and world.lands(path) is not None:
        assert not world.keeps(path), (refused, words, path)


@pytest.mark.parametrize(
    ("mounts", "path", "why"),
    [
        ((), "/data/x", "is on none of mounts"),
        (("/s:/data",), "/database/x", "is on none of mounts"),
        (("/s:/data/",), "/data/x/", ""),
        (("/s:/data",), "/data/../tmp/x", "is written with '..', which says nothing where there are links"),
        (("/s:/data",), "data/x", "is not an absolute path"),
        (("/s:/data:ro",), "/data/x", "is on /data, which is read-only"),
        (("/s:/data:z,ro",), "/data/x", "is on /data, which is read-only"),
        (("/s:/data", "/t:/data/in:ro+rprivate"), "/data/in/x", "is on /data/in, which is read-only"),
        (("/s:/data:ro", "/t:/data/out"), "/data/out/x", ""),
        (("/dev/shm/x:/data",), "/data/x", "is on /data, which is gone with the job"),
        (("$SLURM_TMPDIR:/data",), "/data/x", "is on /data, which is gone with the job"),
        (("/dev/shmx:/data",), "/data/x", ""),
        (("/:/",), "/x", ""),
        (("/s://data//",), "//data/x", ""),
    ],
)
def test_why_a_path_is_lost(mounts, path, why):
    assert Storage(mounts_of_words(mounts)).why_lost(path) == why


def test_what_is_copied_away_is_kept_and_what_is_fetched_is_there():
    storage = Storage((StorageMount("/data"),), uploaded=("/results/",), fetched=("/in",))
    assert storage.why_lost("/results/a") == "" and storage.why_absent("/in/x") == ""
    assert storage.why_lost("/results-2/a") and storage.why_absent("/inn/x")


def test_the_same_path_outside_the_container():
    storage = Storage(mounts_of_words(("/lustre/me/:/data", "$HOME/y:/data/y", "/:/host")))
    assert storage.source_of("/data/a/b") == "/lustre/me/a/b"
    assert storage.source_of("/data/y/b") == "$HOME/y/b"
    assert storage.source_of("/host/x") == "/x"
    assert storage.source_of("/else") is None
    assert Storage(whole=True).source_of("/else") == "/else"


@pytest.mark.parametrize(
    "path", ["/", "/usr", "/opt/", "/proc/x", "/dev/shm", "relative", "/a:b", "/a,b", "/a b", "/a/../usr"]
)
def test_nothing_is_mounted_unasked_over_what_an_image_needs(path):
    assert not may_be_mounted_over(path)


MINE = {
    "slurm": {"container_image": "i", "remote_job_dir": "/lustre/run", "mounts": ["/lustre:/lustre"]},
    "docker": {"container_image": "i"},
    "local": {},
    "lepton": {
        "container_image": "i",
        "nemo_run_dir": "/mnt/run",
        "mounts": [{"path": "/", "mount_path": "/mnt", "from": "node-nfs:v"}],
    },
    "dgxcloud": {
        "container_image": "i",
        "pvc_nemo_run_dir": "/pvc/run",
        "pvcs": [{"claimName": "c", "path": "/pvc"}],
        "project_name": "p",
        "base_url": "https://x",
        "client_id": "y",
    },
}


def making(executor: str, path: str, **env: object):
    plan = plan_of(executor, {**MINE[executor], **env})
    run = {"output_dir": path, "artifacts": {"root": "/elsewhere"}}
    return replace(plan, run=run, produces=(Artifact("model", "model", artifact="m", path=path),))


@pytest.mark.parametrize("executor", list(BUILTIN))
def test_every_target_tells_its_mounts(executor):
    assert isinstance(plan_of(executor, MINE[executor]).target.storage("/jobs/job"), Storage)


@pytest.mark.parametrize("executor", [name for name in BUILTIN if name != "local"])
def test_an_output_on_the_containers_own_disk_is_refused(executor):
    (problem,) = problems_of(making(executor, "/elsewhere/m/a-job"))
    key = "pvcs" if executor == "dgxcloud" else "mounts"
    assert problem.what == (f"output 'model' would be lost when the job ends: /elsewhere/m/a-job is on none of {key}")
    assert problem.remedy.startswith(f"add to {key}: ") and "/elsewhere" in problem.remedy


@pytest.mark.parametrize(
    ("executor", "path", "env"),
    [
        ("local", "/anywhere", {}),
        ("slurm", "/anywhere", {"container_image": None}),
        ("slurm", "/lustre/x", {}),
        ("slurm", "/nemo_run/out", {}),
        ("slurm", "/extra/x", {"srun_args": ["--container-mounts=/lustre/a:/other,/lustre/b:/extra"]}),
        ("docker", "/nemo_run/out", {}),
        ("docker", "/extra/x", {"additional_kwargs": {"volumes": {"/here": {"bind": "/extra", "mode": "rw"}}}}),
        (
            "docker",
            "/extra/x",
            {"additional_kwargs": {"mounts": [{"target": "/extra", "source": "vol", "type": "volume"}]}},
        ),
        ("lepton", "/mnt/x", {}),
        ("lepton", "/extra/x", {"outputs": ["/extra"], "output_url": "s3://b/o"}),
        (
            "lepton",
            "/extra/x",
            {"custom_spec": {"mounts": [{"path": "/", "mount_path": "/extra", "from": "node-nfs:v"}]}},
        ),
        ("dgxcloud", "/pvc/x", {}),
        ("dgxcloud", "/extra/x", {"custom_spec": {"storage": {"nfs": [{"mountPath": "/extra", "path": "/e"}]}}}),
        ("dgxcloud", "/extra/x", {"outputs": ["/extra"], "output_url": "s3://b/o"}),
    ],
)
def test_an_output_on_storage_is_fine(executor, path, env):
    assert problems_of(making(executor, path, **env)) == []


@pytest.mark.parametrize(
    ("executor", "env", "why"),
    [
        ("docker", {"additional_kwargs": {"tmpfs": {"/extra": "size=1g"}}}, "memory"),
        ("docker", {"additional_kwargs": {"mounts": [{"Target": "/extra", "Source": "/s", "ReadOnly": True}]}}, "read"),
        (
            "lepton",
            {"custom_spec": {"mounts": [{"mount_path": "/extra", "mount_options": {"read_only": True}}]}},
            "read-only",
        ),
        ("dgxcloud", {"custom_spec": {"storage": {"emptyDirVolume": [{"mountPath": "/extra"}]}}}, "gone with the job"),
        ("dgxcloud", {"pvcs": [{"claimName": "c", "path": "/extra", "ephemeral": True}]}, "gone with the job"),
        ("dgxcloud", {"pvcs": [{"claimName": "c", "path": "/extra", "readOnly": True}]}, "read-only"),
    ],
)
def test_storage_that_keeps_nothing_is_named(executor, env, why):
    (problem,) = problems_of(making(executor, "/extra/m", **env))
    assert f"is on /extra, which is {why}" in problem.what


def test_an_output_directory_counts_where_something_names_it():
    plan = replace(plan_of("docker", MINE["docker"]), run={"output_dir": "/out"})
    assert problems_of(plan) == []
    named = replace(plan, config={"checkpoint": {"save": ["/out/checkpoints"]}})
    assert [each.what.split(" would")[0] for each in problems_of(named)] == ["run.output_dir"]
    assert problems_of(replace(plan, config={"other": "/out-2/x"})) == []


def test_a_version_that_a_container_cannot_see_is_refused():
    plan = plan_of("lepton", MINE["lepton"])
    stored = Artifact("data", "data", artifact="d", path="/elsewhere/d/latest")
    (problem,) = problems_of(replace(plan, consumes=(stored,)))
    assert problem.what == "input 'data' cannot be read: /elsewhere/d/latest is on none of mounts"
    assert problems_of(replace(plan, consumes=(replace(stored, artifact=None),))) == [], "it may be the image's own"
