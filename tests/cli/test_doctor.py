"""`nemotron doctor` where no cluster is needed: this machine, local and Docker profiles, what cannot be used at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from labs.web import HttpError, Request, WebLab, route
from support import Outcome, Project

from nemo_runspec.backends.base import Backend
from nemo_runspec.check import CheckRequest


def found(outcome: Outcome, name: str) -> dict[str, Any]:
    return next(check for check in outcome.json["checks"] if check["name"] == name)


def programs(folder: Path, **texts: str) -> str:
    """A folder of shell scripts, to be the whole of `PATH`."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def test_this_machine(nemotron, project: Project):
    told = nemotron("doctor", "--json")
    names = [check["name"] for check in told.json["checks"]]
    assert names == ["Python", "uv", "git", "ssh", "own folder", "room", "env.toml"]
    assert "6 profiles" in found(told, "env.toml")["seen"]
    assert "my-cluster" in told.json["profiles"]
    assert not project.state.exists()
    assert "nemotron doctor PROFILE" in nemotron("doctor").out


def test_without_an_env_file(nemotron, project: Project):
    project.env_file.unlink()
    assert found(nemotron("doctor", "--json"), "env.toml")["verdict"] == "skipped"
    assert nemotron("doctor", "local").code == 0


def test_an_env_file_that_is_broken(nemotron, project: Project):
    project.write("env.toml", "[a\n")
    told = nemotron("doctor", "--json")
    assert told.code == 2
    assert "env.toml:1" in found(told, "env.toml")["seen"]


def test_a_profile_nobody_knows(nemotron):
    nemotron("doctor", "my-clutser").refuses("no profile 'my-clutser'", "did you mean 'my-cluster'?")


def test_a_local_profile(nemotron, project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert nemotron("doctor", "laptop").code == 0
    listed = 'echo "GPU 0: NVIDIA H100 (UUID: GPU-1)"; echo "GPU 1: NVIDIA H100 (UUID: GPU-2)"'
    monkeypatch.setenv("PATH", programs(tmp_path / "bin", **{"nvidia-smi": listed}))
    project.write("env.toml", '[two]\ngpus_per_node = 2\n[four]\ngpus_per_node = 4\njob_dir = "/proc/none"\n')
    two, four = nemotron("doctor", "two", "--json"), nemotron("doctor", "four", "--json")
    assert found(two, "GPUs")["verdict"] == "ok"
    assert found(two, "uv") == {
        "name": "uv", "verdict": "failed", "seen": "not on PATH; it makes the environments of recipes",
        "mend": found(two, "uv")["mend"],
    }  # fmt: skip
    assert found(four, "GPUs")["mend"].startswith("set gpus_per_node = 2")
    assert found(four, "job_dir")["verdict"] == "failed"
    assert (two.code, four.code) == (2, 2)


@pytest.mark.parametrize("host", ["login.none.invalid", "127.0.0.1"])
def test_a_host_that_nobody_asked(nemotron, project: Project, host: str):
    """The identity's file is missing: nothing is known of the host, whether there is one or not."""
    keys = 'executor = "slurm"\ntunnel = "ssh"\naccount = "a"\nidentity = "~/none/id"\n'
    project.write("env.toml", f'[c]\nhost = "{host}"\n{keys}')
    told = nemotron("doctor", "c", "--json")
    assert told.code == 2
    assert "there is no such file on this machine" in found(told, "identity")["seen"]
    assert {found(told, step)["verdict"] for step in ("host", "host key", "login", "the rest")} == {"skipped"}
    assert {check["name"] for check in told.json["checks"] if check["verdict"] == "failed"} == {"identity"}


class MuteEngine(WebLab):
    """A Docker engine that says its version, and then nothing good."""

    @route("GET", "/version")
    def version(self, request: Request) -> Any:
        return {"ApiVersion": "1.41", "Version": "99"}


def test_an_engine_that_says_no_more(nemotron, monkeypatch: pytest.MonkeyPatch):
    lab = MuteEngine()
    monkeypatch.setenv("DOCKER_HOST", lab.origin.replace("http", "tcp"))
    told = nemotron("doctor", "box", "--json")
    lab.close()
    assert found(told, "engine")["verdict"] == "failed", told.out
    assert {found(told, name)["verdict"] for name in ("image", "GPU runtime", "room")} == {"skipped"}


def test_a_docker_profile_without_an_engine(nemotron, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///none/such.sock")
    told = nemotron("doctor", "box", "--json")
    assert told.code == 2
    assert "/none/such.sock" in found(told, "engine")["seen"]
    assert found(told, "image")["verdict"] == "skipped"


def test_values_that_no_job_can_have(nemotron, project: Project):
    project.write("env.toml", '[c]\nexecutor = "slurm"\ntime = "soon"\nmounts = ["data:/data"]\n')
    told = nemotron("doctor", "c", "--json")
    assert told.code == 2
    wrong = [check["seen"] for check in told.json["checks"] if check["name"] == "values"]
    assert len(wrong) == 2
    assert found(told, "slurm")["verdict"] == "skipped"


def test_what_a_site_must_fill_in(nemotron, project: Project):
    project.write("env.toml", '[c]\nexecutor = "slurm"\ntunnel = "ssh"\naccount = "YOUR-ACCOUNT"\n')
    told = nemotron("doctor", "c", "--json")
    left = [check for check in told.json["checks"] if check["name"] == "profile"]
    assert {check["verdict"] for check in left} == {"failed"}
    assert any("YOUR-ACCOUNT" in check["seen"] for check in left)
    assert all("env.toml" in check["mend"] for check in left)


def test_an_executor_without_checks():
    """One of a plugin that has none."""
    plain = Backend("plugin", remote=True, fields=(), target="a:b", target_type="a:c")
    [check] = plain.preflight_of(CheckRequest("mine", {}))
    assert (check.verdict, "no checks for executor 'plugin'" in check.seen) == ("skipped", True)


class Hub(WebLab):
    """Hugging Face's hub, as far as it says who somebody is."""

    @route("GET", "/api/whoami-v2")
    def whoami(self, request: Request) -> Any:
        if request.headers.get("Authorization") != "Bearer hf_good":
            raise HttpError(401, "Invalid credentials in Authorization header")
        return {"name": "somebody"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    lab = Hub()
    monkeypatch.setenv("HF_ENDPOINT", lab.origin)
    yield lab
    lab.close()


@pytest.mark.parametrize("listed", [False, True])
def test_a_token_that_the_hub_knows(nemotron, project: Project, monkeypatch, hub: Hub, listed: bool):
    """It is asked where it answers, whether the profile lists the token or not; nobody else gets it."""
    project.write("env.toml", f'[laptop]\nexecutor = "local"\nsecrets = {["HF_TOKEN"] if listed else []}\n')
    for token, verdict, words in (
        ("hf_good", "ok", f"{hub.origin} accepts it"),
        ("hf_canary", "failed", f"{hub.origin} does not accept HF_TOKEN (environment)"),
        ("hf_unasked", "ok", "did not say whether it accepts it"),
    ):
        monkeypatch.setenv("HF_TOKEN", token)
        hub.fault("GET *", "503", times=1 if token == "hf_unasked" else 0)
        told = nemotron("doctor", "laptop", "--json")
        check = found(told, "Hugging Face")
        assert (check["verdict"], words in check["seen"]) == (verdict, True), check
        assert token not in told.out + told.err
    for name, value, words in (
        ("HF_HUB_OFFLINE", "1", "found (environment)"), ("HF_ENDPOINT", "http://hub.invalid", "is no https:// address"),
    ):  # fmt: skip
        hub.calls.clear()
        monkeypatch.setenv("HF_TOKEN", "hf_good")
        monkeypatch.setenv(name, value)
        check = found(nemotron("doctor", "laptop", "--json"), "Hugging Face")
        assert (check["verdict"], check["seen"].endswith(words), hub.calls) == ("ok", True, [])
        monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def test_credentials_are_found_and_never_shown(nemotron, project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HF_TOKEN", "hf_canary")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    told = nemotron("doctor", "laptop", "--json")
    assert found(told, "Hugging Face")["verdict"] == "ok"
    assert found(told, "W&B")["verdict"] == "warning"
    (project.home / ".netrc").write_text("machine api.wandb.ai\n login user\n password canary-key\n")
    told = nemotron("doctor", "laptop", "--json")
    assert "netrc" in found(told, "W&B")["seen"]
    assert "canary" not in told.out + told.err


@pytest.mark.parametrize(("encoding", "sign"), [("utf-8", "✓"), ("ascii", "ok  ")])
def test_signs_or_words(nemotron_process, encoding: str, sign: str):
    told = nemotron_process("doctor", "laptop", PYTHONIOENCODING=encoding, COLUMNS="80")
    lines = told.out.splitlines()
    assert any(line.startswith(f"  {sign} Python ") for line in lines), told.out
    assert [line for line in lines if len(line) > 80 and " " in line[27:]] == []
    assert "\x1b" not in told.out


def test_colour_where_it_is_wanted(nemotron_process):
    assert "\x1b[32m✓\x1b[0m" in nemotron_process("doctor", "laptop", FORCE_COLOR="1", PYTHONIOENCODING="utf-8").out


def test_what_runs_in_a_table_is_inert(nemotron, project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = r"printf 'uv \033[2J 1\n'"
    monkeypatch.setenv("PATH", f"{programs(tmp_path / 'bin', uv=text)}:{os.environ['PATH']}")
    assert r"\x1b[2J" in nemotron("doctor", "laptop").out
