"""Redaction: known values in every form in which they leak, and what a text itself calls a secret."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support import REPOSITORY

from nemo_runspec.redact import HIDDEN, LineFilter, Redactor, argv_redactor, is_weak, mask, redact_argv

SCRIPTS = REPOSITORY / "src" / "nemo_runspec"
ALPHABET = st.characters(codec="utf-8", exclude_characters="*\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
SECRET = st.text(ALPHABET, min_size=6, max_size=30).filter(lambda text: not is_weak(text))
SECRETS = st.lists(SECRET, min_size=1, max_size=4)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=60)


def encode_uri_component(text: str) -> str:
    return quote(text, safe="!'()*~")


FORMS = {
    "as it is": str,
    "url": lambda text: quote(text, safe=""),
    "url path": quote,
    "url form": quote_plus,
    "url of a browser": encode_uri_component,
    "url in lower case": lambda text: re.sub(r"%..", lambda match: match[0].lower(), quote(text, safe="")),
    "json": lambda text: json.dumps(text)[1:-1],
    "json in utf-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "json of json": lambda text: json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False)[3:-3],
    "repr": lambda text: repr(text)[1:-1],
    "repr in a list": lambda text: repr([text + "'"])[2:-3],
    "repr with both quotes": lambda text: repr("'\"" + text)[4:-1],
    "repr of bytes": lambda text: repr(text.encode())[2:-1],
    "repr of bytes with both quotes": lambda text: repr(b"'\"" + text.encode())[5:-1],
    "set -x": lambda text: shlex.quote(f" {text}")[2:-1],
    "html": html.escape,
    "hex": lambda text: text.encode().hex(),
    "hex in capitals": lambda text: text.encode().hex().upper(),
}


@given(SECRETS, st.lists(TEXT, min_size=2, max_size=6))
def test_no_secret_stays_in_a_text(secrets, parts):
    text = "".join(part + secrets[n % len(secrets)] for n, part in enumerate(parts))
    clean = Redactor(secrets).redact(text)
    assert not any(secret in clean for secret in secrets)


@pytest.mark.parametrize("form", list(FORMS))
@settings(max_examples=30)
@given(SECRET)
@example("ab\"c'd \\/9+x=Zw")
@example("p\u00e4 5\U0001f600w\x07d'\\'")
def test_every_form_is_hidden(form, secret):
    written = FORMS[form](secret)
    for shown in (
        Redactor([secret]).redact(f"<{written}>"),
        LineFilter([secret]).feed(f"<{written}>\n".encode()).decode(),
    ):
        assert HIDDEN in shown
        assert written not in shown


BASE64 = {"standard": base64.b64encode, "for URLs": base64.urlsafe_b64encode}


@pytest.mark.parametrize("alphabet", list(BASE64))
@given(SECRET, st.binary(max_size=7), st.binary(max_size=7))
def test_base64_is_hidden_wherever_the_secret_begins(alphabet, secret, before, after):
    """`user:password` and a header's JSON are encoded whole: what decodes to the secret is not there any more."""
    written = BASE64[alphabet](before + secret.encode() + after)
    shown = LineFilter([secret]).feed(b"Basic " + written + b"\n")
    assert HIDDEN.encode() in shown
    for run in re.findall(rb"[A-Za-z0-9+/_-]+", shown):
        plain = run.translate(bytes.maketrans(b"-_", b"+/"))
        for start in range(4):
            part = plain[start:]
            assert secret.encode() not in base64.b64decode(part[: len(part) // 4 * 4])


@pytest.mark.parametrize("form", [*FORMS, *BASE64])
@settings(max_examples=20)
@given(SECRET, st.lists(st.integers(0, 200), max_size=8), st.integers(0, 3))
def test_a_form_cut_anywhere_is_hidden(form, secret, cuts, before):
    """A stream gives the same however it is cut."""
    make = FORMS.get(form) or (lambda text: BASE64[form](b"\0" * before + text.encode() + b"x").decode())
    whole = f"a {make(secret)} b\nnext {make(secret)}".encode()
    expected = Redactor([secret]).redact_bytes(whole)
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    line_filter = LineFilter([secret])
    assert b"".join([*(line_filter.feed(whole[a:b]) for a, b in pairwise(places)), line_filter.close()]) == expected
    assert expected.count(HIDDEN.encode()) >= 2


@given(st.lists(st.text("abc ", max_size=20), max_size=5))
def test_what_holds_no_secret_is_unchanged(lines):
    text = "\n".join(lines)
    assert Redactor(["s3cret", "a", ""]).redact(text) == text


@given(SECRETS, st.lists(TEXT, min_size=2, max_size=5), st.lists(st.integers(0, 400), max_size=8))
def test_a_stream_cut_anywhere_is_redacted_like_a_whole(secrets, parts, cuts):
    whole = "".join(part + secrets[n % len(secrets)] for n, part in enumerate(parts)).encode()
    places = sorted({min(cut, len(whole)) for cut in cuts} | {0, len(whole)})
    line_filter = LineFilter(secrets)
    shown = [line_filter.feed(whole[a:b]) for a, b in pairwise(places)]
    assert all(piece.endswith(b"\n") or not piece for piece in shown)
    out = b"".join([*shown, line_filter.close()])
    assert not any(secret.encode() in out for secret in secrets)
    assert out.count(b"\n") == whole.count(b"\n")


@given(st.binary(max_size=200), st.integers(1, 50))
def test_a_stream_without_secrets_keeps_every_byte(data, step):
    line_filter = LineFilter(["s3cret-value"])
    out = b"".join(line_filter.feed(data[n : n + step]) for n in range(0, len(data), step)) + line_filter.close()
    assert out == data


@given(st.binary(min_size=6, max_size=40), st.binary(max_size=60))
def test_values_that_are_no_text_are_hidden_too(value, around):
    """A variable of the environment may hold any bytes."""
    secret = value.replace(b"\n", b"").replace(b"*", b"").decode("utf-8", "surrogateescape")
    if not is_weak(secret):
        raw = secret.encode("utf-8", "surrogateescape")
        assert raw not in Redactor([secret]).redact_bytes(around + raw + around)


def test_a_line_without_an_end_is_not_kept_for_ever(monkeypatch):
    monkeypatch.setattr(LineFilter, "LONGEST", 100)
    line_filter = LineFilter(["s3cret-value"])
    out = b"".join(line_filter.feed(b"xs3cret-value"[n % 13 : n % 13 + 1]) for n in range(13 * 100))
    assert len(out) > 300
    assert b"s3cret-value" not in out + line_filter.close()


def test_a_secret_of_several_lines_is_hidden_line_by_line():
    key = "-----BEGIN KEY-----\nabcdef\nghijkl\n-----END KEY-----"
    line_filter = LineFilter([key])
    out = b"".join(line_filter.feed(line.encode() + b"\n") for line in key.splitlines())
    assert out == f"{HIDDEN}\n".encode() * 4


@pytest.mark.parametrize("value", ["a", "12345", "training", "Password", "0000000", "1234567", "------------", " x "])
def test_a_weak_secret_does_not_turn_a_log_into_stars(value):
    assert is_weak(value)
    text = f"training 1234567 steps, 12345 a second: {value}"
    assert Redactor([value]).redact(text) == text


@pytest.mark.parametrize("value", ["hunter22", "k3y-abc", "correct horse", "12345678", "hf_abc"])
def test_others_are_hidden(value):
    assert not is_weak(value)
    assert Redactor([value]).redact(f"<{value}>") == f"<{HIDDEN}>"


def test_argv():
    argv = ["nemotron", "run.env.env_vars.HF_TOKEN=hf_abc", "--api-key", "k3y", "++app_secret=x", "train.max_tokens=5"]
    assert redact_argv([*argv, "path=/x/hf_abc", "v=known-value"], ["known-value"]) == [
        "nemotron", f"run.env.env_vars.HF_TOKEN={HIDDEN}", "--api-key", HIDDEN, f"++app_secret={HIDDEN}",
        "train.max_tokens=5", f"path=/x/{HIDDEN}", f"v={HIDDEN}",
    ]  # fmt: skip
    assert argv_redactor(argv).redact("bad value 'hf_abc'") == f"bad value '{HIDDEN}'"


def test_argv_with_other_ways_to_give_a_secret():
    url = "data.url=https://b.s3/x?X-Amz-Expires=9&X-Amz-Signature=5a5b5c"
    words = [
        "--token",
        "abc",
        "--token=abc",
        "run.env={env_vars:{MY_TOKEN:abcd}}",
        url,
        "--use-auth-token",
        "--seed",
        "3",
    ]
    assert redact_argv(words) == [
        "--token", HIDDEN, f"--token={HIDDEN}", f"run.env={{env_vars:{{MY_TOKEN:{HIDDEN}}}}}",
        f"data.url=https://b.s3/x?X-Amz-Expires=9&X-Amz-Signature={HIDDEN}", "--use-auth-token", "--seed", "3",
    ]  # fmt: skip


MASKED = [
    ("postgres://me:pa55w0rd@db/x", "postgres://me:{}@db/x"),
    ("postgres://me:p@ss:w0rd@db/x", "postgres://me:{}@db/x"),
    ("git clone https://ghp_0123456789abcdefghij0@github.com/x", "git clone https://{}@github.com/x"),
    ("redis://:pw@host:6379", "redis://:{}@host:6379"),
    ("login --token abc -y", "login --token {} -y"),
    ("run --api-key=abcdef y", "run --api-key={} y"),
    ("curl -H 'Authorization: Bearer abcdefghij'", "curl -H 'Authorization: Bearer {}'"),
    ("curl -H 'Authorization: Basic dXNlcjpwdw=='", "curl -H 'Authorization: Basic {}'"),
    ("https://b.s3/x?X-Amz-Signature=deadbeef&x=1", "https://b.s3/x?X-Amz-Signature={}&x=1"),
    ("get --url=https://b.s3/x?X-Amz-Signature=deadbeef", "get --url=https://b.s3/x?X-Amz-Signature={}"),
    ("https://acc.blob/x?sv=2&sig=abc%2Bd", "https://acc.blob/x?sv=2&sig={}"),
    ("export MY_PASSWORD='a b c'; x", "export MY_PASSWORD='{}'; x"),
    ('"startup_commands": ["export A_TOKEN=\\"abc\\" && x"]', '"startup_commands": ["export A_TOKEN=\\"{}\\" && x"]'),
]


@pytest.mark.parametrize(("text", "shown"), MASKED)
def test_what_a_text_calls_a_secret_is_masked(text, shown):
    assert mask(text) == shown.format(HIDDEN)
    assert mask(mask(text)) == mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "ssh://git@github.com/x", "http://host:80/x@y", "git@github.com:x/y", "--max-tokens 5 --tokenizer x",
        "login --token $HF_TOKEN", 'login --token "$HF_TOKEN"', "WANDB_API_KEY=${WANDB_API_KEY}", "eos_token=</s>",
        "https://u:$PW@host", "use_auth_token=true", "--use-auth-token --seed 3", "HF_TOKEN = (secret)",
        'secret_vars = {"HF_TOKEN": "my-credential/token"}', "tokens_per_second=12", "key=value", "sig=x",
        'secrets = ["HF_TOKEN"]', "export HF_TOKEN=…",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays_as_it_is(text):
    assert mask(text) == text


@pytest.mark.parametrize("script", sorted(SCRIPTS.rglob("*.sh")), ids=lambda path: path.name)
def test_our_own_scripts_are_shown_as_they_are_sent(script):
    """A dry run shows all of them: nothing of ours may look like a secret."""
    text = script.read_text(encoding="utf-8")
    assert mask(text) == text
