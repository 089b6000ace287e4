"""The S3 client against the server: what is written is what is read, and what goes wrong is told without a key."""

from __future__ import annotations

import hashlib
import io
import time
from datetime import timedelta

import pytest
from labs.s3 import S3Lab
from s3_pods import client, noise, self_signed

from nemo_runspec.backends.cloud.storage import s3_wire
from nemo_runspec.backends.cloud.storage.s3 import PART, S3, Keys, S3Error, part_size, split

WEIRD = ["a b+c", "ü/ß €", "100%", "%41", "a+b=c&d?e#f", "~-_.!*'()", ".hidden/..x", "tab\tin"]


@pytest.fixture
def hasty(monkeypatch):
    """Shorter pauses between tries."""
    monkeypatch.setattr(s3_wire, "_FIRST", 0.02)


def uploaded(s3, lab, path, content, key="x"):
    path.write_bytes(content)
    with path.open("rb") as file:
        return s3.upload("bucket", key, file, {"sha256": hashlib.sha256(content).hexdigest()})


def downloaded(s3, key="x"):
    file = io.BytesIO()
    s3.download("bucket", s3.head("bucket", key), file)
    return file.getvalue()


@pytest.mark.slow
def test_fifty_megabytes_go_there_and_back_in_parts(s3_lab, tmp_path):
    s3, content = client(s3_lab), noise(50_000_000)
    assert uploaded(s3, s3_lab, tmp_path / "x", content) == len(content)
    assert s3_lab.get("s3://bucket/x") == content
    found = s3.head("bucket", "x")
    assert (found.size, found.etag[-2:]) == (len(content), "-3")
    assert found.metadata["sha256"] == hashlib.sha256(content).hexdigest()
    assert downloaded(s3) == content
    assert not s3_lab.uploads
    assert part_size(5 * 10**12) * 10_000 > 5 * 10**12 and part_size(0) == PART


def test_parts_that_overtake_each_other_are_put_in_order(s3_lab, tmp_path):
    content = noise(50_000_000)
    (tmp_path / "x").write_bytes(content)
    s3_lab.fault("PUT /bucket/x", "slow", seconds=0.5)
    with (tmp_path / "x").open("rb") as file:
        assert client(s3_lab).upload("bucket", "x", file, at_once=2) == len(content)
    assert s3_lab.get("s3://bucket/x") == content


def test_keys_of_any_kind_are_written_listed_and_read(s3_lab):
    s3 = client(s3_lab)
    s3_lab.page = 3
    for key in WEIRD:
        s3.put("bucket", "in/" + key, key.encode())
    s3.put("bucket", "other", b"")
    found = {each.key: each for each in s3.listing("bucket", "in/")}
    assert set(found) == {"in/" + key for key in WEIRD}
    assert len(s3_lab.calls_of("GET /bucket/")) == 3
    for key in WEIRD:
        at = "in/" + key
        assert downloaded(s3, at) == key.encode()
        assert found[at] == s3.head("bucket", at)
    assert len(s3_lab.urls()) == len(WEIRD) + 1


@pytest.mark.parametrize("kind", ["500", "503", "429", "reset"])
def test_what_may_pass_is_tried_again(hasty, s3_lab, kind):
    s3 = client(s3_lab)
    s3_lab.put("s3://bucket/x", b"content")
    s3_lab.fault("GET /bucket/x", kind, times=2)
    s3_lab.fault("PUT /bucket/y", kind, times=2, retry_after=0)
    assert downloaded(s3) == b"content"
    s3.put("bucket", "y", b"content")
    assert s3_lab.get("s3://bucket/y") == b"content"


def test_a_download_goes_on_where_it_was_cut(hasty, s3_lab):
    content = noise(24_000_000)
    s3_lab.put("s3://bucket/x", content)
    s3_lab.fault("GET /bucket/x", "cut", times=2)
    assert downloaded(client(s3_lab)) == content
    _, second, third = (call.headers.get("range", "bytes=0-") for call in s3_lab.calls_of("GET /bucket/x"))
    assert 0 < int(second[6:-1]) < int(third[6:-1]) < len(content)


def test_patience_is_for_what_makes_no_progress(s3_lab):
    content = noise(40_000_000)
    s3_lab.put("s3://bucket/x", content)
    s3_lab.fault("GET /bucket/x", "cut", times=4)  # whose pauses are longer together, if each is twice the last
    assert downloaded(client(s3_lab, patience=4)) == content


@pytest.mark.parametrize("fault", ["reset_after", "late", "500_after", "part"])
def test_a_large_upload_survives_failures_at_its_end(hasty, s3_lab, tmp_path, fault):
    content = noise(PART + 10)
    if fault == "late":
        s3_lab.late_errors = 2
    elif fault == "part":
        s3_lab.fault("PUT /bucket/x", "reset", after=1)
    else:
        s3_lab.fault("POST /bucket/x", fault, after=1)  # done, and nobody knows
    assert uploaded(client(s3_lab), s3_lab, tmp_path / "x", content) == len(content)
    assert s3_lab.get("s3://bucket/x") == content
    assert not s3_lab.uploads


def test_a_large_upload_that_fails_leaves_nothing(s3_lab, tmp_path):
    s3_lab.put("s3://bucket/x", b"before")
    s3_lab.fault("PUT /bucket/x", "403", after=1)
    with pytest.raises(S3Error, match="s3://bucket/x cannot be written"):
        uploaded(client(s3_lab), s3_lab, tmp_path / "x", noise(PART + 1))
    assert s3_lab.get("s3://bucket/x") == b"before"
    assert not s3_lab.uploads


def test_an_object_that_changes_under_a_download_is_not_mixed(s3_lab):
    s3 = client(s3_lab)
    s3_lab.put("s3://bucket/x", b"a" * 1000)
    found = s3.head("bucket", "x")
    s3_lab.put("s3://bucket/x", b"b" * 1000)
    with pytest.raises(S3Error, match="changed") as refused:
        s3.download("bucket", found, io.BytesIO())
    assert refused.value.status == 412


def wrong(lab, **changed):
    return S3(
        Keys(changed.get("access", lab.access_key), changed.get("secret", lab.secret_key)),
        changed.get("endpoint", lab.endpoint),
        changed.get("region", lab.region),
        patience=0.1,
    )


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"access": "AKIANOTTHERE"}, "InvalidAccessKeyId, HTTP 403.*ACCESS_KEY"),
        ({"secret": "not-the-secret"}, "SignatureDoesNotMatch, HTTP 403.*SECRET_KEY"),
        ({"region": "us-east-1"}, "AuthorizationHeaderMalformed, HTTP 400.*region"),
        ({"endpoint": "http://127.0.0.1:9"}, "refused.*check the endpoint http://127.0.0.1:9"),
    ],
)
def test_errors_say_what_to_check_and_never_a_key(s3_lab, changed, said):
    s3 = wrong(s3_lab, **changed)
    with pytest.raises(S3Error, match=f"^s3://bucket/secret/x.*{said}") as refused:
        s3.put("bucket", "secret/x", b"")
    text = str(refused.value)
    assert "\n" not in text
    assert not [key for key in (s3_lab.access_key, s3_lab.secret_key, "AKIANOTTHERE", "not-the-secret") if key in text]
    assert refused.value.passing == ("endpoint" in changed)


@pytest.mark.slow
@pytest.mark.parametrize("status", ["403", "404", "400", "301", "500"])
def test_only_what_may_pass_is_asked_for_again(hasty, s3_lab, status):
    s3_lab.put("s3://bucket/x", b"")
    s3_lab.fault("*", status, times=None)
    with pytest.raises(S3Error, match="s3://bucket/x cannot be read .*HTTP " + status) as refused:
        client(s3_lab, patience=5).head("bucket", "x")
    assert refused.value.passing == (len(s3_lab.calls) > 1) == (status == "500")


def test_buckets_and_clocks(s3_lab):
    s3 = client(s3_lab, patience=0.1)
    with pytest.raises(S3Error, match=r"NoSuchBucket.*no such bucket"):
        list(s3.listing("nowhere", ""))
    with pytest.raises(S3Error, match=r"s3://bucket/x cannot be read .HTTP 404.: there is no such object"):
        s3.head("bucket", "x")
    for url in ("bucket/x", "s3:/bucket", "s3://", "gs://bucket/x"):
        with pytest.raises(S3Error, match="is no S3 path"):
            split(url)


@pytest.mark.parametrize("hours", [-2, 2])
def test_a_service_with_a_clock_of_its_own(s3_lab, hours):
    """What is signed is signed by that clock, once a refusal has told it; presigned URLs hold by it, too."""
    from urllib.request import urlopen

    s3_lab.ahead = timedelta(hours=hours)
    s3 = client(s3_lab, patience=0.1)
    s3.put("bucket", "x", b"content")
    assert s3.head("bucket", "x").size == 7
    assert len([call for call in s3_lab.calls if call.status == 403]) == 1, "it is told once"
    with urlopen(s3.presign("GET", "bucket", "x", 60), timeout=60) as answer:
        assert answer.read() == b"content"


def test_a_clock_that_is_never_told(s3_lab, monkeypatch):
    s3_lab.ahead = timedelta(hours=2)
    monkeypatch.setattr(type(s3_lab), "time", lambda self: time.time())
    with pytest.raises(S3Error, match="check the clock"):
        client(s3_lab, patience=0.1).put("bucket", "x", b"")


def test_a_proxy_is_heeded(s3_lab, monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, s3_lab.endpoint.replace("//", "//me:pa%20ss@"))
    s3 = S3(Keys(s3_lab.access_key, s3_lab.secret_key), "http://store.invalid", s3_lab.region)
    monkeypatch.setenv("no_proxy", "other.invalid")
    s3.put("bucket", "x", b"through")
    [call] = s3_lab.calls
    assert call.target == "http://store.invalid/bucket/x"
    assert call.headers["Proxy-Authorization"] == "Basic bWU6cGEgc3M="
    monkeypatch.setenv("no_proxy", "store.invalid")
    with pytest.raises(S3Error, match="check the endpoint http"):
        S3(Keys("a", "b"), "http://store.invalid", patience=0.1).head("bucket", "x")


def test_tls_is_verified(tmp_path, monkeypatch):
    certificate, context = self_signed(tmp_path)
    lab = S3Lab(tmp_path)
    client(lab).put("bucket", "plain", b"")  # its thread waits at the socket by now, and does not look for it any more
    lab.calls.clear()
    lab._server.socket = context.wrap_socket(lab._server.socket, server_side=True)
    endpoint = lab.endpoint.replace("http:", "https:")
    try:
        s3 = S3(Keys(lab.access_key, lab.secret_key), endpoint, lab.region)
        with pytest.raises(S3Error, match=f"certificate of {endpoint} is not trusted") as refused:
            s3.put("bucket", "x", b"")
        assert not refused.value.passing and not lab.calls
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificate))
        s3.put("bucket", "x", b"trusted")
        assert lab.get("s3://bucket/x") == b"trusted"
    finally:
        lab.close()
