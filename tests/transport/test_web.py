"""`transport.web` against a server on loopback that breaks in every way a platform does."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from labs.web import Answer, Fault, HttpError, Request, WebLab, route
from waiting import LONG, until

from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable
from nemo_runspec.transport.body import Limits
from nemo_runspec.transport.web import NotKnown, Refused, Web

SHORT = 0.5
"""Seconds for an answer that never comes."""


class Shop(WebLab):
    """Things that can be counted, made and changed."""

    prefix = "/api"

    def __init__(self) -> None:
        super().__init__()
        self.made: list[object] = []

    @route("GET", "/things")
    def things(self, request: Request) -> object:
        return {"made": self.made, "who": request.headers.get("Authorization")}

    @route("POST", "/things")
    def make(self, request: Request) -> object:
        if request.json() == {"wrong": True}:
            raise HttpError(400, "a thing needs a name")
        self.made.append(request.json())
        return Answer(201, {"id": len(self.made)})

    @route("POST", "/moved/{status}")
    @route("GET", "/moved/{status}")
    @route("DELETE", "/moved/{status}")
    def moved(self, request: Request) -> object:
        where = f"{self.origin}/api/things?code=s3cr3t"
        return Answer(int(request.names["status"]), {"message": "moved"}, {"Location": where})

    @route("DELETE", "/things")
    def clear(self, request: Request) -> object:
        self.made.clear()
        return Answer(204)


@pytest.fixture
def shop() -> Iterator[Shop]:
    lab = Shop()
    yield lab
    lab.close()


@pytest.fixture
def waits() -> list[float]:
    """How long the client has waited between its tries: nobody waits here."""
    return []


@pytest.fixture
def web(shop: Shop, waits: list[float]) -> Callable[..., Web]:
    def make(**options) -> Web:
        asked = {"timeout": LONG, "patience": LONG, "sleep": waits.append, **options}
        return Web(f"{shop.origin}/api", "the shop", headers=lambda: {"Authorization": "Bearer t0ken"}, **asked)

    return make


def struck(fault: Fault, times: int) -> None:
    """Waits until so many calls have had it: a client that gives up may do so before the server has seen its call."""
    until(lambda: fault.times == times, "calls that had the fault")


@pytest.mark.parametrize("kind", ["429", "500", "502", "503", "reset", "timeout", "cut"])
def test_what_passes_is_asked_again(shop, web, waits, kind):
    fault = shop.fault("GET /things", kind, times=2)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        struck(fault, 2 - len(waits))
        if fault.times == 0:
            client._timeout = LONG  # what is answered may take its time

    client = web(timeout=SHORT if kind == "timeout" else LONG, sleep=wait)
    assert client.get("/things") == {"made": [], "who": "Bearer t0ken"}
    assert len(shop.calls_of("GET /things")) == 3
    assert len(waits) == 2
    assert waits[0] < waits[1]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
def test_a_refusal_is_final(shop, web, waits, status):
    shop.fault("GET /things", str(status), times=None)
    with pytest.raises(Refused) as caught:
        web().get("/things")
    assert (caught.value.status, len(shop.calls), waits) == (status, 1, [])
    assert not isinstance(caught.value, Unreachable)


def test_the_servers_own_words(shop, web):
    with pytest.raises(Refused, match="a thing needs a name") as caught:
        web().post("/things", {"wrong": True})
    assert "t0ken" not in str(caught.value)
    assert shop.made == []


def test_retry_after(shop, web, waits):
    shop.fault("GET /things", "429", times=1, retry_after=7)
    web().get("/things")
    assert waits == [7.0]


def test_patience_ends(shop, web):
    shop.fault("GET /things", "503", times=None, retry_after=3600)
    with pytest.raises(Unreachable, match="503"):
        web().get("/things")
    assert len(shop.calls) == 1, "nobody waits for an hour"


@pytest.mark.parametrize(
    "kind", ["reset_after", "500_after", "503_after", "timeout_after", "cut", "reset", "500", "503"]
)
def test_what_may_have_been_done_is_not_done_again(shop, web, kind):
    """The client cannot tell `reset` from `reset_after`: both are not known, and asked only once."""
    fault = shop.fault("POST /things", kind, times=1, retry_after=1 if kind == "503" else None)
    with pytest.raises(NotKnown):
        web(timeout=SHORT if kind == "timeout_after" else LONG).post("/things", {"name": "x"})
    struck(fault, 0)
    wanted = [{"name": "x"}] if kind not in ("reset", "500", "503") else []
    until(lambda: shop.made, "what was made", lambda made: made == wanted)
    assert len(shop.calls_of("POST /things")) == 1


@pytest.mark.parametrize(("kind", "repeatable"), [("429", False), ("503", True)])
def test_what_was_not_done_or_may_be_done_twice_is_done_again(shop, web, kind, repeatable):
    shop.fault("POST /things", kind, times=1)
    assert web().post("/things", {"name": "x"}, repeatable=repeatable) == {"id": 1}
    assert shop.made == [{"name": "x"}]


@pytest.mark.parametrize("kind", ["drip", "endless"])
def test_an_answer_that_does_not_end(shop, web, kind):
    """It is given up after a time, or a size, however much of it comes meanwhile; a change may have been made."""
    slow = web(patience=0.1, limits=Limits(0.5, 1 << 22))
    shop.fault("* /things", kind, times=None)
    with pytest.raises(Unreachable, match="its answer does not end"):
        slow.get("/things")
    with pytest.raises(NotKnown, match="its answer does not end"):
        slow.post("/things", {"name": "a"})
    shop.quiet_faults()
    assert slow.get("/things") == {"made": [], "who": "Bearer t0ken"}


def test_an_answer_that_takes_its_time(shop, web):
    """Nothing of it is lost, and its connection is used again."""
    shop.made = [{"name": "x" * 5_000_000}]
    steady = web()
    for _ in range(2):
        assert steady.get("/things")["made"] == shop.made


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_change_never_follows_a_redirect(shop, web, status):
    """A POST would become a GET of what is there, and look like an answer."""
    for change in (
        lambda client: client.post(f"/moved/{status}", {"name": "x"}),
        lambda c: c.delete(f"/moved/{status}"),
    ):
        with pytest.raises(Refused, match=f"{shop.origin}/api/things .HTTP {status}") as caught:
            change(web())
        assert "profile or the environment" in (caught.value.remedy or "")
        assert "s3cr3t" not in str(caught.value), "what a Location carries may be secret"
    assert not shop.calls_of("* /things")
    assert web().get(f"/moved/{status}")["made"] == [], "a question follows it"


def test_nobody_there(closed_port):
    client = Web(f"http://127.0.0.1:{closed_port}/api", "the shop", headers=dict, patience=0.0)
    with pytest.raises(Unreachable) as caught:
        client.post("/things", {"name": "x"})
    assert not isinstance(caught.value, NotKnown), "a connection that was never made has done nothing"
    assert "refused" in str(caught.value).lower()


SIGNED = "/things?X-Amz-Credential=s3cr3t&X-Amz-Signature=s3cr3t"
"""Of a presigned address the parameters are what lets one in."""


def with_login(origin: str) -> str:
    return origin.replace("://", "://me:s3cr3t@")


def asked(base: str, path: str = SIGNED) -> UserError:
    """What is said of it, with a moment's patience: no word of it is secret, and the place is still named."""
    client = Web(with_login(base), "the shop", headers=dict, patience=0.0)
    with pytest.raises(UserError) as caught:
        client.get(path)
    assert "s3cr3t" not in str(caught.value)
    assert caught.value.where == f"{base}{path.partition('?')[0]}"
    return caught.value


@pytest.mark.parametrize("kind", ["503", "403", "garbage", "reset"])
def test_what_a_url_carries_is_not_shown(shop, kind):
    """It is sent all the same."""
    shop.fault("GET /things", kind, times=None)
    asked(f"{shop.origin}/api")
    until(lambda: shop.calls_of("GET /things"), "its call")
    assert [call.params["X-Amz-Signature"] for call in shop.calls_of("GET /things")] == ["s3cr3t"]


def test_what_a_url_carries_is_not_shown_of_a_server_that_is_not_there(closed_port):
    assert "refused" in str(asked(f"http://127.0.0.1:{closed_port}")).lower()


def test_what_a_url_carries_is_not_shown_of_a_certificate(secret_shop):
    assert "not trusted" in str(asked(f"https://127.0.0.1:{secret_shop[0]}"))


@pytest.mark.parametrize("base", ["http://[::1", "foo://shop", "http://shop:99999999", "http://"])
def test_what_a_url_carries_is_not_shown_of_one_that_is_wrong(base):
    """Nor where it has a blank in it."""
    asked(base)
    asked(base, f"{SIGNED} s3cr3t")


def test_a_reply_names_its_url_without_parameters(shop):
    reply = Web(with_login(f"{shop.origin}/api"), "the shop", headers=dict).reply("GET", SIGNED)
    assert reply.url == f"{shop.origin}/api/things"


def test_an_answer_that_is_no_json(shop, web):
    shop.fault("GET /things", "garbage")
    with pytest.raises(UserError, match="no JSON"):
        web().get("/things")


def test_an_empty_answer(shop, web):
    assert web().delete("/things") is None


def test_a_login_of_netrc_is_not_taken(shop, web, tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password other\n", encoding="utf-8")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert web().get("/things")["who"] == "Bearer t0ken"


@pytest.fixture
def secret_shop(tmp_path: Path) -> Iterator[tuple[int, Path, list[bytes]]]:
    """A server with a certificate it has signed itself: its port, the certificate, and the requests it has read."""
    certificate, key = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listening, read = socket.create_server(("127.0.0.1", 0)), []

    def serve() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            with suppress(OSError), context.wrap_socket(plain, server_side=True) as connection:
                read.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listening.getsockname()[1], certificate, read
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    thread.join(LONG)


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    start = datetime(2020, 1, 1, tzinfo=timezone.utc)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    certificate, private = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(pem))
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return certificate, private


def test_a_certificate_nobody_trusts(secret_shop):
    """Nothing is sent to it, no token above all; it is not asked again; REQUESTS_CA_BUNDLE is the way."""
    port, _, read = secret_shop
    client = Web(f"https://127.0.0.1:{port}/api", "the shop", headers=lambda: {"Authorization": "Bearer t0ken"})
    with pytest.raises(UserError, match="not trusted") as caught:
        client.get("/things")
    assert "REQUESTS_CA_BUNDLE" in (caught.value.remedy or "")
    assert (client.calls, read) == (1, [])


def test_a_certificate_of_the_houses_own(secret_shop, monkeypatch):
    port, certificate, read = secret_shop
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    client = Web(f"https://127.0.0.1:{port}/api", "the shop", headers=lambda: {"Authorization": "Bearer t0ken"})
    assert client.get("/things") == {}
    assert b"Bearer t0ken" in read[0]


SECRET = "s3cr3t-of-an-answer"


@pytest.mark.parametrize(
    ("kind", "body"),
    [("says", f'{{"token": "{SECRET}'), ("says", f"<html>{SECRET}</html>"), ("500", ""), ("400", ""), ("429", "")],
)
def test_no_word_of_a_secret_answer_is_shown(shop: Shop, web: Callable[..., Web], kind: str, body: str, monkeypatch):
    """Whatever is wrong with it: a server that refuses may repeat what it was sent."""
    monkeypatch.setattr(shop, "refusal", lambda error: Answer(error.status, {"message": f"no: {SECRET}"}))
    shop.fault("POST /things", kind, times=None, body=body.encode())
    with pytest.raises(UserError) as caught:
        web(patience=0.1).post("/things", {}, secret=True)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(getattr(caught.value, "body", None))


@pytest.mark.parametrize("token", ["t0ken\r\nX: y", "t0ken\n", "t0ke\u2026n"])
def test_a_token_that_cannot_be_sent_is_not_shown(shop: Shop, token: str):
    web = Web(f"{shop.origin}/api", "the shop", headers=lambda: {"Authorization": f"Bearer {token}"}, patience=0.1)
    with pytest.raises(UserError) as caught:
        web.get("/things")
    assert "t0ke" not in str(caught.value)


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_the_time_to_come_again_is_of_the_servers_clock(
    shop: Shop, web: Callable[..., Web], waits: list[float], skew: float, monkeypatch
):
    """A date in Retry-After is as far away as the answer's own date says."""
    shop.skew = skew
    until_then = datetime.fromtimestamp(shop.time() + 7, timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    refusal = type(shop).refusal

    def later(error: HttpError) -> Answer:
        answer = refusal(shop, error)
        answer.headers["Retry-After"] = until_then
        return answer

    monkeypatch.setattr(shop, "refusal", later)
    shop.fault("GET /things", "429")
    web().get("/things")
    assert 1 <= waits[0] <= 8
