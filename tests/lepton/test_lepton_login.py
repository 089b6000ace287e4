"""Who we are to Lepton: the environment before the login file, a job's own workspace before both."""

from __future__ import annotations

import os

import pytest

from nemo_runspec.backends.lepton.credentials import GATEWAY, find_login
from nemo_runspec.errors import UserError

RECORD = """\
current_workspace: ws-file
workspaces:
  ws-file: {auth_token: from-file, url: https://file.example/api}
  ws-dgxc: {auth_token: other, url: https://gateway.dgxc.example/api/v2/workspaces/ws-dgxc}
  ws-bare: {auth_token: bare}
"""


@pytest.fixture
def known(monkeypatch, tmp_path):
    """Sets variables, and writes the login file."""
    for name in ("WORKSPACE_ID", "WORKSPACE_TOKEN", "AUTH_TOKEN", "WORKSPACE_URL", "WORKSPACE_ORIGIN_URL"):
        monkeypatch.delenv(f"LEPTON_{name}", raising=False)
    monkeypatch.setenv("LEPTON_CACHE_DIR", str(tmp_path))

    def set_them(record: str | None = RECORD, **variables: str) -> None:
        if record is not None:
            (tmp_path / "workspace_info.yaml").write_text(record)
        for name, value in variables.items():
            monkeypatch.setenv(f"LEPTON_{name}", value)

    return set_them


@pytest.mark.parametrize(
    ("variables", "handle", "expected"),
    [
        ({}, None, ("ws-file", "https://file.example/api", "from-file")),
        ({"WORKSPACE_ID": "ws-env", "WORKSPACE_TOKEN": "t"}, None, ("ws-env", f"{GATEWAY}/ws-env", "t")),
        ({"WORKSPACE_ID": "ws-env", "AUTH_TOKEN": "a"}, None, ("ws-env", f"{GATEWAY}/ws-env", "a")),
        ({"WORKSPACE_ID": "ws-env:in", "AUTH_TOKEN": "a"}, None, ("ws-env", f"{GATEWAY}/ws-env", "in")),
        ({"WORKSPACE_ID": "ws-bare"}, None, ("ws-bare", f"{GATEWAY}/ws-bare", "bare")),
        ({"WORKSPACE_URL": "https://h/x/"}, None, ("ws-file", "https://h/x", "from-file")),
        ({"WORKSPACE_TOKEN": "t"}, None, ("ws-file", "https://file.example/api", "t")),
        ({"WORKSPACE_ID": "ws-env", "WORKSPACE_TOKEN": "t", "WORKSPACE_URL": "https://h"},
         {"workspace": "ws-bare", "url": "https://job"}, ("ws-bare", "https://job", "bare")),
        ({"WORKSPACE_ID": "ws-env", "WORKSPACE_TOKEN": "t"}, {"workspace": "ws-env", "url": "https://job"},
         ("ws-env", "https://job", "t")),
    ],
)  # fmt: skip
def test_what_counts(known, variables, handle, expected):
    known(**variables)
    login = find_login(handle)
    assert (login.workspace, login.url, login.token) == expected
    assert "token='" not in repr(login)


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("http://gateway.example/api", "plain HTTP"), ("http://10.0.0.7:8080", "plain HTTP"), ("http://[::1", "no URL"),
        ("gateway.example", "no URL"), ("http://127.0.0.1:1/x", ""), ("https://gateway.example", ""),
    ],
)  # fmt: skip
def test_the_token_goes_over_tls_or_stays_on_this_machine(known, url, wrong):
    """Whether the address is the environment's, the login file's or the job's own."""
    record = f'current_workspace: w\nworkspaces: {{w: {{url: "{url}", auth_token: t}}}}\n'
    for variables, handle in (({"WORKSPACE_URL": url}, None), ({}, None), ({}, {"workspace": "w", "url": url})):
        known(record, **{"WORKSPACE_ID": "w", "WORKSPACE_TOKEN": "hidden-one", **variables})
        if not wrong:
            assert find_login(handle).url == url
            continue
        with pytest.raises(UserError, match=wrong) as caught:
            find_login(handle)
        assert "hidden-one" not in str(caught.value)


def test_the_origin_of_dgx_clouds_gateway(known):
    known(WORKSPACE_ID="ws-dgxc")
    assert find_login().origin == "https://gateway.dgxc.example"
    known(WORKSPACE_ID="ws-file")
    assert find_login().origin == ""
    known(WORKSPACE_ORIGIN_URL="https://dash")
    assert find_login().origin == "https://dash"


@pytest.mark.parametrize(
    ("record", "variables", "handle", "wrong"),
    [
        (None, {}, None, "no Lepton workspace is named"), ("", {}, None, "no Lepton workspace is named"),
        ("a: [", {}, None, "is no YAML"), (None, {"WORKSPACE_ID": "w"}, None, "no token for the Lepton workspace 'w'"),
        (None, {"WORKSPACE_ID": "w", "WORKSPACE_TOKEN": "t"}, {"workspace": "job"}, "no token .* 'job'"),
    ],
)  # fmt: skip
def test_what_is_missing(known, record, variables, handle, wrong):
    known(record, **variables)
    with pytest.raises(UserError, match=wrong) as caught:
        find_login(handle)
    assert "LEPTON_WORKSPACE_TOKEN" in caught.value.remedy


@pytest.mark.parametrize(
    "record",
    [
        "[" * 100_000,
        "[1]",
        "workspaces: [1]",
        "workspaces: {ws-file: [1]}",
        "current_workspace: [1]",
        "a: &a [*a]",
        "x",
    ],
    ids=range(7),
)
def test_an_odd_login_file_is_no_crash(known, record):
    known(record, WORKSPACE_ID="x")
    with pytest.raises(UserError):
        find_login()


@pytest.mark.parametrize("odd", ["FIFO", "device", "folder"])
def test_a_login_file_that_is_none_is_not_waited_for(known, tmp_path, odd):
    file = tmp_path / "workspace_info.yaml"
    {"FIFO": lambda: os.mkfifo(file), "device": lambda: file.symlink_to("/dev/zero"), "folder": file.mkdir}[odd]()
    with pytest.raises(UserError, match="login file cannot be read: it is a " + odd):
        find_login()
