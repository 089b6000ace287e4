"""`nemotron docker build --push`: a real engine, and a registry that takes what the specification lets it take."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import support
from lab_docker import WITHOUT_BASH, Engine, needs_docker
from labs.image_registry import ImageRegistry
from labs.podman import Podman, needs_podman
from support import Outcome, Project
from waiting import until

from nemo_runspec.backends.docker.push import PushProgress, follow_push

LOGIN = "ann:s3cret-of-ann"
IMAGE = "team/image:1"


@pytest.fixture
def registry() -> Iterator[ImageRegistry]:
    lab = ImageRegistry(LOGIN)
    yield lab
    lab.close()
    lab.tidy()


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The folder of Docker's own config, as `DOCKER_CONFIG` names it."""
    folder = tmp_path / "docker-config"
    folder.mkdir()
    return folder


def log_in(config: Path, registry: ImageRegistry, words: str = LOGIN) -> None:
    """Writes what `docker login` writes."""
    auths = {registry.name: {"auth": base64.b64encode(words.encode()).decode()}}
    (config / "config.json").write_text(json.dumps({"auths": auths}))


def log_in_by_helper(config: Path, registry: ImageRegistry) -> None:
    """The same with a credential helper, which keeps the password elsewhere."""
    name, _, word = LOGIN.partition(":")
    answer = {"ServerURL": registry.name, "Username": name, "Secret": word}
    helper = config / "docker-credential-lab"
    helper.write_text(f"#!/bin/sh\n[ \"$1\" = get ] && echo '{json.dumps(answer)}' || echo '{{}}'\n")
    helper.chmod(0o755)
    (config / "config.json").write_text(json.dumps({"credHelpers": {registry.name: "lab"}}))


class Pusher:
    """`nemotron docker build` of one recipe, for one registry."""

    def __init__(self, box: Project, registry: ImageRegistry, config: Path) -> None:
        self.box, self.registry, self.config = box, registry, config
        box.recipe("mine/stage")
        self.dockerfile(f"FROM {WITHOUT_BASH}\nLABEL made=here\nRUN echo hello > /hello\n")

    def dockerfile(self, text: str) -> None:
        self.box.write("recipes/mine/stage/Dockerfile", text)

    def words(self, image: str = IMAGE) -> tuple[str, ...]:
        return ("docker", "build", "mine/stage", "--tag", f"{self.registry.name}/{image}", "--push")

    def environment(self, **more: str) -> dict[str, str]:
        import os

        return {"DOCKER_CONFIG": str(self.config), "PATH": f"{self.config}:{os.environ['PATH']}", **more}

    def __call__(self, *words: str, image: str = IMAGE, **environment: str) -> Outcome:
        return support.process(self.box, *self.words(image), *words, **self.environment(**environment))

    def records(self) -> list[dict[str, Any]]:
        found = sorted((self.box.state / "jobs").glob("image-*/record.json"), key=lambda file: file.stat().st_mtime)
        return [json.loads(file.read_text()) for file in found]

    def pinned(self, image: str = IMAGE) -> str:
        """What the registry has it as."""
        return f"{self.registry.name}/{image.partition(':')[0]}@{self.registry.manifests[image]['digest']}"


@pytest.fixture
def push(box: Project, registry: ImageRegistry, config: Path, docker_engine: Engine) -> Iterator[Pusher]:
    """Its images leave the engine, which other tests have too."""
    yield Pusher(box, registry, config)
    client = docker_engine.client()
    tags = [tag for image in client.images() for tag in image["RepoTags"] or ()]
    for tag in (tag for tag in tags if tag.startswith(f"{registry.name}/")):
        client.remove_image(tag, force=True)


@needs_docker
class TestWithAnEngine:
    def test_the_digest_is_told_and_kept(self, box: Project, push: Pusher, docker_engine: Engine):
        log_in(push.config, push.registry)
        out = push("--json").succeeds()
        assert push.registry.tags == {IMAGE}
        pinned = push.pinned()
        ended = json.loads(out.out.splitlines()[-1])
        assert (ended["state"], ended["exit_code"], ended["image"]["digest"]) == ("succeeded", 0, pinned)
        assert f'container_image = "{pinned}"' in out.err
        shown = support.process(box, "jobs", "show", "last").succeeds().out
        assert pinned in shown
        assert "image-mine-stage-" in support.process(box, "jobs", "list").succeeds().out
        # A base that a registry knows is recorded by its digest; another one has none.
        (base,) = ended["image"]["bases"]
        assert (base["named"], base["digests"]) == (WITHOUT_BASH, [])
        push.dockerfile("ARG BASE\nFROM ${BASE} AS first\nFROM first\nLABEL more=yes\n")
        log_in_by_helper(push.config, push.registry)
        push("--build-arg", f"BASE={push.registry.name}/{IMAGE}", image="team/more:2").succeeds()
        assert push.registry.tags == {IMAGE, "team/more:2"}
        (base,) = push.records()[-1]["image"]["bases"]
        assert (base["named"], base["digests"]) == ("${BASE}", [pinned])
        # What a profile pins can be had: the engine fetches the very image.
        client = docker_engine.client()
        name, word = LOGIN.split(":")
        client.remove_image(f"{push.registry.name}/team/more:2", force=True)
        client.pull(push.pinned("team/more:2"), auth_config={"username": name, "password": word})
        assert client.inspect_image(push.pinned("team/more:2"))["Config"]["Labels"] == {"made": "here", "more": "yes"}
        client.close()
        self.nothing_tells_the_password(box)

    def nothing_tells_the_password(self, box: Project) -> None:
        """No file of any job."""
        word = LOGIN.partition(":")[2]
        hidden = (word.encode(), base64.b64encode(LOGIN.encode()))
        files = [file for file in (box.state / "jobs").rglob("*") if file.is_file()]
        assert files
        assert not [file for file in files if any(form in file.read_bytes() for form in hidden)]

    def test_a_wrong_login_is_told_before_anything_is_built(self, push: Pusher):
        log_in(push.config, push.registry, "ann:wrong")
        push().refuses(f"{push.registry.name} refuses the login", "as ann", f"docker login {push.registry.name}")
        assert push.records() == []

    @pytest.mark.parametrize("logged_in", [False, True])
    def test_a_refused_push_is_a_failed_job_with_its_remedy(self, push: Pusher, logged_in: bool):
        image = "closed/image:1" if logged_in else IMAGE
        if logged_in:
            log_in(push.config, push.registry)
        out = push(image=image)
        assert out.code == 1
        (record,) = push.records()
        assert record["states"][-1]["state"] == "failed"
        assert record["image"]["id"].startswith("sha256:")
        assert "digest" not in record["image"]
        assert "pushed as" not in out.out
        said = record["diagnosis"]["what"]
        assert "the push failed" in said
        assert f"docker login {push.registry.name}" in said
        assert push.registry.tags == set()

    def test_a_manifest_that_the_registry_refuses_is_no_success(self, push: Pusher):
        log_in(push.config, push.registry)
        push.registry.fault("PUT /v2/*/manifests/*", "400", times=None)
        out = push()
        assert out.code == 1
        assert "the push failed" in out.out
        assert "digest" not in push.records()[0]["image"]

    def test_nothing_is_pushed_of_a_build_that_failed(self, push: Pusher, docker_engine: Engine):
        log_in(push.config, push.registry)
        push.dockerfile(f"FROM {WITHOUT_BASH}\nRUN echo the reason >&2; exit 7\n")
        out = push()
        assert out.code == 1
        (record,) = push.records()
        assert "Step 2/2" in record["diagnosis"]["what"]
        assert "the reason" in record["diagnosis"]["what"]
        assert record["image"] == {}
        assert push.registry.calls_of("POST *") == []
        assert docker_engine.containers() == []

    def test_a_push_that_breaks_off_is_no_success(self, push: Pusher, docker_engine: Engine, tmp_path: Path):
        log_in(push.config, push.registry)
        with cutting_engine(docker_engine, tmp_path / "cut.sock") as host:
            out = push(DOCKER_HOST=host)
        assert out.code == 1
        assert "the push failed" in out.out
        assert "push it again" in out.out
        assert "digest" not in push.records()[0]["image"]

    def test_a_cancelled_push_is_no_success(self, box: Project, push: Pusher):
        log_in(push.config, push.registry)
        push.registry.fault("PUT /v2/*/manifests/*", "timeout", times=None)
        child = support.start(box, *push.words(), **push.environment())
        until(lambda: push.registry.calls_of("PUT /v2/*/manifests/*"), "the end of the push, which is held")
        support.process(box, "jobs", "cancel", "last").succeeds()
        out = support.finish(child)
        assert out.code != 0
        assert push.records()[0]["states"][-1]["state"] == "cancelled"
        assert "digest" not in push.records()[0]["image"]
        assert push.registry.tags == set()

    def test_a_cancelled_build_leaves_no_container(self, box: Project, push: Pusher, docker_engine: Engine):
        push.dockerfile(f"FROM {WITHOUT_BASH}\nRUN sleep 100000\n")
        child = support.start(box, *push.words(), **push.environment())
        until(docker_engine.containers, "the container of the step")
        support.process(box, "jobs", "cancel", "last").succeeds()
        assert support.finish(child).code != 0
        assert push.records()[0]["states"][-1]["state"] == "cancelled"
        until(lambda: docker_engine.containers() == [], "the end of the container")


@contextmanager
def cutting_engine(engine: Engine, socket_file: Path) -> Iterator[str]:
    """The engine behind a socket that breaks the answer to a push off, once it has begun."""
    real = engine.host.removeprefix("unix://")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_file))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_between, args=(client, real), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"unix://{socket_file}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _between(client: socket.socket, real: str) -> None:
    with client, socket.socket(socket.AF_UNIX) as behind:
        behind.connect(real)
        asked = [b""]

        def there() -> None:
            while data := client.recv(1 << 16):
                asked[0] = (asked[0] + data)[-(1 << 12) :]
                behind.sendall(data)

        threading.Thread(target=there, daemon=True).start()
        while data := behind.recv(1 << 16):
            if b"/push?" in asked[0] and b"The push refers" in data:
                client.sendall(data[: data.index(b"The push refers") + 4])
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(data)


@needs_podman
def test_podman_takes_the_registry_for_one(registry: ImageRegistry, tmp_path: Path):
    """What the engine's tests rest on: another client that follows the specification."""
    podman = Podman(tmp_path / "podman")
    podman.base(tmp_path / "base.tar")
    target = f"{registry.name}/team/base:1"
    podman.run("push", "--tls-verify=false", "--creds", LOGIN, "base:1", target)
    assert registry.tags == {"team/base:1"}
    told = podman.run("pull", "--tls-verify=false", "--creds", LOGIN, target)
    assert told.strip().splitlines()[-1] in podman.run("images", "--no-trunc", "--quiet")


@pytest.mark.parametrize(
    ("tag", "named"),
    [
        ((), "--push needs --tag with the name of a registry, and none is given"),
        (("--tag", "team/image:1"), "--push needs the name of a registry: team/image:1 names none"),
        (("--tag", "nvcr.io/Team/image:1"), "no name that an image can be given"),
        (("--tag", "nvcr.io/team/image@sha256:" + "0" * 64), "no name that an image can be given"),
        (("--tag", "nvcr.io/team/image:1", "--platform", "amd64"), "not OS/ARCHITECTURE"),
        (("--tag", "nvcr.io/team/image:1", "--build-arg", "HF_TOKEN=hf_abc"), "--build-arg HF_TOKEN is a secret's"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_done(project, nemotron, tag, named):
    project.recipe("mine/stage")
    project.write("recipes/mine/stage/Dockerfile", "FROM scratch\n")
    nemotron("docker", "build", "mine/stage", "--push", *tag).refuses(named)
    assert not (project.state / "jobs").exists()


def test_a_dry_run_shows_the_job_and_what_the_recipes_own_config_says(nemotron):
    words = ("--tag", "nvcr.io/acme/nemo-rl:1", "--push", "--build-arg", "EXTRAS=vllm", "--dry-run", "--json")
    plan = nemotron("docker", "build", "omni3/build/rl", *words).succeeds().json["plan"]
    given = plan["config"]
    assert (given["image"], given["push"]) == ("nvcr.io/acme/nemo-rl:1", True)
    assert given["build_args"] == ["BASE=nvcr.io/nvidia/pytorch:25.09-py3", "EXTRAS=vllm"]


def test_progress_is_told_once_for_each_layer():
    written: list[str] = []
    progress = PushProgress()
    events = [
        {"status": "The push refers to repository [r/x]"}, {"id": "a", "status": "Preparing", "progressDetail": {}},
        *({"id": "a", "status": "Pushing", "progressDetail": {"current": i, "total": 9}} for i in range(9)),
        {"id": "a", "status": "Pushed"}, {"status": f"1: digest: sha256:{'0' * 64} size: 7"},
    ]  # fmt: skip
    assert follow_push(events, progress, written.append) is None
    assert "".join(written) == "pushed 0 of 1 layers\npushed 1 of 1 layers\n"
    assert progress.digest == f"sha256:{'0' * 64}"
