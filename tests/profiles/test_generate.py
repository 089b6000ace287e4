"""The text of an env file out of sections, and the comments of a YAML file."""

from __future__ import annotations

import sys

import yaml
from hypothesis import given
from hypothesis import strategies as st

from nemo_runspec.profiles.generate import env_text
from nemo_runspec.profiles.yaml_comments import Comment, Comments, read_comments

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

YAML = """\
# What it is.
# Its second line.

base:  # beside a table
  # above a key
  account: "a # b"  # beside a value
  mounts:
    # above an item
    - "/a:/a"  # beside an item
    - {path: /x}
  # two lines,
  #
  # one of them empty
  time: 1
  # commented_out = "key"

  # also below

# --- a headline

# above a table
other: {extends: base}  # beside a short one
table:
  inner:
    # above the inner key
    key: 1
    # below the inner key
# the end
"""

TOML = """\
#:schema ./env.schema.json
# What it is.
# Its second line.

[base]  # beside a table
# above a key
account = "a # b"  # beside a value
mounts = [
    # above an item
    "/a:/a",  # beside an item
    { path = "/x" },
]
# two lines,
#
# one of them empty
time = 1
# commented_out = "key"

# also below

# --- a headline

# above a table
[other]  # beside a short one
extends = "base"

[table]

[table.inner]
# above the inner key
key = 1
# below the inner key
"""


def test_every_comment_stays_with_what_it_is_about():
    assert env_text(yaml.safe_load(YAML), read_comments(YAML)) == TOML


def test_a_first_comment_right_above_a_key_is_the_keys():
    comments = read_comments("# of a\na: 1\n")
    assert comments == Comments((), {("a",): Comment(above=("# of a",))})
    assert read_comments("# alone\n").head == ("# alone",)
    assert read_comments("") == Comments()


def test_stronger_comments_win():
    ours, theirs = read_comments("# ours\na: 1\nb: 1\n"), read_comments("# theirs\na: 1\n# b\nb: 1\n")
    assert ours.over(theirs).of("a").above == ("# ours",)
    assert ours.over(theirs).of("b").above == ("# b",)


KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=12)
SCALARS = st.text(max_size=40) | st.integers(-(2**40), 2**40) | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=5), max_size=4))
def test_a_file_says_what_the_sections_say(sections):
    assert tomllib.loads(env_text(sections, Comments())) == without_null(sections)


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(below) for key, below in value.items() if below is not None}
    return [without_null(each) for each in value if each is not None] if isinstance(value, list) else value
