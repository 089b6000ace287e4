"""The server against Amazon's published examples, so that it and the client cannot share a mistake."""

from __future__ import annotations

import urllib.error
import urllib.request
from datetime import datetime, timedelta, timezone
from hashlib import sha256

import pytest
from labs.s3.auth import Account, sign, verify
from labs.web import HttpError
from s3_pods import client

from nemo_runspec.backends.cloud.storage.s3 import S3, Keys
from nemo_runspec.backends.cloud.storage.s3_signing import Request, authorised, quoted

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
STAMP, HOST = "20130524T000000Z", "examplebucket.s3.amazonaws.com"
THEN = datetime(2013, 5, 24, tzinfo=timezone.utc)
EMPTY = sha256(b"").hexdigest()
PRESIGNED = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"

# Amazon S3 API Reference, "Signature Calculations for the Authorization Header: Transferring Payload in a Single
# Chunk", examples: GET Object, PUT Object, GET Bucket Lifecycle, GET Bucket (List Objects).
EXAMPLES = [
    (
        Request("GET", "/test.txt", [], {"host": HOST, "range": "bytes=0-9"}, EMPTY),
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    ),
    (
        Request(
            "PUT",
            "/" + quoted("test$file.text"),
            [],
            {"host": HOST, "date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
            sha256(b"Welcome to Amazon S3.").hexdigest(),
        ),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    ),
    (
        Request("GET", "/", [("lifecycle", "")], {"host": HOST}, EMPTY),
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    ),
    (
        Request("GET", "/", [("prefix", "J"), ("max-keys", "2")], {"host": HOST}, EMPTY),
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    ),
]
BODIES = {"PUT": b"Welcome to Amazon S3."}


@pytest.mark.parametrize(("request_", "expected"), EXAMPLES, ids=["get", "put", "lifecycle", "list"])
def test_client_and_server_sign_as_amazons_examples(request_, expected):
    headers = authorised(Keys(KEY, SECRET), "us-east-1", STAMP, request_)
    assert headers["authorization"].endswith(f",Signature={expected}")
    query = [(name.encode(), value.encode()) for name, value in request_.query]
    names = sorted(name for name in headers if name != "authorization")
    scope = ["20130524", "us-east-1", "s3", "aws4_request"]
    signed = sign(SECRET, scope, STAMP, request_.method, request_.path, query, names, headers, request_.digest)
    assert signed == expected
    target = request_.path + ("?" + "&".join(f"{n}={v}" for n, v in request_.query) if request_.query else "")
    account, body = Account(KEY, SECRET, "us-east-1", THEN), BODIES.get(request_.method, b"")
    verify(account, request_.method, target, headers, body)
    for broken in ({**headers, "host": "other.s3.amazonaws.com"}, {**headers, "x-amz-acl": "public-read"}):
        with pytest.raises(HttpError):
            verify(account, request_.method, target, broken, body)
    with pytest.raises(HttpError, match="XAmzContentSHA256Mismatch"):
        verify(account, request_.method, target, headers, body + b"!")


def test_client_and_server_presign_as_amazons_example():
    """The example of "Authenticating Requests: Using Query Parameters"."""
    s3 = S3(Keys(KEY, SECRET), "https://s3.amazonaws.com")
    url = s3.presign("GET", "examplebucket", "test.txt", 86400, now=THEN.timestamp())
    assert url.startswith(f"https://{HOST}/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAIOSFODNN7")
    assert url.endswith(f"&X-Amz-Signature={PRESIGNED}")
    target = url.removeprefix(f"https://{HOST}")
    for hours, passes in ((0, True), (23, True), (25, False)):
        account = Account(KEY, SECRET, "us-east-1", THEN + timedelta(hours=hours))
        if passes:
            verify(account, "GET", target, {"Host": HOST}, b"")
            continue
        with pytest.raises(HttpError, match="expired"):
            verify(account, "GET", target, {"Host": HOST}, b"")
    with pytest.raises(HttpError, match="SignatureDoesNotMatch"):
        verify(Account(KEY, SECRET, "us-east-1", THEN), "PUT", target, {"Host": HOST}, b"")


@pytest.mark.parametrize(
    ("endpoint", "bucket", "url"),
    [
        ("", "data", "https://data.s3.eu-west-1.amazonaws.com/a%20b"),
        ("", "my.data", "https://s3.eu-west-1.amazonaws.com/my.data/a%20b"),
        ("https://s3.amazonaws.com", "data", "https://data.s3.amazonaws.com/a%20b"),
        ("minio.example:9000", "data", "https://minio.example:9000/data/a%20b"),
        ("http://store.example/s3/", "data", "http://store.example/s3/data/a%20b"),
        ("https://amazonaws.com.example", "data", "https://amazonaws.com.example/data/a%20b"),
    ],
)
def test_a_bucket_is_in_the_hosts_name_at_amazon_and_in_the_path_elsewhere(endpoint, bucket, url):
    made = S3(Keys(KEY, SECRET), endpoint, "eu-west-1").presign("GET", bucket, "a b", 60)
    assert made.partition("?")[0] == url
    assert SECRET not in made


@pytest.mark.parametrize("key", ["plain", "a b/ü+%20%/~!*'()&=?#:@,;$"])
def test_presigned_urls_read_and_write_until_they_expire(s3_lab, key):
    s3 = client(s3_lab)
    url = s3.presign("PUT", "bucket", key, 600)
    with urllib.request.urlopen(urllib.request.Request(url, b"content", method="PUT"), timeout=120) as answer:
        assert answer.status == 200
    assert s3_lab.urls() == [f"s3://bucket/{key}"]
    read = s3.presign("GET", "bucket", key, 600)
    with urllib.request.urlopen(read, timeout=120) as answer:
        assert answer.read() == b"content"
    for ahead, wanted in ((0, url), (601, read)):  # a URL for writing does not read; one that has expired neither
        s3_lab.ahead = timedelta(seconds=ahead)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(wanted, timeout=120)
        assert refused.value.code == 403
        assert (b"expired" in refused.value.read()) == (ahead > 0)
