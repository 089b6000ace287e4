"""`env check`, and the JSON Schema for editors."""

from __future__ import annotations

import sys
from itertools import pairwise

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ENV_TOML, REPOSITORY, SEED_BLOCKS

from nemo_runspec.backends import BUILTIN
from nemo_runspec.doctor.envcheck import check_env_file
from nemo_runspec.field import TYPES
from nemo_runspec.profiles.envfile import load_env_file
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.schema import env_schema

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture
def check(tmp_path):
    def run(text):
        path = tmp_path / "env.toml"
        path.write_text(text, encoding="utf-8")
        return check_env_file(load_env_file(path))

    return run


def test_a_good_file(check):
    report = check(ENV_TOML)
    assert [str(e) for e in report.errors if "client_secret" not in e.what] == []
    assert report.profiles == 6


def test_every_problem_of_every_profile(check, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    report = check(
        """\
stray = 1
[wandb]
projetc = "x"
[cli]
theme = 3
[parent]
executor = "slurm"
acount = "x"
[a]
extends = "parent"
[b]
extends = "parent"
account = "${oc.env:NOT_SET}"
[c]
extends = "d"
[d]
extends = "c"
[e]
extends = "nowhere"
[f]
executor = "slrum"
[g]
executor = "slurm"
account = "YOUR-ACCOUNT"
"""
    )
    places = sorted(int(error.where.rpartition("env.toml:")[2].split(" ")[0]) for error in report.errors)
    assert places[0] == 1
    assert {1, 3, 5, 8, 13, 15, 21} <= set(places)
    assert places.count(8) == 1, "a problem of a parent is reported once"
    assert any("account is still a placeholder" in error.what for error in report.errors)


@pytest.mark.parametrize("order", ["abc", "cab", "bca"])
def test_a_circle_of_extends_is_reported_once(check, order):
    """Whichever profile of it is looked at, and those that only lead into it."""
    sections = {"a": "b", "b": "c", "c": "a", "d": "b", "e": "d"}
    text = "".join(f'[{name}]\nextends = "{sections[name]}"\n' for name in ("e", *order, "d"))
    errors = check(text).errors
    assert [error.what for error in errors] == [f"'extends' goes in a circle: {circle(order[0])}"]
    assert "env.toml:4 [" in errors[0].where


def circle(first):
    return " -> ".join(("abcabca"["abc".index(first) :])[:4])


def test_a_parent_may_leave_things_to_its_children(check):
    text = '[p]\nexecutor = "lepton"\nnemo_run_dir = "YOUR-DIR"\n[a]\nextends = "p"\n'
    assert check(text + 'nemo_run_dir = "/x"\n').errors == ()
    errors = check(text).errors
    assert ["profile 'a': nemo_run_dir is still a placeholder" in error.what for error in errors] == [True]


def test_env_check_exits_2_and_says_where(nemotron, project):
    project.write("env.toml", '[a]\nexecutor = "slurm"\nacount = "x"\n')
    outcome = nemotron("env", "check")
    assert outcome.code == 2
    assert "unknown key 'acount'" in outcome.err
    assert "at:  env.toml:3 [a]" in outcome.err
    assert "did you mean 'account'?" in outcome.err
    assert outcome.out == "env.toml: 1 of 1 profile wrong: a\n"
    assert 'acount = "x"' in outcome.err.splitlines()[2]
    report = nemotron("env", "check", "--json")
    assert report.code == 2
    assert (report.json["profiles"], report.json["wrong"]) == (1, ["a"])
    assert report.json["errors"][0]["place"] == "env.toml:3 [a]"


SLURM = 'executor = "slurm"\naccount = "acme"\n'
RUNAI = """\
executor = "dgxcloud"
client_id = "team"
client_secret = "${oc.env:DGX_SECRET}"
project_name = "team"
container_image = "nemo:1"
pvc_nemo_run_dir = "/pvc/run"
pvcs = [{ claimName = "data", path = "/pvc" }]
"""
REFUSED = {
    "gpu hours": (SLURM + 'nodes = 10\ngpus_per_node = 8\ntime = "10:00:00"\nmax_gpu_hours = 5\n', "800.0 GPU-hours"),
    "a variable's name": (SLURM + '[c.env_vars]\n"BAD NAME" = "x"\n', "'BAD NAME' is not the name"),
    "a variable of ours": (SLURM + '[c.env_vars]\nRANK = "1"\n', "RANK cannot be set for a job"),
    "seconds": (SLURM + '[c.env_vars]\nNEMOTRON_STOP_SECONDS = "1m"\n', "NEMOTRON_STOP_SECONDS is a number of seconds"),
    "a secret given twice": (
        RUNAI + 'base_url = "https://x.org"\nsecret_vars = { A = "c/A" }\nenv_vars = { A = "1" }\n',
        "secret_vars: the platform is to set A",
    ),
    "no URL": (RUNAI + 'base_url = "dgx.example.com"\n', "base_url 'dgx.example.com' is no URL"),
    "plain HTTP": (RUNAI + 'base_url = "http://dgx.example.com"\n', "is plain HTTP"),
    "a user there is not": ('executor = "local"\njob_dir = "~nosuchuser/x"\n', "this machine has no user 'nosuchuser'"),
    "a run dir on the image's disk": (
        'executor = "docker"\ncontainer_image = "ubuntu"\n[c.env_vars]\nNEMO_RUN_DIR = "/results"\n',
        "would be lost when the job ends: /results is on none of mounts",
    ),
}
"""A profile `c` -> what a run of it is refused for."""


@pytest.mark.parametrize("name", REFUSED)
def test_env_check_finds_what_a_submission_refuses(nemotron, project, monkeypatch, name):
    """Each with the line of the mistake, once."""
    text, words = REFUSED[name]
    monkeypatch.setenv("DGX_SECRET", "hunter2hunter2")
    project.write("t.py", "print(1)\n")
    project.write("env.toml", "[c]\n" + text)
    nemotron("run", "./t.py", "--batch", "c").refuses(words)
    found = nemotron("env", "check", "--json")
    assert found.code == 2
    [error] = found.json["errors"]
    assert words.replace("the job ends", "a job ends") in error["message"]
    assert error["place"].startswith("env.toml:") and error["place"] != "env.toml:1 [c]"


STORES = {
    "relative": ("rel/store", SLURM, "is no absolute path"),
    "home": ("~/store", SLURM, "is no absolute path"),
    "Google's": ("gs://bucket/x", SLURM, "neither a folder nor s3://"),
    "Google's, from here": ("gs://bucket/x", 'executor = "local"\n', "neither a folder nor s3://"),
    "a slash too few": ("s3:/bucket/x", 'executor = "local"\n', "neither a folder nor s3://"),
    "no user": ("~nosuchuser/x", 'executor = "local"\n', "this machine has no user 'nosuchuser'"),
}


@pytest.mark.parametrize("name", STORES)
def test_env_check_finds_a_store_that_is_no_place(nemotron, project, name):
    """A store that means another folder to every job is none: what one writes there no other finds."""
    root, profile, words = STORES[name]
    project.write("env.toml", f'[artifacts]\nroot = "{root}"\n[c]\n{profile}')
    refused = nemotron("nano3", "pretrain", "-c", "tiny", "--run", "c", "--dry-run")
    refused.refuses(words, "env.toml:2 [artifacts]")
    [error] = nemotron("env", "check", "--json").json["errors"]
    assert (words in error["message"], error["place"]) == (True, "env.toml:2 [artifacts]")


def test_env_check_finds_a_folder_for_clones_that_is_none(nemotron, project):
    project.write("env.toml", '[cache]\ngit_dir = "~nosuchuser/x"\n[c]\nexecutor = "local"\n')
    [error] = nemotron("env", "check", "--json").json["errors"]
    assert ("no user 'nosuchuser'" in error["message"], error["place"]) == (True, "env.toml:2 [cache]")


def test_env_check_of_a_named_file(nemotron, project):
    project.write("other.toml", '[a]\nexecutor = "slurm"\n')
    assert nemotron("env", "check", "other.toml").succeeds().out.startswith("other.toml: 1 profile, all right")
    nemotron("env", "check", "gone.toml").refuses("cannot read gone.toml")


def test_env_check_reports_what_a_dry_run_only_warns_of(nemotron, project):
    project.write("env.toml", '[a]\nexecutor = "slurm"\naccount = "YOUR-ACCOUNT"\n')
    dry = nemotron("nano3", "pretrain", "-c", "tiny", "--run", "a", "--dry-run").succeeds()
    assert "before submission: account is still a placeholder" in dry.out
    assert nemotron("env", "check").code == 2
    nemotron("nano3", "pretrain", "-c", "tiny", "--run", "a").refuses()


SCHEMA = jsonschema.Draft202012Validator(env_schema())


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(env_schema())


@pytest.mark.parametrize("path", [*SEED_BLOCKS, REPOSITORY / "env.toml.example"], ids=lambda path: path.stem)
def test_the_schema_accepts_every_good_file(path):
    assert [e.message for e in SCHEMA.iter_errors(tomllib.loads(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize(
    "text",
    [
        '[a]\nacount = "x"\n',
        '[a]\nexecutor = "slrum"\n',
        '[a]\nnodes = "four"\n',
        "[a]\nnodes = 0\n",
        '[a]\nmounts = "/a:/a"\n',
        '[wandb]\nprojetc = "x"\n',
        '[artifacts]\nbackend = "s3"\n',
        '[a]\npackager = "zip"\n',
        "stray = 1\n",
    ],
)
def test_the_schema_refuses_mistakes(text):
    assert list(SCHEMA.iter_errors(tomllib.loads(text)))


EXAMPLES = {
    "str": st.text(st.characters(categories=["L", "N"]), max_size=5),
    "int": st.integers(-5, 5),
    "count": st.integers(0, 5),
    "positive": st.integers(1, 5),
    "number": st.integers(0, 5) | st.just(1.5),
    "bool": st.booleans(),
    "bool|str": st.booleans() | st.just("user"),
    "int|str": st.integers(0, 5) | st.just("x"),
    "list[str]": st.lists(st.just("x"), max_size=2),
    "list[int]": st.lists(st.integers(0, 5), max_size=2),
    "str|list[str]": st.just("x") | st.lists(st.just("x"), max_size=2),
    "list[table]": st.lists(st.just({"a": 1}), max_size=2),
    "list[str|table]": st.lists(st.just("x") | st.just({"a": 1}), max_size=2),
    "table": st.just({"a": [1]}),
    "table[scalar]": st.just({"a": 1, "b": "x", "c": True}),
    "table[str]": st.just({"a": "x"}),
}


WITH_TABLES = {each.name for name in BUILTIN for each in fields_of(name).fields.values() if each.inner}


def test_every_type_has_examples():
    assert set(EXAMPLES) == set(TYPES)


@pytest.mark.parametrize("executor", list(BUILTIN))
@given(data=st.data())
@settings(max_examples=40)
def test_schema_and_declaration_agree(executor, data):
    """A value of any type on any field: the schema and the field's own check give one answer.

    The schema also knows the tables in some fields, of which the check leaves the rest to the backend.
    """
    field = data.draw(st.sampled_from([f for f in fields_of(executor).fields.values() if f.name not in ("executor",)]))
    value = data.draw(EXAMPLES[data.draw(st.sampled_from([field.type, *EXAMPLES]))])
    accepted = TYPES[field.type].accepts(value) and (not field.choices or value in field.choices)
    spelling = data.draw(st.sampled_from([field.name, *field.aliases]))
    profile = {"executor": executor, spelling: value}
    valid = SCHEMA.is_valid({"a": profile})
    assert valid == accepted or (accepted and field.name in WITH_TABLES), (field.name, value)


def test_env_schema_prints_it(nemotron):
    assert nemotron("env", "schema").json == env_schema()


@pytest.mark.parametrize("executor", list(BUILTIN))
def test_env_fields_lists_every_spelling(nemotron, executor):
    rows = nemotron("env", "fields", executor, "--json").json
    assert {s for row in rows for s in (row["name"], *row["aliases"])} == set(fields_of(executor).spellings)
    text = nemotron("env", "fields", executor).succeeds().out
    assert all(row["help"] in text for row in rows)


def test_env_fields_of_an_unknown_executor(nemotron):
    nemotron("env", "fields", "slrum").refuses("no key of a profile is about 'slrum'", "did you mean 'slurm'?")


def test_what_only_the_backend_knows_to_be_lacking(project, nemotron):
    project.write("env.toml", '[a]\nexecutor = "slurm"\ntunnel = "ssh"\ntime = "CHANGE_ME"\n')
    outcome = nemotron("env", "check")
    assert outcome.code == 2
    assert outcome.err.count("host is not set") == 1
    assert outcome.err.count("time is still a placeholder") == 1


LEPTON = """
executor = "lepton"
container_image = "i"
nemo_run_dir = "/mnt/run"
mounts = [{ path = "/", mount_path = "/mnt", from = "node-nfs:v" }]
"""
DGX = """
executor = "dgxcloud"
base_url = "https://x"
client_id = "c"
client_secret = "s"
project_name = "p"
container_image = "i"
pvc_nemo_run_dir = "/pvc/run"
pvcs = [{ claimName = "c", path = "/pvc" }]
"""


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ('[a]\nexecutor = "slurm"\npackager = "hybrid"\n', 3, "needs packager_sub_packagers"),
        ('[a]\nexecutor = "slurm"\npackager = "pattern"\n', 3, "needs packager_include_pattern"),
        (
            '[a]\nexecutor = "slurm"\npackager = "hybrid"\npackager_sub_packagers = { x = { packager = "zip" } }\n',
            4,
            "must be git or pattern",
        ),
        (f'[artifacts]\nroot = "/elsewhere"\n[a]{LEPTON}', 2, "artifacts would be lost when a job ends: /elsewhere"),
        (f'[artifacts]\nroot = "/elsewhere"\n[a]{DGX}', 2, "/elsewhere is on none of pvcs"),
        (f'[a]{LEPTON}nodes = 2\n'.replace('"/mnt/run"', '"/opt/run"').replace('"/mnt",', '"/opt/run/x",'), 4, ""),
        (
            f'[a]{LEPTON}nodes = 2\n'.replace('from = "node-nfs:v"', 'mount_options = { read_only = true }'),
            4,
            "nemo_run_dir '/mnt/run' is on /mnt, which is read-only: 2 nodes share no directory",
        ),
        (f'[a]{LEPTON}env_vars = {{ NEMO_RUN_DIR = "/s" }}\n', 6, "outputs would be lost when a job ends: /s is on"),
        (
            '[artifacts]\nroot = "/d/a"\n[a]\nexecutor = "docker"\ncontainer_image = "i"\nmounts = ["/tmp:/d:ro"]\n',
            2,
            "/d/a is on /d, which is read-only",
        ),
        (
            '[artifacts]\nroot = "/d/a"\n[a]\nexecutor = "slurm"\ncontainer_image = "i"\nmounts = ["/dev/shm:/d"]\n',
            2,
            "/d/a is on /d, which is gone with the job",
        ),
    ],
)  # fmt: skip
def test_what_a_submission_would_refuse_is_found_with_its_line(check, text, line, what):
    errors = check(text).errors
    if not what:
        assert errors == (), "a volume is mounted there besides"
        return
    (error,) = errors
    assert what in error.what
    assert f"env.toml:{line} " in error.where


@pytest.mark.parametrize(
    "text",
    [
        '[artifacts]\nroot = "/elsewhere"\n[a]\nexecutor = "slurm"\nmounts = ["/data:/data"]\ncontainer_image = "i"\n',
        '[artifacts]\nroot = "/elsewhere"\n[a]\nexecutor = "docker"\ncontainer_image = "i"\n',
        '[artifacts]\nroot = "/elsewhere"\n[a]\nnproc_per_node = 1\n',
        '[artifacts]\nroot = "/data/x"\n[a]\nexecutor = "slurm"\nmounts = ["/data:/data:ro"]\n',
        f'[artifacts]\nroot = "/mnt/x"\n[a]{LEPTON}',
        f'[artifacts]\nroot = "/elsewhere"\n[a]{LEPTON}outputs = ["/elsewhere"]\noutput_url = "s3://b/o"\n',
    ],
)
def test_a_store_that_is_mounted_or_copied_away_is_fine(check, text):
    assert check(text).errors == ()


MISTAKES = (
    'packager = "hybrid"', 'account = "YOUR-ACCOUNT"', "acount = 1", 'nodes = "two"', 'account = "${oc.env:NOT_SET}"',
    'mounts = ["x"]\ncontainer_image = "i"', 'time = "soon"', 'host = "h"',
)  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_parents_mistake_is_reported_once_at_its_line(check, monkeypatch, mistake):
    monkeypatch.delenv("NOT_SET", raising=False)
    text = (
        f'[p]\nexecutor = "slurm"\n{mistake}\n[a]\nextends = "p"\n[b]\nextends = "p"\nqos = "x"\n[c]\nextends = "a"\n'
    )
    (error,) = check(text).errors
    assert "env.toml:3 [p]" in error.where


ONE_PASS = """\
[a]
executor = "slurm"
time = 5.5
acount = "x"
partition = "YOUR-PARTITION"
qos = "${oc.env:NOT_SET}"

[wandb]
entity = "YOUR-TEAM"

[b]
executor = "dgxcloud"
client_id = 7
client_secret = "${oc.env:DGX_CLIENT_SECRET,''}"

[cli]
colour = "blue"
"""


def test_everything_in_one_pass_in_the_order_of_lines(nemotron, project):
    project.write("env.toml", ONE_PASS)
    checked = nemotron("env", "check")
    errors = nemotron("env", "check", "--json").json["errors"]
    lines = [int(error["place"].partition(":")[2].split(" ")[0]) for error in errors]
    assert lines == sorted(lines)
    assert {3, 4, 5, 6, 9, 13, 14, 17} <= set(lines)
    rows = ONE_PASS.splitlines()
    below = [after for place, after in pairwise(checked.err.splitlines()) if place.startswith("  at:  ")]
    shown = [rows[line - 1] for line in lines]
    shown[-1] = "colour = ******"  # nobody knows what it was meant to be
    assert [line.strip() for line in below] == shown
    told = [error["message"] for error in errors]
    assert not [line for line in told if "account is required" in line], "it is there, and misspelt"
    assert [line.count("export DGX_CLIENT_SECRET=…") for line in told if "client_secret" in line] == [1]


def test_a_secret_that_stands_in_the_file_is_not_repeated(nemotron, project):
    project.write("env.toml", '[b]\nexecutor = "dgxcloud"\nclient_secret = 12345678\n')
    outcome = nemotron("env", "check")
    assert "client_secret = ******" in outcome.err
    assert "12345678" not in outcome.err + nemotron("env", "check", "--json").out


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('client_sceret = "s3cr3t"', "client_sceret = ******"), ('whatever = "s3cr3t"', "whatever = ******"),
        ('env_vars = { API_TOKEN = ["s3cr3t"] }', "env_vars = ******"), ('acount = "mine"', 'acount = "mine"'),
    ],
)  # fmt: skip
def test_nor_is_what_may_be_one(nemotron, project, line, shown):
    project.write("env.toml", f'[b]\nexecutor = "dgxcloud"\n{line}\n[c]\nexecutor = "slurm"\n{line}\n')
    errors = nemotron("env", "check").err
    assert shown in errors
    assert "s3cr3t" not in errors


def test_profiles_are_counted(nemotron, project):
    project.write("env.toml", '[p]\nexecutor = "slurm"\ntime = 5.5\nqos = 1\n[a]\nextends = "p"\n[b]\n')
    assert nemotron("env", "check").out == "env.toml: 2 of 3 profiles wrong: p, a\n"
    assert "3 profiles, 2 of them wrong" in nemotron("doctor").out
    project.write("env.toml", '[b]\n[cli]\ncolour = "x"\n')
    assert nemotron("env", "check").out == "env.toml: 1 profile all right, but not what stands beside them\n"
    project.write("env.toml", "[b]\n")
    assert nemotron("env", "check").succeeds().out == "env.toml: 1 profile, all right\n"


def test_a_secret_that_is_missing_names_its_variable(nemotron, project):
    project.write("train.py", "print(1)\n")
    lacking = "client_secret is required by executor 'dgxcloud' and not set: export DGX_CLIENT_SECRET=…"
    assert lacking in nemotron("run", "./train.py", "--run", "runai", "--dry-run").succeeds().out
    nemotron("run", "./train.py", "--run", "runai").refuses(lacking)


def errors_of(text):
    return list(jsonschema.Draft202012Validator(env_schema()).iter_errors(tomllib.loads(text)))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ('pvcs = [{ claimName = "c", path = "/x", readOnly = false }]', 'pvcs = [{ claimName = 3, path = "/x" }]'),
        ('pvcs = [{ name = "of run:ai", path = "/x" }]', 'pvcs = [{ path = "/x", readOnly = "no" }]'),
        ('mounts = [{ path = "/", mount_path = "/x", from = "node-nfs:v" }]', 'mounts = [{ path = "/", form = "v" }]'),
        ('mounts = ["/a:/b"]', "mounts = [1]"),
        (
            'packager_sub_packagers = { a = { packager = "git" } }',
            'packager_sub_packagers = { a = { packager = "gut" } }',
        ),
        ("custom_spec = { any = { thing = 1 } }", "custom_spec = 1"),
    ],
)
def test_the_schema_knows_the_tables_in_a_key(right, wrong):
    assert errors_of(f"[a]\n{right}\n") == []
    assert errors_of(f"[a]\n{wrong}\n") != []


def test_the_schema_describes_them():
    keys = env_schema()["$defs"]["profile"]["properties"]
    claim = keys["pvcs"]["anyOf"][0]["items"]["properties"]["claimName"]
    assert claim == {"type": "string", "description": "Name of the claim."}


def test_the_schema_has_an_id_and_leaves_no_table_undecided():
    """A strict reader, such as tombi, takes a table that says nothing of further keys for one that has none."""
    assert env_schema()["$id"].startswith("urn:")
    undecided = [table for table in objects_in(env_schema()) if "additionalProperties" not in table]
    assert undecided == []


def objects_in(schema):
    if isinstance(schema, dict):
        if schema.get("type") == "object" and "$defs" not in schema:
            yield schema
        schema = [*schema.values()]
    if isinstance(schema, list):
        for each in schema:
            yield from objects_in(each)
