"""Versions as jobs register them: numbered, whole or not at all, with what made them and what was read."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from input_recipes import write_recipes
from killed_at import killed_at
from support import Project, make_project, process

from nemo_runspec.artifacts import versions
from nemo_runspec.artifacts.content import measured
from nemo_runspec.jobside import registration
from nemo_runspec.jobside.registration import JobPlace, register


@pytest.fixture
def project(tmp_path) -> Project:
    made = make_project(tmp_path, f'[artifacts]\nroot = "{tmp_path}/store"\n')
    write_recipes(made)
    return made


def manifests(root: Path, artifact: str) -> dict[str, dict]:
    """The manifests of an artifact by their numbers."""
    found = (root / artifact / ".versions").glob("v*.json")
    return {path.stem: json.loads(path.read_text()) for path in sorted(found)}


def test_a_job_that_ended_well_registers_what_it_made_and_from_what(project, tmp_path):
    process(project, "mine", "make").succeeds()
    process(project, "mine", "make", "code=0").succeeds()
    process(project, "mine", "make", "-c", "failing")
    store = tmp_path / "store"
    found = manifests(store, "words")
    assert list(found) == ["v1", "v2"]
    first = found["v1"]
    assert (first["name"], first["type"], first["output"], first["version"]) == ("words", "text", "data", 1)
    assert first["producer"]["recipe"] == "mine/make" and first["producer"]["executor"] == "local"
    assert found["v2"]["producer"]["overrides"] == ["code=0"]
    assert first["producer"]["code"]["bundle"] == found["v2"]["producer"]["code"]["bundle"]
    assert first["files"] == 1 and first["size"] == len(f"made by {first['path']}") and first["inputs"] == []
    assert (store / "words" / "v1").readlink() == Path(first["path"])
    assert (store / "words" / "latest").readlink() == (store / "words" / "v2").readlink() == Path(found["v2"]["path"])
    config = store / "words" / ".versions" / "config" / first["config"]
    assert "held: false" in config.read_text()
    assert (store / "words" / first["path"] / "words").exists()


def test_the_digest_is_that_of_a_copy_and_of_nothing_else(tmp_path):
    folder, copy = tmp_path / "a", tmp_path / "b"
    for each in (folder, copy):
        (each / "deep").mkdir(parents=True)
        (each / "deep" / "x").write_text("x")
        (each / "link").symlink_to("deep/x")
    assert measured(str(folder)) == measured(str(copy))
    assert measured(str(folder))["digest"].startswith("sha256:")
    (copy / "deep" / "x").write_text("y")
    assert measured(str(folder))["digest"] != measured(str(copy))["digest"]
    large = tmp_path / "large"
    with large.open("wb") as stream:
        stream.truncate(9 << 20)
    before = measured(str(large))
    assert before["digest"].startswith("sampled:") and before["size"] == 9 << 20
    with large.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"!")
    assert measured(str(large))["digest"] != before["digest"]
    assert measured(str(folder), budget=0)["digest"].startswith("sampled:")


MANY = """
import sys
from nemo_runspec.jobside.registration import JobPlace, register
sys.stdin.readline()
print("".join(register([sys.argv[1]], JobPlace())))
"""


def test_twenty_jobs_at_once_all_have_a_number_of_their_own(tmp_path):
    jobs = [tmp_path / "model" / f"job-{number}" for number in range(20)]
    for job in jobs:
        job.mkdir(parents=True)
        (job / "weights").write_text(job.name)
    words = [sys.executable, "-c", MANY]
    children = [subprocess.Popen([*words, str(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for job in jobs]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
    assert [child.communicate()[0] for child in children] == [b"\n"] * 20
    found = manifests(tmp_path, "model")
    assert {each["path"] for each in found.values()} == {job.name for job in jobs}
    assert set(found) == {f"v{number}" for number in range(1, 21)}
    assert all((tmp_path / "model" / number).readlink().name == each["path"] for number, each in found.items())
    assert not [path for path in (tmp_path / "model" / ".versions").iterdir() if path.name.startswith(".")]


KILLED = killed_at(
    ("open", "link", "symlink", "replace", "fsync", "unlink"),
    "from nemo_runspec.jobside.registration import JobPlace, register; register([sys.argv[1]], JobPlace())",
)


def test_a_job_killed_in_the_middle_registers_all_or_nothing_and_the_next_one_mends_it(tmp_path):
    outcomes = []
    for at in range(1, 40):
        job = tmp_path / str(at) / "model" / "job-0"
        job.mkdir(parents=True)
        (job / "weights").write_text("0")
        code = subprocess.run([sys.executable, "-c", KILLED, str(job), str(at)]).returncode
        found = manifests(tmp_path / str(at), "model")  # every manifest there is can be read
        assert set(found) <= {"v1"}
        assert found or not (job.parent / "latest").is_symlink()
        outcomes.append(bool(found))
        if code == 0:
            break
        subprocess.run([sys.executable, "-c", KILLED, str(job), "0"], check=True)
        assert (job.parent / "v1").readlink() == (job.parent / "latest").readlink() == Path("job-0")
        assert set(manifests(tmp_path / str(at), "model")) == {"v1"}
    assert code == 0 and False in outcomes and outcomes.count(True) > 3
    other = job.with_name("job-1")
    other.mkdir()
    (job.parent / "v1").unlink()
    subprocess.run([sys.executable, "-c", KILLED, str(other), "0"], check=True)
    assert (job.parent / "v1").readlink().name == "job-0"


def test_a_file_system_without_hard_links_has_numbers_too(tmp_path, monkeypatch):
    def refuse(*_words: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert [versions.add(str(tmp_path / "a"), {"path": "x"}) for _ in range(2)] == [1, 2]
    (tmp_path / "a" / ".versions" / "v3.json").write_text("{")
    assert versions.add(str(tmp_path / "a"), {"path": "x"}) == 4
    assert versions.read(str(tmp_path / "a" / ".versions"), 3) == {}


def test_what_cannot_be_registered_is_said_everywhere_and_one_command_registers_it_later(project, tmp_path):
    process(project, "mine", "make").succeeds()
    place = tmp_path / "store" / "words" / ".versions"
    place.rename(place.with_name("aside"))
    place.write_text("in the way")
    done = process(project, "mine", "make")
    words = "produced, not registered: words ("
    assert (done.code, words in done.err) == (74, True), done
    name = done.err.partition(":")[0]
    shown = process(project, "jobs", "show", name).succeeds().out
    assert words in shown and "nemotron artifacts register" in shown
    assert words in process(project, "jobs", "status", name).out
    assert process(project, "jobs", "list", "--json").json[0]["exit_code"] == 74
    process(project, "artifacts", "register", name).refuses("is not registered: words (", "again")
    place.unlink()
    place.with_name("aside").rename(place)
    listed = process(project, "artifacts", "list", "--json").succeeds()
    assert f"produced, not registered: words of {name}; nemotron artifacts register {name}" in listed.err
    assert [each["version"] for each in listed.json] == [1]
    for _ in range(2):
        assert process(project, "artifacts", "register", name).succeeds().out == f"{name}: registered words\n"
    second, first = process(project, "artifacts", "list", "words", "--json").succeeds().json
    assert (second["producer"]["job"], second["latest"]) == (name, True) and second["config"] and first["config"]
    assert process(project, "artifacts", "list").err == ""
    ended = process(project, "jobs", "show", name, "--json").json
    assert (ended["state"], ended["exit_code"]) == ("succeeded", 0)
    assert process(project, "artifacts", "register").succeeds().out == "Nothing is left to be registered.\n"


def test_what_another_job_or_a_failed_one_has_made_is_not_registered_later(project):
    failed = process(project, "mine", "make", "-c", "failing").err.partition(":")[0]
    process(project, "artifacts", "register", failed).refuses("is failed", "artifacts add")
    project.write("job.py", "")
    process(project, "run", "./job.py").succeeds()
    process(project, "artifacts", "register", "last").refuses("makes nothing that is registered")


def test_a_full_disk_is_tried_again_and_a_read_only_one_is_not(tmp_path, monkeypatch):
    job = tmp_path / "words" / "job-1"
    job.mkdir(parents=True)
    real, left = os.link, [2]

    def full(source: str, target: str) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(registration, "_is_stopped", lambda seconds: False)
    assert register([str(job)], JobPlace()) == [] and left == [0]
    other, left[0] = tmp_path / "words" / "job-2", 1 << 30
    other.mkdir()
    (tmp_path / "artifacts.json").write_text('{"patience": 0}')
    assert register([str(other)], JobPlace(str(tmp_path))) == [f"words ({other}): No space left on device"]

    def read_only(_source: str, _target: str) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "link", read_only)
    assert register([str(other)], JobPlace()) == [f"words ({other}): Read-only file system"]
    assert set(manifests(tmp_path, "words")) == {"v1"}
