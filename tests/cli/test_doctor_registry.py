"""An image's name as enroot reads it, and a registry that is asked for it: from a login node by curl, and from here."""

from __future__ import annotations

import json
import shutil
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from nemo_runspec.backends.slurm.cluster import answer_of
from nemo_runspec.backends.slurm.preflight import NEEDED, LoginRequest
from nemo_runspec.transport.local import LocalHost
from nemo_runspec.transport.registry import Image, RegistryAnswer, RegistryLogin, ask, image_of

TOKEN = "a-token-for-anyone"
ME = f"Basic {b64encode(b'$oauthtoken:a-key').decode()}"


class Registry(BaseHTTPRequestHandler):
    """Has `open/image:1`, and `shy/image:1` for those with a token; anybody gets one, but for `secret/…` only `ME`.

    For `odd/…` the token is a list. `basic/image:1` wants `ME` itself; `away/…` sends everybody who is `ME` to another
    server.
    """

    def do_HEAD(self) -> None:
        name = self.path.removeprefix("/v2/")
        if name.startswith(("basic/", "away/")):
            self._basic(name)
            return
        if "manifest" not in (self.headers["Accept"] or ""):
            self._answer(400)
        elif name == "open/image/manifests/1" or self.headers["Authorization"] == f"Bearer {TOKEN}":
            self._answer(200 if name.endswith("/image/manifests/1") else 404)
        elif name.startswith("open/"):
            self._answer(404)
        else:
            realm = f'Bearer realm="http://{self.headers["Host"]}/token",service="here",scope="ignored"'
            self._answer(401, **{"WWW-Authenticate": realm})

    def do_GET(self) -> None:
        asked, given = unquote(self.path), self.headers["Authorization"]
        if not asked.startswith("/token?service=here&scope=repository:") or ("secret/" in asked and given != ME):
            self._answer(401 if given else 403)
            return
        body = json.dumps([TOKEN] if "odd/" in asked else {"expires_in": 60, "token": TOKEN}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _basic(self, name: str) -> None:
        if self.headers["Authorization"] != ME:
            self._answer(401, **{"WWW-Authenticate": 'Basic realm="here"'})
        elif name.startswith("away/"):
            self._answer(307, Location=f"http://localhost:{self.server.server_address[1]}/v2/shy/image/manifests/1")
        else:
            self._answer(200)

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(autouse=True)
def no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `PATH` with what a login node has, and no Slurm."""
    for name in (*NEEDED, "date", "mktemp", "df", "curl"):
        (tmp_path / name).symlink_to(shutil.which(name) or "/none")
    monkeypatch.setenv("PATH", str(tmp_path))


def from_here(image: Image) -> str:
    return ask(image).status


def by_curl(image: Image) -> str:
    done = LocalHost().run(LoginRequest("/tmp", (), (), image).script(), timeout=120)
    section = answer_of(done.text)["image"]
    return section.said or section.reason


@pytest.mark.parametrize("ask", [from_here, by_curl])
@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("{}#open/image:1", "200"),
        ("{}/open/image:1", "200"),
        ("me@{}#open/image:2", "404"),
        ("docker://{}#shy/image:1", "200"),
        ("{}#shy/image", "404"),
        ("{}#secret/image:1", "401"),
    ],
)
def test_what_the_registry_says(registry: str, ask, name: str, status: str):
    assert ask(image_of(name.format(registry))) == status


@pytest.mark.parametrize(
    ("name", "key", "answer"),
    [
        ("secret/image:1", "a-key", RegistryAnswer("200", login=True)),
        ("secret/image:2", "a-key", RegistryAnswer("404", login=True)),
        ("secret/image:1", "stale", RegistryAnswer("401", login=True, accepted=False)),
        ("secret/image:1", "", RegistryAnswer("401")),
        ("open/image:1", "stale", RegistryAnswer("200")),
        ("basic/image:1", "a-key", RegistryAnswer("200", login=True)),
        ("basic/image:1", "stale", RegistryAnswer("401", login=True, accepted=False)),
        ("basic/image:1", "", RegistryAnswer("401")),
        ("odd/image:1", "", RegistryAnswer("401")),
        ("away/image:1", "a-key", RegistryAnswer("307", login=True)),
    ],
)
def test_with_credentials(registry: str, name: str, key: str, answer: RegistryAnswer):
    """A key opens what is private, one that is not accepted is told apart, and it follows no redirect."""
    login = RegistryLogin("$oauthtoken", key, "NGC_KEY") if key else None
    assert ask(image_of(f"{registry}/{name}"), login) == answer
    assert key not in repr(login) or not key


@pytest.mark.parametrize("ask", [from_here, by_curl])
def test_no_registry(ask):
    said = ask(image_of("127.0.0.1:1#open/image:1"))
    assert "Connection refused" in said or "Failed to connect to 127.0.0.1 port 1" in said


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("nvcr.io#nvidia/nemo:25.11", "https://nvcr.io/v2/nvidia/nemo/manifests/25.11"),
        ("nvcr.io/nvidia/nemo:25.11", "https://nvcr.io/v2/nvidia/nemo/manifests/25.11"),
        ("$oauthtoken@nvcr.io#nvidia/nemo:1", "https://nvcr.io/v2/nvidia/nemo/manifests/1"),
        ("ubuntu", "https://registry-1.docker.io/v2/library/ubuntu/manifests/latest"),
        ("nvidia/cuda:12.8", "https://registry-1.docker.io/v2/nvidia/cuda/manifests/12.8"),
        ("ghcr.io#o/i@sha256:00ff", "https://ghcr.io/v2/o/i/manifests/sha256:00ff"),
        ("dockerd://mine", ""),
        ("/lustre/me/nemo.sqsh", ""),
    ],
)
def test_names(name: str, url: str):
    assert image_of(name).url == url
    assert bool(image_of(name).path) == (not url and not name.startswith("dockerd"))
