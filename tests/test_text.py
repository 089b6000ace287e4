"""Text for people, cut and counted in one way."""

from __future__ import annotations

from datetime import datetime, timedelta

from nemo_runspec.digests import digest_of_text, short_digest
from nemo_runspec.text import keep_end, shorten, size
from nemotron.cli.text import short_moment


def test_a_text_is_cut_at_either_end():
    assert (shorten("abcdef", 4), keep_end("abcdef", 4)) == ("abc…", "…def")
    assert (shorten("abcd", 4), keep_end("abcd", 4), keep_end("abcd", 1)) == ("abcd", "abcd", "…")


def test_sizes_are_in_decimal_units():
    assert [size(count) for count in (812, 23_100, 1_250_000_000)] == ["812 B", "23.1 kB", "1.2 GB"]


def test_a_moment_is_told_by_what_is_far_from_now():
    now = datetime.now().astimezone()
    assert short_moment(now) == now.strftime("%H:%M")
    assert short_moment(now - timedelta(days=800)) == (now - timedelta(days=800)).strftime("%b %Y")


def test_a_short_digest_is_the_beginning_of_the_digest():
    assert short_digest("name") == digest_of_text("name")[:8]
