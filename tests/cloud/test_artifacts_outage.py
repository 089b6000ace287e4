"""A bucket that is out of order, as a job meets it that registers what it has made, and as `pull` meets it."""

from __future__ import annotations

from pathlib import Path

import pytest
from input_recipes import write_recipes
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab
from support import Outcome, Project, make_project, process

__all__ = ["s3_lab"]

ROOT = "s3://bucket/store"
MANIFEST, DATA, LISTING = "PUT /bucket/store/.versions/words/v*", "PUT /bucket/store/words/*", "GET /bucket/"
PASSING = {
    "busy": (MANIFEST, "503", {"times": 2, "retry_after": 0.2}),
    "an answer is lost": (MANIFEST, "reset_after", {"times": 1}),
    "half an answer": (LISTING, "cut", {"times": 1}),
    "slow": (DATA, "slow", {"times": 1}),
    "gone for a moment": ("*", "reset", {"times": 3}),
}
LASTING = {
    "refused": (DATA, "403", {}),
    "gone": ("*", "reset", {}),
    "silent": (MANIFEST, "timeout", {"seconds": 60}),
    "no space": (DATA, "507", {}),
    "busy for ever": (MANIFEST, "503", {}),
}


@pytest.fixture
def project(tmp_path, s3_lab: S3Lab) -> Project:
    section = f'root = "{ROOT}"\nendpoint = "{s3_lab.endpoint}"\nregion = "{s3_lab.region}"\n'
    made = make_project(tmp_path, f"[artifacts]\n{section}")
    write_recipes(made)
    made.write("recipes/steps/types.toml", '[text]\ndescription = "Words."\nlayout = "a file"\n')
    return Project(made.folder, made.home, s3_lab.environment())


def make(project: Project) -> Outcome:
    return process(project, "mine", "make", "++run.env.env_vars.NEMOTRON_REGISTER_SECONDS='4'")


def listed(project: Project) -> list[str]:
    found = process(project, "artifacts", "list", "words", "--json")
    return [each["producer"]["job"] for each in found.json] if found.code == 0 else []


@pytest.mark.slow
@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_waited_for(project, s3_lab, name):
    match, kind, more = PASSING[name]
    s3_lab.fault(match, kind, **more)
    make(project).succeeds()
    assert len(listed(project)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", LASTING)
def test_what_does_not_is_said_and_the_version_is_registered_once_later(project, s3_lab, name):
    match, kind, more = LASTING[name]
    s3_lab.fault(match, kind, times=None, **more)
    done = make(project)
    assert (done.code, "produced, not registered: words (" in done.err) == (74, True), done
    job = done.err.partition(":")[0]
    s3_lab.quiet_faults()
    assert listed(project) == []
    for _ in range(2):
        process(project, "artifacts", "register", job).succeeds()
    assert listed(project) == [job]
    assert process(project, "jobs", "show", job, "--json").json["exit_code"] == 0


@pytest.mark.slow
def test_a_pull_goes_on_where_it_broke_off_and_says_what_is_not_what_was_registered(project, s3_lab, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("a", "b"):
        (data / name).write_bytes(name.encode() * 100_000)
    process(project, "artifacts", "add", str(data), "--name", "words", "--type", "text").succeeds()
    path = process(project, "artifacts", "show", "words", "--json").succeeds().json["path"]
    s3_lab.fault("GET /bucket/store/words/*/b", "403", times=None)
    assert process(project, "artifacts", "pull", "words", str(tmp_path / "here")).code != 0
    s3_lab.quiet_faults()
    before = len(s3_lab.calls_of("GET /bucket/store/words/*/a"))
    assert before == 1 and (tmp_path / "here" / "a").exists()
    out = process(project, "artifacts", "pull", "words", str(tmp_path / "here")).succeeds().out.strip()
    assert len(s3_lab.calls_of("GET /bucket/store/words/*/a")) == 1
    assert (Path(out) / "b").read_bytes() == b"b" * 100_000
    s3_lab.put(f"{path}/b", b"c" * 100_000)
    other = process(project, "artifacts", "pull", "words", str(tmp_path / "other"))
    assert (other.code, "is not what was registered" in other.err) == (2, True), other
