"""The web server that the labs are made of: routes, records, and faults on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests
from labs.web import Answer, HttpError, Request, WebLab, route


class Shop(WebLab):
    """Counts what it was asked to make."""

    prefix = "/api"
    made = 0

    @route("GET", "/things/{name}")
    def thing(self, request: Request) -> Any:
        if request.names["name"] == "broken":
            raise RuntimeError("a defect of the lab")
        return {"name": request.names["name"], "params": request.params}

    @route("POST", "/{kind:things|others}")
    def make(self, request: Request) -> Any:
        self.made += 1
        return Answer(201, request.json())

    @route("GET", "/files/{path:path}")
    def file(self, request: Request) -> Any:
        return Answer(200, iter([b"one\n", b"", b"two\n"]))

    def admit(self, request: Request) -> None:
        if request.headers.get("authorization") != "Bearer good":
            raise HttpError(401, "who are you")


@pytest.fixture
def shop() -> Iterator[Shop]:
    made = Shop()
    yield made
    made.close()


@pytest.fixture
def call(shop: Shop) -> Callable[..., requests.Response]:
    session = requests.Session()
    session.headers["Authorization"] = "Bearer good"
    return lambda method, path, **more: session.request(method, f"{shop.origin}/api{path}", timeout=120, **more)


def test_it_routes_and_records(shop: Shop, call: Callable[..., requests.Response]) -> None:
    assert call("GET", "/things/a%20b", params={"q": "é"}).json() == {"name": "a b", "params": {"q": "é"}}
    assert call("GET", "/files/a/b/c").content == b"one\ntwo\n"
    assert call("POST", "/others", json={"x": 1}).json() == {"x": 1}
    assert call("POST", "/others", data="x").status_code == 415
    shop.tidy()
    assert call("POST", "/another").status_code == 404
    assert call("DELETE", "/things/x").headers["Allow"] == "GET"
    assert call("GET", "/things/x", headers={"Authorization": "Bearer bad"}).status_code == 401
    assert [stray.status for stray in shop.strays] == [404, 405]
    assert [(made.body, made.status) for made in shop.calls_of("POST /others")] == [({"x": 1}, 201), (b"x", 415)]
    assert call("GET", "/things/broken").status_code == 500
    with pytest.raises(AssertionError, match="a defect of the lab"):
        shop.tidy()
    shop.reset()
    shop.tidy()


BROKEN = requests.exceptions.RequestException
FAULTS: dict[str, tuple[int | type[Exception], int]] = {
    "500": (500, 0),
    "429": (429, 0),
    "403": (403, 0),
    "503_after": (503, 1),
    "reset": (BROKEN, 0),
    "reset_after": (BROKEN, 1),
    "timeout": (BROKEN, 0),
    "timeout_after": (BROKEN, 1),
    "slow": (201, 1),
    "garbage": (200, 0),
    "cut": (BROKEN, 1),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_it_fails_as_it_is_told(shop: Shop, call: Callable[..., requests.Response], kind: str) -> None:
    outcome, made = FAULTS[kind]
    shop.fault("POST /thi*", kind, after=1, seconds=0.2, retry_after=3)
    assert call("POST", "/things", json={}).status_code == 201
    assert call("POST", "/others", json={}).status_code == 201
    if isinstance(outcome, int):
        answer = call("POST", "/things", json={})
        assert answer.status_code == outcome
        assert (answer.headers.get("Retry-After") == "3") == (outcome in (403, 429, 500, 503))
    else:
        with pytest.raises(outcome):
            call("POST", "/things", json={})
    assert shop.made == 2 + made
    assert call("POST", "/things", json={}).status_code == 201
