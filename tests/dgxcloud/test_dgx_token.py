"""run:ai's token: how it is asked for, and that nobody ever sees what a credentials endpoint says."""

from __future__ import annotations

import json
import time

import pytest
from labs.runai.server import RunaiLab
from runai_workloads import api_of, handle, profile
from support import Project, process

from nemo_runspec.backends.dgxcloud import token as token_module
from nemo_runspec.backends.dgxcloud.api import connect
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable

HIDDEN = "eyJhbGciOiJub25lIn0.VERY-SECRET-BEARER"

ODD_TOKENS = [
    f'{{"accessToken": "{HIDDEN}", "expiresIn": 36',
    f"<html>{HIDDEN}</html>",
    f'["{HIDDEN}"]',
    f'"{HIDDEN}"',
    "null",
    "",
    f'{{"accessToken": ["{HIDDEN}"]}}',
    f'{{"accessToken": "{HIDDEN}\\r\\nX-Evil: 1"}}',
    f'{{"accessToken": "{HIDDEN}\\u2026"}}',
    f'{{"accessToken": {{"value": "{HIDDEN}"}}}}',
]
"""Answers to a request for a token that hold one, and none that can be used."""


@pytest.mark.parametrize("body", ODD_TOKENS)
def test_no_word_of_an_answer_with_a_token_is_shown(runai_lab: RunaiLab, body: str):
    runai_lab.fault("POST /token", "says", times=None, body=body.encode())
    with pytest.raises(Unreachable) as caught:
        api_of(runai_lab).projects()
    assert HIDDEN not in str(caught.value)
    assert "Evil" not in str(caught.value)


@pytest.mark.parametrize("status", [500, 400, 403])
def test_nor_of_one_that_fails(runai_lab: RunaiLab, status: int, monkeypatch: pytest.MonkeyPatch):
    """A server may repeat in its refusal what it was sent."""
    monkeypatch.setattr("nemo_runspec.backends.dgxcloud.api.AT_ONCE", 0.2)
    monkeypatch.setattr(
        runai_lab, "refusal", lambda error: _refusal(error.status, {"message": f"bad secret {runai_lab.client_secret}"})
    )
    runai_lab.fault("POST /token", str(status), times=None)
    with pytest.raises(UserError) as caught:
        api_of(runai_lab).projects()
    assert runai_lab.client_secret not in str(caught.value)


def _refusal(status: int, body: object) -> object:
    from labs.web import Answer

    return Answer(status, body)


@pytest.mark.slow
@pytest.mark.parametrize("body", ODD_TOKENS[:2])
def test_it_is_neither_on_the_terminal_nor_on_record(project: Project, runai_lab: RunaiLab, body: str):
    profile(project, runai_lab)
    project.write("train.py", "")
    runai_lab.fault("POST /token", "says", times=None, body=body.encode())
    told = process(project, "run", "./train.py", "--batch", "dgx")
    assert told.code == 2, told.err
    assert HIDDEN not in told.out + told.err
    written = [path.read_bytes() for path in project.state.rglob("*") if path.is_file()]
    assert not any(HIDDEN.encode() in text for text in written)
    assert runai_lab.calls_of("POST /token")


@pytest.mark.parametrize("spelling", ["clientId", "clientID", "AppId"])
def test_a_token_is_asked_for_as_the_control_plane_spells_it(
    runai_lab: RunaiLab, spelling: str, monkeypatch: pytest.MonkeyPatch
):
    """NeMo-Run's way first, another after a 400; what worked is remembered."""
    monkeypatch.setattr(token_module, "_WORKED", {})
    runai_lab.spelling = spelling
    api_of(runai_lab).projects()
    asked = [next(key for key in call.body if key.endswith(("Id", "ID"))) for call in runai_lab.calls_of("POST /token")]
    order = ["clientId", "clientID", "AppId"]
    assert asked == order[: order.index(spelling) + 1]
    runai_lab.expire_tokens()
    api_of(runai_lab).projects()
    again = runai_lab.calls_of("POST /token")[len(asked) :]
    assert [spelling in call.body for call in again] == [True]


def test_a_wrong_secret_is_not_tried_in_other_words_where_it_was_understood(runai_lab: RunaiLab):
    with pytest.raises(UserError, match="does not accept"):
        connect(handle(runai_lab), {"client_secret": "wr0ng-one"}).projects()
    assert len(runai_lab.calls_of("POST /token")) == 1


@pytest.mark.parametrize("life", [None, "soon", True, -1, 0, float("inf"), 10**30])
def test_a_token_whose_life_is_not_said(runai_lab: RunaiLab, life: object):
    """It is used until it is refused."""
    runai_lab.fault("POST /token", "changed", times=None, change=lambda answer: {**answer, "expiresIn": life})
    for _ in range(3):
        api_of(runai_lab).projects()
    assert len(runai_lab.calls_of("POST /token")) == 1


@pytest.mark.parametrize("skew", [-7200, 7200])
def test_a_token_that_says_its_times_by_another_clock(skew: float):
    """How long it holds is what lies between them."""
    now = [time.time()]
    claims = {"iat": now[0] + skew, "exp": now[0] + skew + 600}
    asked: list[int] = []

    def fetch() -> dict[str, object]:
        asked.append(1)
        return {"accessToken": f"e30.{_encoded(claims)}.x"}

    token = token_module.Token(fetch, lambda: now[0])
    token.value()
    now[0] += 500
    token.value()
    assert len(asked) == 1
    now[0] += 100
    token.value()
    assert len(asked) == 2


def _encoded(claims: dict[str, float]) -> str:
    from base64 import urlsafe_b64encode

    return urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


@pytest.mark.parametrize("status", ["302", "405", "410", "451"])
def test_a_refusal_of_something_between_says_nothing_of_the_credentials(runai_lab: RunaiLab, status: str):
    """It may pass, so that nobody stops waiting for a job by it; nor is anybody to look at good credentials."""
    runai_lab.fault("POST /token", status)
    with pytest.raises(Unreachable) as caught:
        api_of(runai_lab).projects()
    assert "credentials" not in str(caught.value).partition("fix:")[0].replace("may hold credentials", "")
    assert f"HTTP {status}" in str(caught.value)
    assert api_of(runai_lab).projects()


def test_an_api_that_was_there_is_not_gone_by_one_answer(runai_lab: RunaiLab):
    """A 404 where a token was taken before is a gateway's; at first it is a wrong base_url."""
    token_module._TAKEN.clear()
    runai_lab.fault("POST /token", "404", times=2)
    with pytest.raises(UserError, match="there is no run:ai API") as caught:
        api_of(runai_lab).projects()
    assert not caught.value.transient
    runai_lab.quiet_faults()
    api = api_of(runai_lab)
    assert api.projects()
    runai_lab.fault("POST /token", "404")
    api._token.refused(api._token.value())
    with pytest.raises(Unreachable):
        api.projects()
