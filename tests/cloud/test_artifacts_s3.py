"""`nemotron artifacts` of a store in a bucket: the lab's S3 server, asked with this machine's keys."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from input_recipes import write_recipes
from labs.s3.fixtures import s3_lab
from labs.s3.lab import S3Lab
from support import Outcome, Project, make_project, process

from nemo_runspec.backends.cloud.storage.s3 import S3, Keys
from nemo_runspec.backends.cloud.storage.versions import BucketVersions

__all__ = ["s3_lab"]

ROOT = "s3://bucket/our/artifacts"


@pytest.fixture
def project(tmp_path, s3_lab: S3Lab) -> Project:
    section = f'root = "{ROOT}"\nendpoint = "{s3_lab.endpoint}"\nregion = "{s3_lab.region}"\n'
    made = make_project(tmp_path, f"[artifacts]\n{section}")
    made.write("recipes/steps/types.toml", '[text]\ndescription = "Words."\nlayout = "a file"\n')
    (tmp_path / "words" / "deep").mkdir(parents=True)
    (tmp_path / "words" / "deep" / "a.txt").write_text("first")
    return Project(made.folder, made.home, s3_lab.environment())


def nemotron(project: Project, *words: str) -> Outcome:
    return process(project, "artifacts", *words)


def added(project: Project, path: Path, *more: str) -> str:
    return (
        nemotron(project, "add", str(path), "--name", "words", "--type", "text", "--json", *more)
        .succeeds()
        .json["reference"]
    )


def test_versions_in_a_bucket_are_added_listed_tagged_brought_and_removed(project, s3_lab, tmp_path):
    assert nemotron(project, "list").succeeds().out == f"No artifacts yet in {ROOT}.\n"
    assert added(project, tmp_path / "words", "--tag", "gold") == "words:v1"
    (tmp_path / "words" / "deep" / "a.txt").write_text("second")
    assert added(project, tmp_path / "words") == "words:v2"
    first = nemotron(project, "show", "words:gold", "--json").succeeds().json
    assert first["version"] == 1 and first["path"].startswith(f"{ROOT}/words/words-")
    assert s3_lab.get(f"{first['path']}/deep/a.txt") == b"first"
    rows = nemotron(project, "list", "words", "--json").succeeds().json
    assert [(row["reference"], row["latest"], row["tags"]) for row in rows] == [
        ("words:v2", True, []),
        ("words:v1", False, ["gold"]),
    ]
    out = nemotron(project, "pull", "words:gold", str(tmp_path / "here")).succeeds().out.strip()
    assert Path(out, "deep", "a.txt").read_text() == "first"
    nemotron(project, "tag", "words:2", "gold").succeeds()
    assert nemotron(project, "show", "words:gold", "--json").json["version"] == 2
    nemotron(project, "rm", "words:2", "--data", "-y").succeeds()
    assert [row["reference"] for row in nemotron(project, "list", "--all", "--json").json] == ["words:v1"]
    left = [url for url in s3_lab.urls(ROOT) if "/.versions/" not in url]
    assert left == [f"{first['path']}/deep/a.txt"]
    assert added(project, tmp_path / "words") == "words:v3"
    nemotron(project, "list", "wrds").refuses("did you mean 'words'")


def test_many_at_once_have_numbers_of_their_own(project, s3_lab, tmp_path):
    keys = Keys(s3_lab.access_key, s3_lab.secret_key)

    def register(number: int) -> int:
        versions = BucketVersions(S3(keys, s3_lab.endpoint, s3_lab.region), ROOT)
        return versions.add("words", str(tmp_path / "words"), {"path": f"job-{number}", "type": "text"})

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(register, range(12))) == list(range(1, 13))
    rows = nemotron(project, "list", "words", "--json").succeeds().json
    assert len({row["path"] for row in rows}) == 12


def test_data_without_a_manifest_are_no_version_and_a_damaged_one_is_named(project, s3_lab, tmp_path):
    s3_lab.put(f"{ROOT}/words/job-1/a.txt", b"killed before its manifest")
    assert nemotron(project, "list").succeeds().out.startswith("No artifacts yet")
    added(project, tmp_path / "words")
    s3_lab.put(f"{ROOT}/.versions/words/v2.json", b"{")
    done = nemotron(project, "list", "words").succeeds()
    assert "words:v2 is unknown" in done.err and "words:v1" in done.out
    assert added(project, tmp_path / "words") == "words:v3"


def test_without_keys_it_is_said_what_to_do(project):
    bare = Project(project.folder, project.home)
    process(bare, "artifacts", "list").refuses("there are no keys", "ACCESS_KEY")


def test_jobs_register_in_a_bucket_and_read_what_another_machine_has_made(project, s3_lab, tmp_path):
    write_recipes(project)
    for _ in range(2):
        process(project, "mine", "make").succeeds()
    second, first = nemotron(project, "list", "words", "--json").succeeds().json
    assert first["producer"]["recipe"] == "mine/make" and first["config"] and second["latest"]
    assert s3_lab.get(f"{first['path']}/words") == f"made by {first['producer']['job']}".encode()
    other = Project(project.folder, tmp_path / "elsewhere", project.extra)
    other.home.mkdir()
    nemotron(project, "tag", "words:1", "gold").succeeds()
    of_first, of_second = (each["producer"]["job"] for each in (first, second))
    words = {"words:1": of_first, "words": of_second, "words:gold": of_first, f"words:{of_first}": of_first}
    for word, job in words.items():
        assert f"read: made by {job}" in process(other, "mine", "read", f"run.data={word}").succeeds().out
    shown = process(other, "jobs", "show", "last", "--json").succeeds().json
    assert shown["inputs"]["data"].endswith(f"/words/{of_first}")
    process(other, "mine", "read", "run.data=words:7").refuses("has no version", "command line")
    process(other, "mine", "read", "run.data=wrds").refuses("did you mean 'words'")


def test_a_bucket_that_is_not_there_is_said_and_what_was_made_is_registered_once_it_is(project, s3_lab):
    write_recipes(project)
    done = process(project, "mine", "make", "run.artifacts.root=s3://gone/x")
    assert (done.code, "produced, not registered: words (" in done.err, "NoSuchBucket" in done.err) == (74, True, True)
    name = done.err.partition(":")[0]
    s3_lab.bucket("gone")
    for _ in range(2):
        assert nemotron(project, "register", name).succeeds().out == f"{name}: registered words\n"
    (row,) = nemotron(project, "list", "--root", "s3://gone/x", "--json").succeeds().json
    assert row["producer"]["job"] == name
    assert process(project, "jobs", "show", name, "--json").json["state"] == "succeeded"
    bare = Project(project.folder, project.home)
    process(bare, "mine", "make").refuses("ACCESS_KEY")
