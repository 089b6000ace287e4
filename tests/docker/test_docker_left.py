"""Jobs whose supervisor was killed while their container went on: their end, their log, and what is left of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import support
from job_scripts import kill
from lab_docker import Engine, needs_docker
from support import Project
from waiting import line_of, open_gate, until

from nemo_runspec.backends.docker.log_tail import OURS

pytestmark = needs_docker

TALKS = """\
import itertools, os, pathlib, sys, time
print("up", flush=True)
for n in itertools.count():
    print("line", n, os.environ.get("MY_TOKEN", ""), flush=True)
    if pathlib.Path("/nemo_run/go").exists():
        break
    time.sleep(0.01)
print("last words", n, flush=True)
sys.exit(3)
"""


@pytest.fixture(autouse=True)
def nothing_stays(docker_engine: Engine) -> Iterator[None]:
    yield
    left = docker_engine.containers(), docker_engine.networks()
    docker_engine.empty()
    assert left == ([], set())


def folder_of(box: Project) -> Path:
    (folder,) = (box.state / "jobs").glob("main-*")
    return folder


def log_of(box: Project) -> bytes:
    file = folder_of(box) / "logs" / "job.log"
    return file.read_bytes() if file.exists() else b""


def record(box: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder_of(box) / "record.json").read_text())
    return found


def profile(box: Project, *lines: str) -> None:
    box.write("env.toml", box.env_file.read_text() + "\n".join(lines) + "\n")


def left_alone(box: Project, script: str = TALKS, **environment: str) -> str:
    """Starts a detached job, waits for its first lines, kills its supervisor; the job's name."""
    box.write("main.py", script)
    support.process(box, "run", "./main.py", "--batch", "box", **environment).succeeds()
    until(lambda: b"line 1 " in log_of(box) and record(box).get("container"))
    kill(record(box)["launcher"]["pid"])
    return folder_of(box).name


def let_it_end(box: Project, engine: Engine) -> None:
    """Some lines later its container ends by itself."""
    at_kill = log_of(box)
    until(lambda: len(said_in(engine)) > len(at_kill) + 200)
    open_gate(folder_of(box))
    until(lambda: [c["State"] for c in engine.containers()] == ["exited"])


def said_in(engine: Engine) -> bytes:
    client = engine.client()
    try:
        return b"".join(client.logs(container["Id"]) for container in engine.containers())
    finally:
        client.close()


def whole(last: int, token: str = "") -> bytes:
    """The log of `TALKS`."""
    lines = ["up", *(f"line {n} {token}" for n in range(last + 1)), f"last words {last}"]
    return "".join(f"{line}\n" for line in lines).encode()


def last_number(log: bytes) -> int:
    return int(log.split()[-1])


WAYS = [["status"], ["status", "last"], ["wait", "last"], ["logs", "-f", "last"], ["rm", "last"]]


@pytest.mark.parametrize("words", WAYS)
def test_its_end_is_found_and_nothing_of_it_stays(box, docker_engine, words):
    left_alone(box)
    let_it_end(box, docker_engine)
    said, seen = said_in(docker_engine), len(log_of(box))
    assert len(said) > seen
    out = support.process(box, "jobs", *words)
    assert out.code == (3 if words[0] == "wait" else 0), out.err
    assert docker_engine.containers() == []
    if words[0] == "rm":
        assert not list((box.state / "jobs").glob("main-*"))
        return
    assert log_of(box) == said == whole(last_number(said))
    assert (record(box)["states"][-1]["state"], record(box)["exit_code"]) == ("failed", 3)
    assert "log" not in record(box)["states"][-1]["reason"]
    if words[0] == "logs":
        assert out.out.encode() == said


def test_followed_from_before_its_end(box, docker_engine):
    """What came before is shown at once, the rest when it has ended; that is said."""
    name = left_alone(box)
    child = support.start(box, "jobs", "logs", "-f", name)
    assert child.stderr is not None
    assert "what it prints is added to its log when it has ended" in line_of(child.stderr)
    at_kill = len(log_of(box))
    until(lambda: len(said_in(docker_engine)) > at_kill + 200)
    open_gate(folder_of(box))
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert out.encode() == log_of(box) == whole(last_number(log_of(box)))


def test_many_at_once_find_it_and_it_is_written_once(box, docker_engine):
    name = left_alone(box)
    let_it_end(box, docker_engine)
    said = said_in(docker_engine)
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: support.process(box, "jobs", "wait", name), range(4)))
    assert [outcome.code for outcome in done] == [3] * 4, done
    assert log_of(box) == said
    assert [step["state"] for step in record(box)["states"]] == ["planned", "starting", "running", "failed"]


def test_cancelled_its_last_words_are_in_its_log(box, docker_engine):
    stops = "import signal, sys\nsignal.signal(15, lambda n, f: sys.exit('told to stop'))\n"
    name = left_alone(box, stops + TALKS)
    until(lambda: len(said_in(docker_engine)) > len(log_of(box)) + 200)
    support.process(box, "jobs", "cancel", name, "--grace", "60").succeeds()
    assert record(box)["states"][-1]["state"] == "cancelled"
    log = log_of(box)
    assert log.count(b"line 1 ") == 1
    assert log.endswith(b"told to stop\n")


def test_a_secret_is_kept_out_of_the_rest_too(box, docker_engine):
    profile(box, 'secrets = ["MY_TOKEN"]')
    left_alone(box, MY_TOKEN="canary-7f3a9")
    let_it_end(box, docker_engine)
    assert b"canary" in said_in(docker_engine)
    out = support.process(box, "jobs", "wait", "last", MY_TOKEN="canary-7f3a9")
    assert out.code == 3, out.err
    assert log_of(box) == whole(last_number(log_of(box)), "******")


def test_without_its_secret_the_rest_is_left_out_and_that_is_said(box, docker_engine):
    profile(box, 'secrets = ["MY_TOKEN"]')
    left_alone(box, MY_TOKEN="canary-7f3a9")
    let_it_end(box, docker_engine)
    before = log_of(box)
    assert support.process(box, "jobs", "wait", "last").code == 3
    (line,) = log_of(box).removeprefix(before).decode().splitlines()
    assert line.startswith(f"{OURS}what follows is left out")
    assert "MY_TOKEN" in line
    assert b"canary" not in log_of(box)
    # The engine is the only one that has the rest: it is kept until the job is removed.
    assert "docker logs" in record(box)["states"][-1]["reason"]
    assert b"canary" in said_in(docker_engine)
    support.process(box, "jobs", "rm", "last").succeeds()


def test_a_log_that_the_engine_has_rotated_says_so(box, docker_engine):
    profile(box, 'additional_kwargs = { log_config = { Type = "json-file", Config = { max-size = "2k" } } }')
    left_alone(box)
    at_kill = last_number(log_of(box)[: log_of(box).rindex(b"\n")])
    # The engine keeps some twenty lines: any of the later ones will do.
    until(lambda: max(map(int, re.findall(rb"line (\d+) \n", said_in(docker_engine))), default=0) > at_kill + 300)
    open_gate(folder_of(box))
    assert support.process(box, "jobs", "wait", "last").code == 3
    lines = log_of(box).decode().splitlines()
    assert [line for line in lines if line.startswith(OURS)] == [line for line in lines if "may be missing" in line]
    assert sum("may be missing" in line for line in lines) == 1
    assert lines[-1].startswith("last words")


def test_a_log_that_went_elsewhere_says_so(box, docker_engine):
    profile(box, 'additional_kwargs = { log_config = { Type = "none" } }')
    left_alone(box)
    before = log_of(box)
    open_gate(folder_of(box))
    assert support.process(box, "jobs", "wait", "last").code == 3
    (line,) = log_of(box).removeprefix(before).decode().splitlines()
    assert "log driver keeps nothing" in line


def test_what_root_wrote_and_secrets_never_read_are_cleared_too(box, docker_engine):
    """Killed before its job script could read the file."""
    name = left_alone(box)
    (folder_of(box) / "secrets.env").write_text("export MY_TOKEN=secret\n")
    let_it_end(box, docker_engine)
    support.process(box, "jobs", "wait", name)
    assert not (folder_of(box) / "secrets.env").exists()
    assert not (folder_of(box) / "docker.json").exists()


def test_an_engine_that_does_not_answer_hides_no_end_and_rm_removes_what_is_left(box, docker_engine):
    name = left_alone(box)
    let_it_end(box, docker_engine)
    place = folder_of(box) / "docker.json"
    right = place.read_text()
    place.write_text(json.dumps({**json.loads(right), "host": "unix:///nowhere.sock"}))
    assert support.process(box, "jobs", "wait", name).code == 3
    shown = support.process(box, "jobs", "show", name, "--json").succeeds().json
    assert (shown["state"], shown["exit_code"]) == ("failed", 3)
    assert "its log may lack its end: no Docker engine answers at /nowhere.sock" in json.dumps(shown)
    support.process(box, "jobs", "rm", name).refuses("was not removed: no Docker engine answers", "nowhere.sock")
    assert folder_of(box).exists()
    place.write_text(right)
    assert len(docker_engine.containers()) == 1
    support.process(box, "jobs", "rm", name).succeeds()
    assert not list((box.state / "jobs").glob("main-*"))


def test_rm_never_removes_a_running_container(box, docker_engine):
    """The record says that the job is lost, as after an engine that went away; its container goes on."""
    name = left_alone(box)
    known = record(box)
    known["states"].append({**known["states"][-1], "state": "lost"})
    (folder_of(box) / "record.json").write_text(json.dumps(known))
    support.process(box, "jobs", "rm", name).refuses("is running", "nothing was removed", "jobs cancel")
    assert [container["State"] for container in docker_engine.containers()] == ["running"]
    open_gate(folder_of(box))
    until(lambda: [c["State"] for c in docker_engine.containers()] == ["exited"])
    support.process(box, "jobs", "rm", name).succeeds()
    assert docker_engine.containers() == []


def test_rm_of_a_job_that_ended_as_it_should_asks_no_engine(box, docker_engine, tmp_path):
    box.write("main.py", "pass")
    support.process(box, "run", "./main.py", "--run", "box").succeeds()
    support.process(box, "jobs", "rm", "last", DOCKER_HOST="unix:///nowhere.sock").succeeds()


def test_a_supervisor_killed_before_it_could_note_its_container(box, docker_engine):
    name = left_alone(box)
    let_it_end(box, docker_engine)
    (folder_of(box) / "docker.json").unlink()
    assert support.process(box, "jobs", "wait", name).code == 3
    assert log_of(box) == whole(last_number(log_of(box)))


def test_who_completes_the_log_may_be_killed_in_the_middle_of_a_line(box, docker_engine):
    """Whoever comes next finds the same end and the same log."""
    name = left_alone(box)
    let_it_end(box, docker_engine)
    said = said_in(docker_engine)
    (folder_of(box) / "logs" / "job.log").write_bytes(said[: said.index(b"last words") + 3])
    assert support.process(box, "jobs", "wait", name).code == 3
    assert log_of(box) == said


@pytest.mark.parametrize("command", ["cancel", "retry", "status"])
def test_a_lost_job_whose_container_goes_on_is_asked_about(box, docker_engine, command):
    """As after an engine that was away for long: it is there, and it is ended, not repeated, and shown as it is."""
    name = left_alone(box)
    known = record(box)
    known["states"].append({**known["states"][-1], "state": "lost"})
    (folder_of(box) / "record.json").write_text(json.dumps(known))
    place = folder_of(box) / "docker.json"
    right = place.read_text()
    place.write_text(json.dumps({**json.loads(right), "host": "unix:///nowhere.sock"}))
    unasked = support.process(box, "jobs", command, name)
    assert unasked.code == (3 if command == "status" else 2), unasked.out
    assert "whether it is gone cannot be asked now: no Docker engine answers" in unasked.err
    assert record(box)["states"][-1]["state"] == "lost"
    place.write_text(right)
    done = support.process(box, "jobs", command, name)
    if command == "retry":
        done.refuses("is running")
    elif command == "status":
        assert f"{name}  running" in done.succeeds().out
    else:
        assert f"{name}: cancelled" in done.succeeds().out
    assert bool(docker_engine.containers()) is (command != "cancel")
    support.process(box, "jobs", "cancel", name).succeeds()
    assert docker_engine.containers() == []


def test_a_container_that_is_gone_is_believed_to_be_after_three_looks(box, docker_engine):
    """An engine that does not know it may be another one, or still load what it had."""
    name = left_alone(box)
    docker_engine.empty()
    for _ in range(2):
        [seen] = support.process(box, "jobs", "status", name, "--json").json
        assert seen["state"] == "unknown"
        assert "believed once three looks over a minute agree" in seen["states"][-1]["reason"]
        known = record(box)
        known["facts"]["absent"] = {
            k: v - 61 if k in ("first", "last") else v for k, v in known["facts"]["absent"].items()
        }
        (folder_of(box) / "record.json").write_text(json.dumps(known))
    [seen] = support.process(box, "jobs", "status", name, "--json").json
    assert seen["state"] == "lost"
    assert (folder_of(box) / "docker.json").exists(), "where it was, should it come back"
