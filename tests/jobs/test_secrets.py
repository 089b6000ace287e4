"""Where secrets are found."""

from __future__ import annotations

import os

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import SecretRef
from nemo_runspec.secrets import find, resolve

NAMES = ("WANDB_API_KEY", "WANDB_BASE_URL", "NETRC", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_HOME",
         "XDG_CACHE_HOME", "OTHER_KEY")  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_environment_first_and_an_empty_variable_is_none(home, monkeypatch):
    write(home / ".netrc", "machine api.wandb.ai login user password from-netrc\n")
    monkeypatch.setenv("WANDB_API_KEY", "")
    assert find("WANDB_API_KEY") == (
        SecretRef("WANDB_API_KEY", "netrc", f"{home}/.netrc machine api.wandb.ai"), "from-netrc",
    )  # fmt: skip
    monkeypatch.setenv("WANDB_API_KEY", "from-environment")
    assert find("WANDB_API_KEY") == (SecretRef("WANDB_API_KEY", "environment", "WANDB_API_KEY"), "from-environment")


def test_a_wandb_server_of_ones_own_and_other_netrc_files(home, monkeypatch):
    write(home / "_netrc", "machine wandb.corp login user password corporate\n")
    assert find("WANDB_API_KEY")[1] is None
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.corp:8080/")
    assert find("WANDB_API_KEY")[1] == "corporate"
    monkeypatch.setenv("NETRC", str(write(home / "mine", "machine wandb.corp login user password mine\n")))
    assert find("WANDB_API_KEY")[1] == "mine"


@pytest.mark.parametrize("text", ["machine", "nonsense s3cret-word\n", "machine api.wandb.ai login\n", "\xff\x00"])
def test_a_netrc_that_is_not_understood_counts_as_absent_with_a_note(home, text):
    file = write(home / ".netrc", "")
    file.write_bytes(text.encode("latin-1"))
    reference, value = find("WANDB_API_KEY")
    assert (reference.origin, value) == ("missing", None)
    assert str(file) in reference.detail
    assert "s3cret" not in reference.detail


def test_a_netrc_others_may_read_is_no_traceback(home):
    write(home / ".netrc", "default login user password open\n").chmod(0o644)
    reference, value = find("WANDB_API_KEY")
    assert value == "open" or str(home) in reference.detail


def test_hugging_face(home, monkeypatch):
    assert find("HF_TOKEN") == (SecretRef("HF_TOKEN", "missing"), None)
    write(home / ".cache/huggingface/token", "cached\n")
    assert find("HF_TOKEN")[1] == "cached"
    monkeypatch.setenv("HF_HOME", str(home / "hf"))
    write(home / "hf/token", "of-home")
    assert find("HF_TOKEN") == (SecretRef("HF_TOKEN", "token-file", f"{home}/hf/token"), "of-home")
    monkeypatch.setenv("HF_TOKEN_PATH", str(write(home / "t", "of-path")))
    assert find("HF_TOKEN")[1] == "of-path"
    monkeypatch.setenv("HUGGING_FACE_HUB_TOKEN", "older")
    assert find("HF_TOKEN")[0].detail == "HUGGING_FACE_HUB_TOKEN"
    monkeypatch.setenv("HF_TOKEN", "newer")
    assert find("HF_TOKEN")[1] == "newer"


def test_a_token_file_that_cannot_be_read_is_noted(home):
    (home / ".cache/huggingface/token").mkdir(parents=True)
    reference, value = find("HF_TOKEN")
    assert value is None
    assert "cannot be read" in reference.detail


@pytest.mark.parametrize("odd", ["FIFO", "device", "folder", "large"])
def test_a_token_file_that_is_none_is_not_waited_for(home, monkeypatch, odd):
    file = home / "token"
    monkeypatch.setenv("HF_TOKEN_PATH", str(file))
    makers = {
        "FIFO": lambda: os.mkfifo(file),
        "device": lambda: file.symlink_to("/dev/zero"),
        "folder": file.mkdir,
        "large": lambda: file.write_bytes(b"x" * (2 << 20)),
    }
    makers[odd]()
    reference, value = find("HF_TOKEN")
    assert value is None
    assert reference.origin == "missing" and "cannot be read" in reference.detail


def test_resolve(monkeypatch):
    reference = SecretRef("OTHER_KEY", "environment", "OTHER_KEY")
    with pytest.raises(UserError, match="OTHER_KEY is no longer"):
        resolve(reference)
    monkeypatch.setenv("OTHER_KEY", "value")
    assert resolve(reference) == "value"
    written = SecretRef("MY_KEY", "override", "command line")
    assert resolve(written, {"MY_KEY": "typed"}) == "typed"
    with pytest.raises(UserError, match="command line"):
        resolve(written)
