"""Code that pods fetch as a commit: from a real git server, which may want a password, and never with a question."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from pod_process import cloud_plan, loaded, start, without

from nemo_runspec.backends.cloud.code.origin import fetch_url, git_place
from nemo_runspec.backends.cloud.code.transports import transports_of
from nemo_runspec.backends.cloud.code.upload import pod_arguments
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.pack import pack
from nemo_runspec.plans.model import Package

SECRET = "glpat-very-secret"
SHOW = """
    import pathlib
    print("found:", *sorted(path.name for path in pathlib.Path(".").iterdir()))
"""


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    author = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "init.defaultBranch=main")
    command = ["git", "-C", str(folder), *author, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


class _Backend(BaseHTTPRequestHandler):
    """git's own server program, behind a password where there is one."""

    root: ClassVar[Path]
    password: ClassVar[str] = ""
    seen: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        given = base64.b64decode((self.headers.get("Authorization") or "").removeprefix("Basic ")).decode()
        self.seen.append(f"{self.path} {given}")
        if self.password and given.partition(":")[2] != self.password:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        variables = {
            "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type") or "",
            "CONTENT_LENGTH": str(len(body)), "GIT_PROTOCOL": self.headers.get("Git-Protocol") or "",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "", "PATH": os.environ["PATH"],
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=variables, capture_output=True, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def server(tmp_path):
    """A git server with one repository, `mine.git`; its handler has the password and what was asked."""
    handler = type("Handler", (_Backend,), {"root": tmp_path, "seen": []})
    git(tmp_path, "init", "--bare", "mine.git")
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    handler.url = f"http://127.0.0.1:{web.server_address[1]}/mine.git"
    threading.Thread(target=web.serve_forever, daemon=True).start()
    yield handler
    web.shutdown()
    web.server_close()


@pytest.fixture
def repository(tmp_path, server):
    """A clone with one commit that origin has, and one branch beyond it."""
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init")
    git(folder, "remote", "add", "origin", server.url)
    (folder / "sub").mkdir()
    (folder / "train.py").write_text("x = 1\n")
    (folder / "sub" / "inner.py").write_text("y = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "one")
    git(folder, "push", str(tmp_path / "mine.git"), "HEAD:refs/heads/main")
    return folder


def package_of(folder: Path, subpath: str = "") -> Package:
    """A package of what is checked out, as a plan has it."""
    commit = git(folder, "rev-parse", "HEAD")
    options = {"packager_subpath": subpath} if subpath else {}
    return Package("git", str(folder), options, 2, 12, git(folder, "rev-parse", f"HEAD:{subpath}"), commit)


def git_cargo(top: Path, package: Package, **target: object):
    """The plan's cargo with its code by git."""
    plan = replace(cloud_plan(top, SHOW, target={"code_transport": "git", **target}), package=package)
    archive = pack(package, lambda line: None).archive
    return loaded(plan, archive=archive, offer=transports_of(plan, {}, inline_word=90_000))


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    """No configuration, helper or agent of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NEMOTRON_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(("subpath", "found"), [("", "sub train.py"), ("sub", "inner.py")])
def test_pods_fetch_exactly_the_commit(tmp_path, repository, server, subpath, found):
    package = package_of(repository, subpath)
    (repository / "later.py").write_text("z = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "two")
    git(repository, "push", str(tmp_path / "mine.git"), "HEAD:refs/heads/main")
    cargo = git_cargo(tmp_path, package)
    assert cargo.parts[1].transport == "git" and server.url in cargo.parts[1].words
    pod = start(cargo)
    assert pod.wait() == 0, pod.text
    assert f"found: {found}\n" in pod.text


def test_private_repository_is_fetched_with_a_token_that_stands_nowhere(tmp_path, repository, server, monkeypatch):
    server.password = SECRET
    helper = tmp_path / "helper"  # how this machine itself is let in
    helper.write_text(f"#!/bin/sh\necho username=me; echo password={SECRET}\n")
    helper.chmod(0o755)
    git(repository, "config", "credential.helper", str(helper))
    package = package_of(repository)
    with pytest.raises(UserError, match="does not let everybody read"):
        git_cargo(tmp_path, package)
    cargo = git_cargo(tmp_path, package, secret_vars={"GIT_TOKEN": "my-token"})
    assert SECRET not in " ".join(pod_arguments(cargo))
    pod = start(cargo, GIT_TOKEN=SECRET)
    assert pod.wait() == 0, pod.text
    assert "found: sub train.py\n" in pod.text and SECRET not in pod.text
    assert any(f"x-access-token:{SECRET}" in line for line in server.seen)
    files = [file for file in (tmp_path / "run").rglob("*") if file.is_file()]
    assert files and not [file for file in files if SECRET.encode() in file.read_bytes()]


@pytest.mark.slow
def test_commit_of_50_megabytes_arrives_whole(tmp_path, repository):
    content = os.urandom(50_000_000)
    for folder in (repository, tmp_path / "mine.git"):
        git(folder, "config", "core.compression", "0")  # or a busy machine takes minutes to make nothing smaller
    (repository / "weights").write_bytes(content)
    git(repository, "add", ".")
    git(repository, "commit", "-m", "two")
    git(repository, "push", str(tmp_path / "mine.git"), "HEAD:refs/heads/main")
    # The server here sends nothing before it has all: that may look like one that does not go on.
    pod = start(git_cargo(tmp_path, package_of(repository)), NEMOTRON_STALL_SECONDS="600")
    assert pod.wait() == 0, pod.text
    [arrived] = (file for file in (tmp_path / "run").rglob("weights"))
    assert arrived.read_bytes() == content


def test_token_that_is_not_taken_fails_without_a_question(tmp_path, repository, server):
    cargo = git_cargo(tmp_path, package_of(repository))
    server.password = SECRET
    for env in ({}, {"GIT_TOKEN": "wrong"}):
        pod = start(cargo, **env)
        assert pod.wait() == 1
        assert "git failed: " in pod.end.reason and pod.end.phase == "start"


def test_image_without_git_is_said(tmp_path, repository):
    pod = start(git_cargo(tmp_path, package_of(repository)), PATH=without(tmp_path, "git"))
    assert pod.wait() == 1
    assert "the image has no git" in pod.end.reason


def test_commit_that_origin_does_not_have_is_refused(tmp_path, repository):
    (repository / "later.py").write_text("z = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "two")
    with pytest.raises(UserError) as caught:
        git_cargo(tmp_path, package_of(repository))
    assert "does not have commit" in str(caught.value) and "git push" in str(caught.value)


def test_package_that_is_not_a_commit_is_refused(repository):
    package = package_of(repository)
    with pytest.raises(UserError, match="more or less than the files of a commit"):
        git_place(replace(package, digest=git(repository, "rev-parse", "HEAD:sub")), token=False)


@pytest.mark.parametrize("token", [True, False])
def test_a_token_does_not_travel_in_clear(repository, token):
    """Nobody answers there: without a token that is what is said."""
    git(repository, "remote", "set-url", "origin", "http://git.invalid/mine.git")
    with pytest.raises(UserError, match="is plain HTTP" if token else "does not let everybody read"):
        git_place(package_of(repository), token=token)


def test_server_with_another_tree_is_not_believed(tmp_path, repository):
    cargo = git_cargo(tmp_path, package_of(repository))
    assert all(pod_arguments(cargo)), "a word that is empty may get lost"
    other = replace(cargo.parts[1], words=(*cargo.parts[1].words[:3], "0" * 40))
    pod = start(replace(cargo, parts=(cargo.parts[0], other)))
    assert pod.wait() == 1
    assert "is not what was planned" in pod.end.reason


def test_server_that_does_not_go_on_is_given_up(tmp_path, repository):
    cargo = git_cargo(tmp_path, package_of(repository))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mine.git"
        other = replace(cargo.parts[1], words=(url, *cargo.parts[1].words[1:]))
        pod = start(replace(cargo, parts=(cargo.parts[0], other)), NEMOTRON_STALL_SECONDS="1")
        try:
            assert pod.wait() == 1
        finally:
            pod.kill()
    assert "git failed: " in pod.end.reason


def test_commit_that_git_cannot_unpack_whole_is_a_failure(tmp_path, repository):
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\n{shutil.which("git")} "$@" || exit\ncase "$*" in *archive*) exit 128 ;; esac\n')
    program.chmod(0o755)
    pod = start(git_cargo(tmp_path, package_of(repository)), PATH=f"{program.parent}:{os.environ['PATH']}")
    assert pod.wait() == 1
    assert pod.end.reason == "the code cannot be unpacked"


@pytest.mark.parametrize(
    ("origin", "url"),
    [
        ("git@github.com:me/mine.git", "https://github.com/me/mine.git"),
        ("ssh://git@example.com:2222/me/mine.git", "https://example.com/me/mine.git"),
        ("https://me:token@example.com/mine.git", "https://example.com/mine.git"),
        ("https://example.com/mine", "https://example.com/mine"),
    ],
)
def test_pods_reach_origin_over_https(origin, url):
    assert fetch_url(origin) == url


@pytest.mark.parametrize("origin", ["/srv/git/mine.git", "file:///srv/git/mine.git", "../mine", ""])
def test_origin_that_pods_cannot_reach_is_refused(origin):
    with pytest.raises(UserError):
        fetch_url(origin)
