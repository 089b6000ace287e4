"""The worker without the command line: what is found of a job, what is left of one that did not start, and pulls."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from job_scripts import lay_out
from lab_docker import BASE, WITHOUT_BASH, Engine, needs_docker
from waiting import until

from nemo_runspec.backends.docker.container import noted_place
from nemo_runspec.backends.docker.images import ensure_image
from nemo_runspec.backends.docker.networks import drop_network, ensure_network
from nemo_runspec.backends.docker.render import LAYOUT, render
from nemo_runspec.backends.docker.work import ContainerWork, cause_of
from nemo_runspec.backends.docker.worker import DockerWorker
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.records.record import JobRecord, Transition, now
from nemo_runspec.remote.relay import Relay, listening
from nemo_runspec.script.enter import ShellRequest
from nemo_runspec.script.programs import SUPERVISOR
from nemo_runspec.submission.layout import make_folders
from nemo_runspec.transport.duplex import CommandDuplex

pytestmark = needs_docker


@pytest.fixture(autouse=True)
def nothing_stays(engine: Engine) -> Iterator[None]:
    yield
    left = engine.containers(), engine.networks()
    engine.empty()
    assert left == ([], set())


def laid_out(plan: Plan) -> Plan:
    """The plan, its job directory made as the supervisor does."""
    layout = lay_out(plan)
    make_folders(layout)
    for file in render(plan).files:
        (Path(plan.job_dir) / file.name).write_text(file.text, encoding="utf-8")
    return plan


def started(plan: Plan, **secrets: str) -> ContainerWork:
    worker = DockerWorker()
    worker.check(plan)
    return worker.start(laid_out(plan), None, secrets)


def finished(work: ContainerWork) -> tuple[int, bytes]:
    """Waits for its end: status and output."""
    found = [b""]

    def at_end() -> bool:
        piece = work.read()
        found.append(piece or b"")
        return piece == b""

    until(at_end)
    until(lambda: work.poll() is not None)
    status = work.poll()
    assert status is not None
    return status, b"".join(found)


def record_of(plan: Plan) -> JobRecord:
    return JobRecord(
        name=plan.name, recipe="test/main", config=None, profile="box", executor="docker", mode="batch", argv=(),
        cwd="/", user="me", host="here", commit=None, states=(Transition("running", now()),),
    )  # fmt: skip


def test_a_job_runs_to_its_end(make_plan):
    work = started(make_plan("print('hello')"))
    status, output = finished(work)
    assert (status, work.cause(status)) == (0, "")
    assert output == b"hello\n"
    work.close()
    work.close()


def test_what_is_sent_is_what_was_shown(make_plan, engine):
    plan = make_plan(
        "import time; time.sleep(600)",
        shm_size="33m",
        additional_kwargs={"mem_limit": "200m", "environment": {"A": "it's $x"}},
    )
    work = started(plan)
    shown = json.loads((Path(plan.job_dir) / "container.json").read_text())
    known = engine.client().inspect_container(work.container)
    work.kill()
    work.close()
    for key in ("Image", "Entrypoint", "User", "WorkingDir", "Hostname"):
        assert known["Config"][key] == shown[key]
    assert shown["Labels"].items() <= known["Config"]["Labels"].items()
    assert set(shown["Env"]) <= set(known["Config"]["Env"])
    for key, value in shown["HostConfig"].items():
        assert known["HostConfig"][key] == value, key


def test_a_job_left_alone_is_found_and_ended(make_plan, engine):
    plan = make_plan("import time; print('up', flush=True); time.sleep(600)")
    work = started(plan)
    worker, folder = DockerWorker(), Path(plan.job_dir)
    seen = worker.status(record_of(plan), folder)
    assert (seen.state, seen.exit_code) == ("running", None)
    place = noted_place(folder)
    assert place is not None
    assert (place.host, place.container) == (engine.host, work.container)
    assert until(work.read) == b"up\n"  # before, a signal would find no job script that could leave a marker
    worker.end(record_of(plan), folder, 60)
    seen = worker.status(record_of(plan), folder)
    assert (seen.state, seen.exit_code) == ("failed", 143)
    work.close()


def test_it_is_found_by_its_labels_too_and_from_a_shell_with_another_engine(make_plan, engine, monkeypatch):
    plan = make_plan("import time; time.sleep(600)")
    work = started(plan)
    folder = Path(plan.job_dir)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert DockerWorker().status(record_of(plan), folder).state == "running"
    (folder / "docker.json").unlink()
    assert DockerWorker().status(record_of(plan), folder).state == "unknown"
    monkeypatch.setenv("DOCKER_HOST", engine.host)
    assert DockerWorker().status(record_of(plan), folder).state == "running"
    work.kill()
    work.close()


def test_a_command_beside_a_job_reaches_its_loopback(make_plan):
    """Where the dashboard of a job's Ray listens; no port of the container is open."""
    serves = "s.HTTPServer(('127.0.0.1', 8265), s.SimpleHTTPRequestHandler)"
    plan = make_plan(f"import http.server as s\nserver = {serves}\nprint('up', flush=True)\nserver.serve_forever()")
    work = started(plan)
    until(lambda: work.read() == b"up\n")
    words = ("python3", "-I", "-S", f"{LAYOUT.root}/{SUPERVISOR}", "relay", "8265", f"{LAYOUT.root}/job.sh")
    way_in = DockerWorker().shell(record_of(plan), Path(plan.job_dir), ShellRequest(plan.job_dir, command=words))
    relay = Relay(CommandDuplex(way_in))
    with listening(0) as listener:
        serving = threading.Thread(target=relay.serve, args=(listener,))
        serving.start()
        port = listener.getsockname()[1]
        for _ in range(2):
            answer = urllib.request.urlopen(f"http://127.0.0.1:{port}/job.sh", timeout=120).read()
            assert answer.startswith(b"#!")
        assert relay.secret.startswith(b"#!"), "the content of the file that it was told"
        relay.close()
        serving.join(120)
    work.kill()
    work.close()


def test_without_marker_and_container_it_is_lost(make_plan, engine):
    plan = make_plan("import time; time.sleep(600)")
    work = started(plan)
    engine.client().remove_container(work.container, force=True)
    assert DockerWorker().status(record_of(plan), Path(plan.job_dir)).state == "lost"
    status, _ = finished(work)
    assert (status, work.cause(status)) == (137, "the container was removed by somebody else")
    work.close()


def test_a_killed_container_has_the_engines_exit_code(make_plan):
    plan = make_plan("import time; print('up', flush=True); time.sleep(600)")
    work = started(plan)
    until(work.read)
    work.kill()
    status, _ = finished(work)
    assert status == 137
    seen = DockerWorker().status(record_of(plan), Path(plan.job_dir))
    assert (seen.state, seen.exit_code) == ("failed", 137)
    work.close()


@pytest.mark.parametrize(
    "env",
    [
        {"container_image": "lab/gone:1"},
        {"runtime": "io.containerd.gone.v9"},
        {"additional_kwargs": {"security_opt": ["seccomp=/gone.json"]}},
        {"ulimits": ["nofile=512:100000000"]},
        {"network": "container:gone"},
    ],
    ids=str,
)
def test_a_start_that_fails_leaves_nothing(make_plan, env):
    plan = laid_out(make_plan("pass", **env))
    with pytest.raises(UserError, match="ocker"):
        DockerWorker().start(plan, None, {"TOKEN": "secret"})
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_secrets_are_private_and_gone_after_the_job(make_plan):
    plan = make_plan("import os, pathlib; print(os.environ['TOKEN'], pathlib.Path('/nemo_run/secrets.env').exists())")
    work = started(plan, TOKEN="a 'b' \"c\" $d \n é")
    status, output = finished(work)
    assert status == 0
    assert output.decode() == "a 'b' \"c\" $d \n é False\n"
    work.close()


def test_secrets_of_a_job_that_never_read_them_are_gone_too(make_plan):
    plan = make_plan("pass", container_image=WITHOUT_BASH)
    work = started(plan, TOKEN="secret")
    assert (Path(plan.job_dir) / "secrets.env").stat().st_mode & 0o777 == 0o600
    status, output = finished(work)
    assert status == 127
    assert "the image needs bash" in work.cause(status)
    assert b"bash" in output
    work.close()
    assert not (Path(plan.job_dir) / "secrets.env").exists()


def test_a_missing_mount_is_refused_before_anything_happens(make_plan, tmp_path):
    plan = make_plan("pass", mounts=[f"{tmp_path}/gone:/data"])
    with pytest.raises(UserError, match="is not there"):
        DockerWorker().check(plan)
    assert not Path(plan.job_dir).exists()
    assert not (tmp_path / "gone").exists()


def test_a_network_is_made_once_by_many_at_a_time(engine, state):
    names = []

    def make() -> None:
        client = engine.client()
        ensure_network(client, "many")
        names.extend(network["Id"] for network in client.networks(names=["many"]))
        client.close()

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 1
    assert len(names) == 8
    client = engine.client()
    drop_network(client, "many")
    drop_network(client, "many")
    client.close()


@pytest.fixture
def registry(engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A registry on this machine that holds `team/python:1`, and asks for a password where a name begins `closed`."""
    config, log = tmp_path / "registry.yml", tmp_path / "registry.log"
    config.write_text(
        f"version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {tmp_path}/blobs\n"
        "http:\n  addr: 127.0.0.1:0\nlog:\n  level: info\n"
    )
    program = shutil.which("docker-registry") or "/usr/bin/docker-registry"
    with log.open("wb") as said:
        process = subprocess.Popen([program, "serve", str(config)], stdout=said, stderr=said, start_new_session=True)
    try:
        listening = until(lambda: re.search(r'listening on (127\.0\.0\.1:\d+)"', log.read_text()), "the registry")
        yield listening[1]
    finally:
        process.terminate()
        process.wait()


def an_image_of_its_own() -> bytes:
    """A file system with nothing but three megabytes that no other image has."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        file = tarfile.TarInfo("file")
        file.size = 3_000_000
        tar.addfile(file, io.BytesIO(os.urandom(file.size)))
    return whole.getvalue()


def test_a_missing_image_is_pulled_with_progress_and_used(make_plan, engine, registry):
    image, client = f"{registry}/team/small:1", engine.client()
    client.import_image_from_data(an_image_of_its_own(), repository=f"{registry}/team/small", tag="1")
    pushed = list(client.push(f"{registry}/team/small", "1", stream=True, decode=True))
    assert not any("error" in event for event in pushed), pushed
    client.remove_image(image)
    said: list[str] = []
    try:
        DockerWorker().prepare(make_plan("pass", container_image=image), said.append)
        assert said[0] == f"pulling {image}"
        assert said[-1].startswith(f"pulled {image}: 1 of 1 layers")
        said.clear()
        ensure_image(client, image, said.append)
        assert said == []
    finally:
        client.remove_image(image)
        client.close()


def test_a_tag_that_is_not_there_is_said_in_the_engines_words(make_plan, registry):
    plan = make_plan("pass", container_image=f"{registry}/team/gone:7")
    with pytest.raises(UserError, match="manifest") as caught:
        DockerWorker().prepare(plan, lambda _: None)
    assert "container_image" in (caught.value.remedy or "")


def test_a_name_that_is_none_is_refused(make_plan):
    with pytest.raises(UserError, match="no name of an image"):
        DockerWorker().prepare(make_plan("pass", container_image="Not A Name"), lambda _: None)


def test_a_digest_names_an_image_that_is_here(make_plan, engine):
    known: dict[str, Any] = engine.client().inspect_image(BASE)
    plan = make_plan("print('by id')", container_image=known["Id"])
    DockerWorker().prepare(plan, lambda _: pytest.fail("nothing is pulled"))
    work = started(replace(plan))
    assert finished(work)[0] == 0
    work.close()


def test_a_container_that_a_signal_has_ended_before_its_script_says_so():
    """In the milliseconds before bash has read its first line."""
    known = {"State": {"ExitCode": 129}, "HostConfig": {}}
    assert (
        cause_of(known, 129, None, begun=False) == "signal 1 (SIGHUP) ended the container before the job script began"
    )
    assert "the image needs bash" in cause_of(known, 127, None, begun=False)
