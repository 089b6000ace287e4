"""A key is sent only to the server that it belongs to: no env.toml sends this user's key to a server of its own."""

from __future__ import annotations

import pytest

TRAIN = "import os\nprint('KEY', os.environ.get('WANDB_API_KEY'), os.environ.get('HF_TOKEN'))\n"


@pytest.fixture
def elsewhere(project):
    """A project whose env.toml names a W&B server, and whose profile a hub, that are not the usual ones."""
    project.write(
        "env.toml",
        '[wandb]\nproject = "p"\nentity = "e"\nbase_url = "https://wandb.example"\n[plain]\n[hub.env_vars]\n'
        'HF_ENDPOINT = "https://hub.example"\n',
    )
    project.write("train.py", TRAIN)
    return project


def test_a_wandb_key_of_another_server_is_refused(elsewhere, nemotron, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-key-of-api.wandb.ai")
    nemotron("run", "./train.py", "--dry-run").refuses(
        "WANDB_API_KEY is for api.wandb.ai, and this job's WANDB_BASE_URL is wandb.example",
        "export WANDB_BASE_URL=https://wandb.example",
    )
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example/")
    assert "WANDB_API_KEY" in nemotron("run", "./train.py", "--dry-run").succeeds().out


@pytest.mark.slow
def test_a_login_file_has_a_key_for_each_server(elsewhere, nemotron_process):
    file = elsewhere.home / ".netrc"
    file.write_text("machine api.wandb.ai login user password usual-key\n")
    file.chmod(0o600)
    nemotron_process("run", "./train.py").refuses("WANDB_API_KEY is for api.wandb.ai")
    file.write_text(file.read_text() + "machine wandb.example login user password example-key\n")
    done = nemotron_process("run", "./train.py").succeeds()
    assert "usual-key" not in done.out + done.err
    assert "KEY ****** None" in done.out


def test_a_token_of_the_hub_is_refused_to_another_hub(elsewhere, nemotron, monkeypatch):
    (elsewhere.folder / "env.toml").write_text('[hub.env_vars]\nHF_ENDPOINT = "https://hub.example"\n')
    monkeypatch.setenv("HF_TOKEN", "hf_0123456789abcdef")
    nemotron("run", "./train.py", "--run", "hub", "--dry-run").refuses(
        "HF_TOKEN is for huggingface.co, and this job's HF_ENDPOINT is hub.example"
    )


def test_an_address_that_is_none_is_no_crash(elsewhere, nemotron, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "a-key")
    monkeypatch.setenv("WANDB_BASE_URL", "http://[::1")
    nemotron("run", "./train.py", "--dry-run").refuses("WANDB_API_KEY is for api.wandb.ai")
