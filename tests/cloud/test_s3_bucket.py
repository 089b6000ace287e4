"""S3 from the user's machine: packages put once and presigned, and what the keys may do."""

from __future__ import annotations

import urllib.request
from hashlib import sha256

import pytest
from s3_pods import noise

from nemo_runspec.backends.cloud.storage.bucket import Bucket, from_environment
from nemo_runspec.backends.cloud.storage.s3 import Keys
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Unreachable

URL = "s3://bucket/code/x.tar.gz"


@pytest.fixture
def bucket(s3_lab, monkeypatch):
    monkeypatch.setenv("ACCESS_KEY", s3_lab.access_key)
    monkeypatch.setenv("SECRET_KEY", s3_lab.secret_key)
    made = from_environment(s3_lab.endpoint, s3_lab.region, patience=0.2)
    assert made is not None
    return made


def test_a_package_is_put_once_per_digest_and_read_without_keys(bucket, s3_lab, tmp_path):
    content = noise(17_000_000)
    path, digest = tmp_path / "x", sha256(content).hexdigest()
    path.write_bytes(content)
    assert bucket.head(URL) is None
    assert bucket.put(URL, path, digest)
    assert not bucket.put(URL, path, digest)
    assert len(s3_lab.calls_of("POST *")) == 2
    with urllib.request.urlopen(bucket.presign(URL, 60), timeout=60) as answer:
        assert answer.read() == content
    s3_lab.put(URL, b"another's")
    assert bucket.put(URL, path, digest)  # what is there is not this
    assert (bucket.head(URL).size, s3_lab.get(URL)) == (len(content), content)


def test_a_package_is_there_whole_or_not_at_all(bucket, s3_lab, tmp_path):
    path = tmp_path / "x"
    path.write_bytes(noise(17_000_000))
    s3_lab.fault("PUT *", "reset", times=None, after=1)
    with pytest.raises(Unreachable, match="s3://bucket/code/x"):
        bucket.put(URL, path, "0" * 64)
    assert bucket.head(URL) is None and not s3_lab.uploads


def test_what_the_keys_may_do_is_found_out_without_a_trace(bucket, s3_lab):
    s3_lab.put("s3://bucket/data/x", b"12345")
    assert bucket.readable("s3://bucket/data/x") == "5 bytes"
    assert "data/x" in bucket.readable("s3://bucket/data/")
    bucket.writable("s3://bucket/results")
    assert s3_lab.urls() == ["s3://bucket/data/x"] and not s3_lab.uploads
    for url, said in (("s3://bucket/none", "404"), ("s3://bucket/none/", "no objects"), ("gs://x", "no S3 path")):
        with pytest.raises(UserError, match=said) as refused:
            bucket.readable(url)
        assert refused.value.remedy
    s3_lab.fault("*", "403", times=None)
    for ask in (bucket.readable, bucket.writable, bucket.head):
        with pytest.raises(UserError, match="403") as refused:
            ask("s3://bucket/data/x")
        assert "ACCESS_KEY" in str(refused.value) and s3_lab.secret_key not in str(refused.value)
        assert not isinstance(refused.value, Unreachable)


def test_keys_come_from_the_environment_and_the_profile_says_where(s3_lab, monkeypatch):
    for name in ("ACCESS_KEY", "SECRET_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("S3_ENDPOINT_URL", "http://127.0.0.1:9")  # what the plan said counts
    monkeypatch.setenv("CLOUD_REGION", "elsewhere")
    assert from_environment(s3_lab.endpoint, s3_lab.region) is None
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_lab.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_lab.secret_key)
    made = from_environment(s3_lab.endpoint, s3_lab.region)
    assert made is not None
    made.writable("s3://bucket/")
    nobody = Bucket(Keys("a", "b"), "http://127.0.0.1:9", "", patience=0.1)
    with pytest.raises(Unreachable, match="refused"):
        nobody.head(URL)


@pytest.mark.parametrize(("endpoint", "refused"), [("http://store.example", True), ("store.example", False)])
def test_what_opens_things_goes_over_tls_or_stays_on_this_machine(endpoint, refused):
    """A presigned URL and a session's token; the keys themselves are never sent."""
    presign = lambda: Bucket(Keys("key", "hidden-one"), endpoint, "r").presign("s3://b/k", 60)  # noqa: E731
    token = lambda: Bucket(Keys("key", "hidden-one", "t"), endpoint, "r")  # noqa: E731
    for act in (presign, token):
        if not refused:
            act()
            continue
        with pytest.raises(UserError, match=r"s3_endpoint .* is plain HTTP") as caught:
            act()
        assert "hidden-one" not in str(caught.value)
