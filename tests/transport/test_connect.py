"""The machine a profile names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from nemo_runspec.errors import UserError
from nemo_runspec.transport.connect import close_all, connect


@pytest.fixture(autouse=True)
def forgotten():
    yield
    close_all()


def test_without_a_tunnel_it_is_this_machine():
    assert connect().key == "local"
    assert connect("local", host="ignored.example.com") is connect()


def test_each_machine_is_known_once_per_process(tmp_path):
    key = tmp_path / "key"
    key.touch()
    one = connect("ssh", host="login", user="me", port=2222, identity=str(key))
    assert connect("ssh", host="login", user="me", port=2222, identity=str(key)) is one
    assert connect("ssh", host="login", user="you") is not one
    assert (one.name, one.key) == ("me@login:2222", "ssh:me@login:2222")


def test_two_keys_to_one_account_are_one_machine(tmp_path):
    key = tmp_path / "key"
    key.touch()
    one, other = connect("ssh", host="login", identity=str(key)), connect("ssh", host="login")
    assert one is not other
    assert one.key == other.key


def test_after_closing_there_are_new_ones():
    one = connect("ssh", host="login")
    close_all()
    assert connect("ssh", host="login") is not one


def test_ssh_without_a_host_is_refused():
    with pytest.raises(UserError, match=r"needs a host"):
        connect("ssh")


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", "a b", "a;b", "$(id)", "a\nb", "`id`", ""])
def test_a_host_is_no_option_and_no_command(host):
    with pytest.raises(UserError):
        connect("ssh", host=host)


@pytest.mark.parametrize("user", ["-x", "a b", "$(id)"])
def test_a_user_is_no_option_either(user):
    with pytest.raises(UserError, match="user"):
        connect("ssh", host="login", user=user)


def test_an_identity_must_be_there(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"identity = '~/.ssh/id': there is no such file") as caught:
        connect("ssh", host="login", identity="~/.ssh/id")
    assert caught.value.where == f"{tmp_path}/.ssh/id"


def test_naming_a_machine_starts_nothing(tmp_path):
    code = "from nemo_runspec.transport.connect import connect; print(connect('ssh', host='login').calls)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("0\n", "")
