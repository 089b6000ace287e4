"""Redaction by exact value and exact name."""

from __future__ import annotations

import json
from itertools import pairwise
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.redact import HIDDEN, SECRET_NAMES, LineFilter, Redactor, argv_redactor, is_secret_name, redact_argv

ALPHABET = st.characters(codec="utf-8", exclude_characters="*\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
SECRETS = st.lists(st.text(ALPHABET, min_size=4, max_size=30), min_size=1, max_size=4)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="*"), max_size=60)


@given(SECRETS, st.lists(TEXT, min_size=2, max_size=6))
def test_no_secret_stays_in_a_text(secrets, parts):
    text = "".join(part + secrets[n % len(secrets)] for n, part in enumerate(parts))
    clean = Redactor(secrets).redact(text)
    assert not any(secret in clean for secret in secrets)


@given(st.text(ALPHABET, min_size=4, max_size=30))
def test_written_forms_are_hidden(secret):
    redactor = Redactor([secret])
    for form in (quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        assert form not in redactor.redact(f"<{form}>")


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


@pytest.mark.parametrize("name", ["HF_TOKEN", "hf_token", "WANDB_API_KEY", "client-secret", "password"])
def test_secret_names(name):
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["tokenizer", "max_tokens", "calculate_per_token_loss", "token", "key", "secrets", "tokens_per_second", ""]
)
def test_names_that_only_hold_such_a_word_stay_readable(name):
    assert not is_secret_name(name)


def test_the_list_is_written_as_it_is_compared():
    assert all(name == name.lower().replace("-", "_") for name in SECRET_NAMES)


def test_argv():
    argv = ["nemotron", "run.env.env_vars.HF_TOKEN=hf_abc", "--api-key", "k3y", "++app_secret=x", "train.max_tokens=5"]
    assert redact_argv([*argv, "path=/x/hf_abc", "v=known-value"], ["known-value"]) == [
        "nemotron", f"run.env.env_vars.HF_TOKEN={HIDDEN}", "--api-key", HIDDEN, f"++app_secret={HIDDEN}",
        "train.max_tokens=5", f"path=/x/{HIDDEN}", f"v={HIDDEN}",
    ]  # fmt: skip
    assert argv_redactor(argv).redact("bad value 'hf_abc'") == f"bad value '{HIDDEN}'"
