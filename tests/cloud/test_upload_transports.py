"""Which way a job's files and code take to its pods, that they arrive whole, and what is said where none fits."""

from __future__ import annotations

import os
import random
import subprocess
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from pod_process import ROOMY, cloud_plan, loaded, start, start_as_variables, with_code, without

from nemo_runspec.backends.cloud.code.transports import (
    Transports,
    choose_transports,
    problem_at_plan_time,
    transports_of,
)
from nemo_runspec.backends.cloud.code.upload import pod_arguments
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Package
from nemo_runspec.remote.job import RemoteJob
from nemo_runspec.spinner import Spinner
from nemo_runspec.submission.request import RetriedJob, Submission

MB = 1_000_000
RUNAI = Transports(9_500, 296_000)
DIGEST = """
    import hashlib
    print(hashlib.sha256(open("noise", "rb").read()).hexdigest())
"""


def noise(folder: Path, size: int) -> Path:
    """An archive of so many bytes of noise, which no compression makes smaller."""
    (folder / "noise").write_bytes(random.Random(size).randbytes(size))
    archive = folder / "noise.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(folder / "noise", "noise")
    return archive


def digest(folder: Path) -> str:
    """Of what the archive holds."""
    return subprocess.run(["sha256sum", folder / "noise"], capture_output=True, text=True, check=True).stdout.split()[0]


class Heard(Spinner):
    """A line that lives, and all that it was told."""

    def __init__(self) -> None:
        super().__init__("sending")
        self.told: list[str] = []

    def tell(self, text: str) -> None:
        super().tell(text)
        self.told.append(text)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["volume", "s3"])
def test_an_upload_tells_how_far_it_is(tmp_path, s3_lab, monkeypatch, way):
    """In pieces of a file on a volume, in parts of an object in a bucket; then the line says what it said before."""
    monkeypatch.setenv("ACCESS_KEY", s3_lab.access_key)
    monkeypatch.setenv("SECRET_KEY", s3_lab.secret_key)
    (tmp_path / "run").mkdir()
    archive = noise(tmp_path, 40 * MB)
    s3_lab.bucket("bucket")
    s3 = {"code_url": "s3://bucket/code", "s3_endpoint": s3_lab.endpoint, "s3_region": s3_lab.region}
    target = {"volume": {"run_dir_here": str(tmp_path / "run")}, "s3": s3}[way]
    plan = with_code(cloud_plan(tmp_path, DIGEST, target=target), archive)
    with Heard() as heard:
        loaded(plan, archive=archive, offer=transports_of(plan, {}, inline_word=90_000))
    code = [text.removeprefix("uploading code · ") for text in heard.told if text.startswith("uploading code · ")]
    assert (code[0], code[-1]) == ("0.0 of 40.0 MB", "40.0 of 40.0 MB")
    assert "16.8 of 40.0 MB" in code or len(code) > 100
    assert (heard.told[-1], heard.text) == ("sending", "sending")


@pytest.mark.parametrize(("offer", "begin"), [(ROOMY, start), (RUNAI, start_as_variables)], ids=["lepton", "run:ai"])
def test_sixty_kilobytes_travel_in_the_description_itself(tmp_path, offer, begin):
    archive = noise(tmp_path, 60_000)
    plan = with_code(cloud_plan(tmp_path, DIGEST), archive)
    cargo = loaded(plan, archive=archive, offer=offer)
    assert [part.transport for part in cargo.parts] == ["inline"] * 3
    assert (
        max(map(len, pod_arguments(cargo))) <= offer.inline_word
        and sum(map(len, pod_arguments(cargo))) < offer.inline_total
    )
    pod = begin(cargo)
    assert pod.wait() == 0, pod.text
    assert f"{digest(tmp_path)}\n" in pod.text


@pytest.mark.slow
def test_fifty_megabytes_arrive_over_a_volume_and_are_put_there_once(tmp_path):
    archive = noise(tmp_path, 50 * MB)
    (tmp_path / "run").mkdir()
    plan = with_code(cloud_plan(tmp_path, DIGEST, target={"run_dir_here": str(tmp_path / "run")}), archive)
    offer = transports_of(plan, {}, inline_word=90_000)
    cargo = loaded(plan, archive=archive, offer=offer)
    assert [part.transport for part in cargo.parts] == ["inline", "volume", "volume"]
    packages = tmp_path / "run" / "packages"
    assert {path.name for path in packages.iterdir()} == {f"{part.sha256}.tar.gz" for part in cargo.parts[1:]}
    package = packages / f"{cargo.parts[1].sha256}.tar.gz"
    assert package.read_bytes() == archive.read_bytes()
    before = package.stat()
    assert loaded(plan, archive=archive, offer=offer) == cargo
    assert (package.stat().st_ino, package.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    with package.open("r+b") as damaged:
        damaged.write(b"\0" * 100)
    assert loaded(plan, archive=archive, offer=offer) == cargo
    assert package.read_bytes() == archive.read_bytes()
    pod = start(cargo)
    assert pod.wait() == 0, pod.text
    assert f"{digest(tmp_path)}\n" in pod.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "missing"),
    [(50 * MB, ()), (2 * MB, ("curl",)), (2 * MB, ("curl", "wget"))],
    ids=["curl", "wget", "python3"],
)
def test_code_arrives_whole_over_s3_and_is_put_there_once(tmp_path, s3_lab, monkeypatch, size, missing):
    for name, value in s3_lab.environment().items():
        monkeypatch.setenv(name, value)
    archive = noise(tmp_path, size)
    place = {"code_url": "s3://bucket/packages/", "s3_endpoint": s3_lab.endpoint, "s3_region": s3_lab.region}
    plan = with_code(cloud_plan(tmp_path, DIGEST, target=place), archive)
    offer = transports_of(plan, {}, inline_word=90_000)
    cargo = loaded(plan, archive=archive, offer=offer)
    assert [part.transport for part in cargo.parts] == ["inline", "s3", "s3"]
    assert s3_lab.secret_key not in " ".join(pod_arguments(cargo))
    there = {f"{part.sha256}.tar.gz" for part in cargo.parts[1:]}
    assert {*s3_lab.urls()} == {f"s3://bucket/packages/{name}" for name in there}
    before = len(s3_lab.calls)
    assert [part.sha256 for part in loaded(plan, archive=archive, offer=offer).parts] == [p.sha256 for p in cargo.parts]
    assert [call.method for call in s3_lab.calls[before:]] == ["HEAD", "HEAD"]
    pod = start(cargo, PATH=without(tmp_path, *missing))
    assert pod.wait() == 0, pod.text
    assert f"{digest(tmp_path)}\n" in pod.text
    assert {file.name for file in (tmp_path / "run" / "packages").iterdir()} == there


def test_same_files_are_the_same_bytes_and_texts_of_the_payload_do_not_travel(tmp_path):
    plan = cloud_plan(tmp_path, "print('x')")
    first = loaded(plan)
    os.utime(plan.bundle.files[0].source, (1, 1))
    assert loaded(plan) == first
    pod = start(first)
    assert pod.wait() == 0
    names = {path.name for path in Path(plan.job_dir).iterdir()}
    programs = {"supervisor.py", "start.sh", "fallback.sh", "fallback-pod.sh"}
    assert names == {"job.sh", "pod.sh", "train.yaml", "job.yaml", "bundle", "logs", "status", *programs}


def test_what_is_the_same_for_all_jobs_is_an_archive_that_is_the_same(tmp_path):
    """Of the bytes that are this job's own, few are left."""
    first, second = (loaded(cloud_plan(tmp_path, f"print({n})")) for n in "12")
    (job, programs), (other, same) = first.parts, second.parts
    assert (programs.kind, programs) == ("programs", same)
    assert job.sha256 != other.sha256
    assert job.size < programs.size / 5


S3, VOLUME = object(), Path("/volume")


def place():
    """A commit that the pods can fetch."""
    return


def refused():
    """One that they cannot."""
    raise UserError("https://example.com/x.git does not have commit 1234", remedy="git push")


@pytest.mark.parametrize(
    ("wanted", "code", "have", "ways"),
    [
        ("auto", 1000, {"s3": S3, "volume": VOLUME, "git": place}, "inline inline"),
        ("auto", 50 * MB, {"s3": S3, "volume": VOLUME, "git": place}, "inline volume"),
        ("auto", 50 * MB, {"s3": S3, "git": place}, "inline s3"),
        ("auto", 50 * MB, {"git": place}, "inline git"),
        ("git", 1000, {"s3": S3, "volume": VOLUME, "git": place}, "inline git"),
        ("s3", 1000, {"s3": S3, "volume": VOLUME}, "inline s3"),
        ("volume", 50 * MB, {"s3": S3, "volume": VOLUME}, "inline volume"),
        ("inline", 50 * MB, {"s3": S3, "volume": VOLUME}, None),
        ("auto", 50 * MB, {"git": refused}, None),
        ("git", 1000, {"s3": S3}, None),
    ],
)
def test_way_of_the_code(tmp_path, wanted, code, have, ways):
    plan = cloud_plan(tmp_path, target={"code_transport": wanted})
    offer = Transports(90_000, 500_000, **have)
    sizes = {"job": 9_000, "code": code}
    if ways is not None:
        assert " ".join(choose_transports(plan, sizes, offer).values()) == ways
        programs = choose_transports(plan, {**sizes, "programs": 45_000}, offer)["programs"]
        assert programs == {"volume": "volume", "s3": "s3"}.get(ways.split()[1], "inline"), "where code goes by digest"
        return
    with pytest.raises(UserError, match="does not reach the job's pods"):
        choose_transports(plan, sizes, offer)


def test_code_that_fits_no_way_names_all_of_them_and_what_each_needs(tmp_path):
    plan = cloud_plan(tmp_path, target={"run_dir_here": str(tmp_path / "nowhere"), "code_url": "s3://code"})
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ACCESS_KEY", "SECRET_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name, raising=False)
        offer = replace(transports_of(plan, {}, inline_word=90_000), git=refused)
    with pytest.raises(UserError) as caught:
        choose_transports(plan, {"job": 10_000, "code": 50 * MB}, offer)
    said = str(caught.value)
    for part in (
        "the code package (50.0 MB)",
        "inline: needs at most 362.0 kB",
        "nowhere' is no directory of this machine",
        "ACCESS_KEY and SECRET_KEY are not set",
        "git: https://example.com/x.git does not have commit 1234",
        "git push",
    ):
        assert part in said


TREE = {"kind": "git", "commit": "a" * 40, "digest": "b" * 40}


@pytest.mark.parametrize(
    ("target", "package", "refused"),  # inline: for Lepton 372 kB, packed at most 1000:1
    [
        ({}, {"kind": "none"}, False),
        ({}, {"kind": "pattern", "bytes": 60_000}, False),
        ({}, {"kind": "pattern", "bytes": 371 * MB}, False),
        ({}, {"kind": "pattern", "bytes": 373 * MB}, True),
        ({"code_url": "s3://code"}, {"kind": "pattern", "bytes": 500 * MB}, False),
        ({"run_dir_here": "/mnt"}, {"kind": "pattern", "bytes": 500 * MB}, False),
        ({}, {**TREE, "bytes": 500 * MB}, False),
        ({}, {**TREE, "digest": "c" * 64, "bytes": 500 * MB}, True),
        ({"code_transport": "git"}, {"kind": "pattern", "bytes": 10}, True),
        ({"code_transport": "volume"}, {"kind": "pattern", "bytes": 10}, True),
        ({"code_transport": "inline", "code_url": "s3://code"}, {"kind": "pattern", "bytes": 500 * MB}, True),
    ],
)
def test_plan_says_what_surely_does_not_arrive(tmp_path, target, package, refused):
    plan = replace(cloud_plan(tmp_path, target=target), package=Package(**package))
    problem = problem_at_plan_time(plan)
    assert (problem is not None) == refused
    if problem and not target:
        assert all(word in problem for word in ("inline: ", "volume: ", "s3: ", "git: ", "run_dir_here", "code_url"))


def test_each_cloud_has_its_own_limit(tmp_path):
    plan = replace(cloud_plan(tmp_path), package=Package(kind="pattern", bytes=300 * MB))
    assert problem_at_plan_time(plan) is None
    said = problem_at_plan_time(replace(plan, executor="dgxcloud"))
    assert said is not None and "inline: at most 222.0 kB, packed" in said


@pytest.mark.parametrize(("size", "refused"), [(250_000, False), (400_000, True)])
def test_package_that_fits_no_way_is_refused_before_anything_is_written_down(tmp_path, monkeypatch, size, refused):
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LEPTON_WORKSPACE_ID", "mine:token")
    archive = noise(tmp_path, size)
    plan = with_code(cloud_plan(tmp_path), archive)
    submission = Submission(plan, "{}", retried=RetriedJob("before", archive))
    if not refused:
        assert RemoteJob(submission, lambda line: None).parts.archive == archive
        return
    with pytest.raises(UserError, match=r"the code package \(40\d\.\d kB\) does not reach the job's pods"):
        RemoteJob(submission, lambda line: None)
    assert not list((tmp_path / "home").rglob("*.json"))


def test_volume_that_cannot_be_written_is_an_error(tmp_path):
    archive = noise(tmp_path, 1_000)
    (tmp_path / "packages").write_text("a file")
    plan = with_code(cloud_plan(tmp_path, target={"code_transport": "volume", "run_dir_here": str(tmp_path)}), archive)
    offer = transports_of(plan, {}, inline_word=90_000)
    with pytest.raises(UserError, match="cannot be written below run_dir_here"):
        loaded(plan, archive=archive, offer=offer)
