"""`env add | set | unset | rm`: an env file changed by the command line, its comments and its order kept."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import ENV_TOML

from nemo_runspec.profiles.edit import with_keys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = """\
# The file's head.

# Everybody's cluster.
[cluster]  # ours
executor = "slurm"
account = "acme"  # who pays
mounts = [
    "/a:/a",  # data
]
env_vars = { A = "1" }

# --- large ---
# Many nodes.
[large]
extends = "cluster"
nodes = 4

# its variables
[large.env_vars]
B = "2"  # two

[last]
extends = "cluster"
"""


@pytest.fixture
def edit(nemotron, project):
    """`edit("set", …)` in a project with the file above; the text that it says then."""
    project.write("env.toml", FILE)

    def run(*words):
        outcome = nemotron("env", *words)
        return outcome, project.env_file.read_text(encoding="utf-8")

    return run


def test_a_key_is_set_where_it_stands(edit):
    outcome, text = edit("set", "cluster", "account=other", "time=08:00:00", "mounts=[/b:/b]")
    outcome.succeeds()
    assert text == FILE.replace('"acme"  # who', '"other"  # who').replace(
        'mounts = [\n    "/a:/a",  # data\n]\nenv_vars = { A = "1" }\n',
        'mounts = ["/b:/b"]\nenv_vars = { A = "1" }\ntime = "08:00:00"\n',
    )
    assert 'env.toml:6  account = "other"  # who pays\n' in outcome.out
    assert "executor" not in outcome.out


def test_a_variable_is_set_in_a_table_however_it_is_written(edit):
    _, text = edit("set", "cluster", "env_vars.NEW=1")
    assert 'env_vars = { A = "1", NEW = "1" }\n' in text
    _, text = edit("set", "large", "env_vars.NEW=1", "time=1:00:00")
    assert (
        'nodes = 4\ntime = "1:00:00"\n\n# its variables\n[large.env_vars]\nB = "2"  # two\nNEW = "1"\n\n[last]' in text
    )
    _, text = edit("set", "last", "env_vars.X=a", "env_vars.Y=b")
    assert text.endswith('[last]\nextends = "cluster"\nenv_vars = { X = "a", Y = "b" }\n')


def test_a_key_keeps_the_spelling_that_it_has(edit, project):
    project.write("env.toml", '[box]\nexecutor = "docker"\ncontainer = "a:1"\n')
    _, text = edit("set", "box", "container_image=b:2")
    assert text == '[box]\nexecutor = "docker"\ncontainer = "b:2"\n'


def test_a_profile_is_added_at_the_end(edit):
    outcome, text = edit("add", "big", "--extends", "cluster", "nodes=16", "exclusive=true", "mem=0")
    outcome.succeeds()
    assert text == f'{FILE}\n[big]\nextends = "cluster"\nnodes = 16\nexclusive = true\nmem = 0\n'
    assert edit("add", "empty")[1].endswith("\n\n[empty]\n")
    again, same = edit("add", "big", "nodes=2")
    again.refuses("there is a profile 'big' already", "env.toml:25 [big]", "nemotron env set big")
    assert same.startswith(text)


def test_a_first_profile_makes_the_file(nemotron, project):
    project.env_file.unlink()
    nemotron("env", "add", "here", "nproc_per_node=2").succeeds()
    assert project.env_file.read_text(encoding="utf-8") == "#:schema ./env.schema.json\n\n[here]\nnproc_per_node = 2\n"
    assert (project.folder / "env.schema.json").is_file()
    assert project.env_file.stat().st_mode & 0o077 == 0


def test_keys_and_profiles_are_taken_out(edit):
    outcome, text = edit("unset", "large", "nodes", "env_vars.B")
    outcome.succeeds()
    assert tomllib.loads(text)["large"] == {"extends": "cluster", "env_vars": {}}
    assert outcome.out == "took nodes and env_vars.B out of [large] of env.toml\n"
    edit("unset", "large", "time")[0].refuses("[large] does not set time", "nemotron env show large")
    _, text = edit("rm", "large")
    assert "Many nodes" not in text
    assert "# --- large ---\n[last]" in text
    edit("rm", "cluster")[0].refuses("'last' extends 'cluster'", "env.toml:")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("set", "cluster", "acount=x"), ("unknown key 'acount'", "did you mean 'account'?")),
        (("set", "cluster", "node_group=x"), ("node_group is a key of lepton", "a profile for 'slurm'")),
        (("set", "cluster", "nodes=many"), ("nodes must be a whole number, 1 or more, not 'many'",)),
        (("set", "cluster", "mounts=/a:/a"), ("mounts must be a list", """write mounts='["/a:/a"]'""")),
        (("set", "cluster", "dirty=no"), ("dirty must be one of warn, refuse, include",)),
        (("set", "cluster", "nodes"), ("'nodes' sets nothing", "nodes=VALUE")),
        (("set", "cluster", "account.x=1"), ("account is no table of keys",)),
        (("set", "cluster", "env_vars.HF_TOKEN=abcdef0123"), ("is a secret", "'${oc.env:HF_TOKEN}'")),
        (("set", "cluster", "extends=nowhere"), ("extends 'nowhere', which env.toml does not have",)),
        (("set", "cluster", "extends=large"), ("goes in a circle",)),
        (("set", "cluster", "executor=lepton"), ("mounts[0] is not a mount of executor 'lepton'",)),
        (("set", "cluser", "nodes=1"), ("no profile 'cluser'", "did you mean 'cluster'?")),
        (("set", "wandb", "projetc=x"), ("unknown key 'projetc'", "did you mean 'project'?")),
        (("add", "wandb", "project=x"), ("is the name of a system section",)),
        (("add", "new", "--extends", "clustr"), ("extends 'clustr'", "did you mean 'cluster'?")),
        (("add", "new", "--extends", "cluster", "extends=large"), ("are the same",)),
        (("add", "a b"), ("no name of a profile",)),
        (("set", "cluster", "nodes=1", "--file", "no.toml"), ("there is no no.toml",)),
    ],
)
def test_what_would_be_wrong_is_not_written(edit, words, told):
    outcome, text = edit(*words)
    outcome.refuses(*told)
    assert text == FILE
    assert "abcdef0123" not in outcome.err


def test_all_mistakes_of_a_call_are_told_at_once(edit):
    outcome, _ = edit("set", "cluster", "acount=x", "nodes=0")
    outcome.refuses("[cluster] would have 2 problems", "acount", "nodes must be")


def test_what_was_wrong_before_does_not_stand_in_the_way(edit, project):
    project.write("env.toml", f'{FILE}\n[odd]\nexecutor = "slrum"\n')
    edit("set", "cluster", "nodes=2")[0].succeeds()
    lost = '[p]\nexecutor = "slurm"\npartition = "p"\nmax_gpu_hours = 1\nnodes = 9\ngpus_per_node = 8\n'
    project.write("env.toml", f'{lost}[a]\nextends = "p"\n[b]\nextends = "p"\n')
    assert "profile 'a' and 1 other: the plan may use" in edit("check")[0].err
    edit("add", "c", "--extends", "p")[0].succeeds()


def test_what_is_still_to_be_filled_in_is_said(edit):
    outcome, _ = edit("add", "cloud", "executor=lepton", "node_group=YOUR-GROUP")
    assert "to fill in: profile 'cloud': nemo_run_dir is required" in outcome.succeeds().out
    assert "node_group is still a placeholder" in outcome.out


def test_a_reference_to_a_secret_is_no_secret(edit, monkeypatch):
    monkeypatch.setenv("MY_SECRET", "v-1-0-9-x")
    _, text = edit("add", "cloud", "executor=dgxcloud", "client_secret=${oc.env:MY_SECRET}")
    assert 'client_secret = "${oc.env:MY_SECRET}"' in text


def test_another_file_and_system_sections(edit, project, nemotron):
    other = project.write("env.other.toml", "[a]\nnproc_per_node = 1\n")
    edit("set", "a", "nproc_per_node=4", "--file", "env.other.toml")[0].succeeds()
    assert other.read_text(encoding="utf-8") == "[a]\nnproc_per_node = 4\n"
    _, text = edit("set", "wandb", "project=p", "tags=[a, b]", "forward=true")
    assert text.endswith('\n[wandb]\nproject = "p"\ntags = ["a", "b"]\nforward = true\n')


def test_the_users_own_file_is_changed_where_the_profile_is(nemotron, project):
    own = project.home / ".config/nemotron/env.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[mine]\nnproc_per_node = 1\n", encoding="utf-8")
    own.chmod(0o600)
    nemotron("env", "set", "mine", "nproc_per_node=3").succeeds()
    assert own.read_text(encoding="utf-8") == "[mine]\nnproc_per_node = 3\n"
    assert project.env_file.read_text(encoding="utf-8") == ENV_TOML


def test_the_same_again_writes_nothing(edit, project):
    before = project.env_file.stat().st_mtime_ns
    outcome, _ = edit("set", "cluster", "account=acme")
    assert outcome.succeeds().out == "env.toml: [cluster] says so already\n"
    assert project.env_file.stat().st_mtime_ns == before


KEYS = st.sampled_from(["executor", "nodes", "fresh", "other-1", "env_vars"])
VALUES = st.integers(0, 99) | st.text(max_size=8) | st.lists(st.text(max_size=4), max_size=3)
CHANGES = st.dictionaries(
    KEYS.filter(lambda key: key != "env_vars").map(lambda key: (key,))
    | st.text("AB'. ", min_size=1).map(lambda k: ("env_vars", k)),
    VALUES | st.none(),
    max_size=5,
)


@given(st.sampled_from(["cluster", "large", "last", "none-such"]), CHANGES)
def test_a_change_changes_what_it_names_and_nothing_else(name, changes):
    made = with_keys(FILE, "env.toml", name, changes)
    before, after = tomllib.loads(FILE), tomllib.loads(made)
    expected = before.setdefault(name, {})
    for (key, *inner), value in changes.items():
        table = expected.setdefault(key, {}) if inner else expected
        table.pop(last := (inner or [key])[0], None)
        if value is not None:
            table[last] = value
    assert after == before
    comments = [line for line in FILE.split("\n") if line.startswith("#")]
    assert [line for line in made.split("\n") if line.startswith("#")] == comments


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_line_ends_and_a_byte_order_mark_stay(nemotron, project, mark, end):
    def as_written(text):
        return mark + text.encode().replace(b"\n", end)

    project.env_file.write_bytes(as_written(FILE))
    nemotron("env", "set", "cluster", "account=other").succeeds()
    changed = FILE.replace('"acme"', '"other"')
    assert project.env_file.read_bytes() == as_written(changed)
    nemotron("env", "add", "new", "--extends", "large", "nodes=8").succeeds()
    nemotron("env", "unset", "new", "nodes").succeeds()
    assert project.env_file.read_bytes() == as_written(f'{changed}\n[new]\nextends = "large"\n')
    nemotron("env", "rm", "new").succeeds()
    assert project.env_file.read_bytes() == as_written(changed)
