"""A profile with its chain merged: values, sources, warnings, and every problem of its keys at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_runspec.backends import BUILTIN
from nemo_runspec.errors import Problems, UserError
from nemo_runspec.profiles.envfile import EnvFile, load_env_file
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.profile import Profile, resolve_profile, system_section


def read(folder: Path, text: str) -> EnvFile:
    path = folder / "env.toml"
    path.write_text(text, encoding="utf-8")
    return load_env_file(path)


def resolve(folder: Path, text: str, name: str = "a") -> Profile:
    return resolve_profile(read(folder, text), name)


def refused(folder: Path, text: str, name: str = "a") -> UserError:
    with pytest.raises(UserError) as caught:
        resolve(folder, text, name)
    return caught.value


def place(profile: Profile, key: str) -> str:
    return profile.sources[key].label().replace(profile.shown, "env.toml")


CHAIN = """\
[root]
executor = "slurm"
time = "04:00:00"
mounts = ["/a:/a"]
[root.env_vars]
ONE = "1"
TWO = "2"

[middle]
extends = "root"
partition = "batch"
env_vars = { TWO = "two" }

[a]
extends = "middle"
nodes = 4
mounts = ["/b:/b"]
env_vars.THREE = 3
"""


def test_a_chain_is_merged(tmp_path):
    profile = resolve(tmp_path, CHAIN)
    assert profile.chain == ("a", "middle", "root")
    assert profile.executor == "slurm"
    assert profile.values == {
        "executor": "slurm",
        "time": "04:00:00",
        "partition": "batch",
        "nodes": 4,
        "mounts": ["/b:/b"],
        "env_vars": {"ONE": "1", "TWO": "two", "THREE": 3},
    }


def test_every_value_knows_its_source(tmp_path):
    profile = resolve(tmp_path, CHAIN)
    assert place(profile, "nodes") == "env.toml:16 [a]"
    assert place(profile, "mounts") == "env.toml:17 [a]"
    assert place(profile, "partition") == "env.toml:11 [middle] via extends"
    assert place(profile, "time") == "env.toml:3 [root] via extends"
    assert place(profile, "env_vars.ONE") == "env.toml:6 [root] via extends"
    assert place(profile, "env_vars.TWO") == "env.toml:12 [middle] via extends"
    assert place(profile, "env_vars.THREE") == "env.toml:18 [a]"


def test_executor_is_local_by_default(tmp_path):
    assert resolve(tmp_path, "[a]\nnproc_per_node = 2\n").executor == "local"


def test_the_nearest_executor_counts(tmp_path):
    text = '[b]\nexecutor = "slurm"\n[a]\nextends = "b"\nexecutor = "local"\n'
    assert resolve(tmp_path, text).executor == "local"


@pytest.mark.parametrize(
    ("executor", "spelling", "name"),
    [(e, spelling, name) for e in BUILTIN for spelling, name in fields_of(e).spellings.items() if spelling != name],
)
def test_aliases_are_normalised_in_every_layer(tmp_path, executor, spelling, name):
    """The parent says it one way, the child the other: the child wins, and one key is left."""
    value = {"positive": ("3", 3), "bool": ("true", True), "str": ('"x"', "x")}[fields_of(executor).fields[name].type]
    lower = {"positive": "9", "bool": "false", "str": '"y"'}[fields_of(executor).fields[name].type]
    for parent, child in ((name, spelling), (spelling, name), (spelling, spelling)):
        text = f'[b]\nexecutor = "{executor}"\n{parent} = {lower}\n[a]\nextends = "b"\n{child} = {value[0]}\n'
        profile = resolve(tmp_path, text)
        assert profile.values == {"executor": executor, name: value[1]}
        assert place(profile, name) == "env.toml:6 [a]"


@pytest.mark.parametrize(
    ("executor", "first", "second"),
    [
        ("slurm", "ntasks_per_node = 8", "nproc_per_node = 8"),
        ("slurm", "nprocs_per_node = 8", "ntasks_per_node = 4"),
        ("slurm", 'container = "x"', 'container_image = "y"'),
        ("dgxcloud", 'app_id = "x"', 'client_id = "x"'),
        ("dgxcloud", 'app_secret = "x"', 'client_secret = "x"'),
    ],
)
def test_two_spellings_in_one_layer(tmp_path, executor, first, second):
    error = refused(tmp_path, f'[a]\nexecutor = "{executor}"\n{first}\n{second}\n')
    assert error.where.endswith("env.toml:4 [a]")
    assert "another spelling" in error.what
    assert "keep one; the canonical spelling is" in error.remedy


def test_all_problems_of_a_chain_at_once(tmp_path):
    text = """\
[b]
executor = "slurm"
acount = "x"
nodes = "four"
[a]
extends = "b"
partitoin = "x"
mounts = "/a:/a"
exclusive = 3
time = 04:00:00
"""
    error = refused(tmp_path, text)
    assert isinstance(error, Problems)
    found = {(p.where.rpartition("env.toml:")[2], p.what, p.remedy) for p in error.problems}
    assert ("3 [b]", "unknown key 'acount'", "did you mean 'account'?") in found
    assert ("7 [a]", "unknown key 'partitoin'", "did you mean 'partition'?") in found
    assert ("4 [b]", "nodes must be a whole number, 1 or more, not 'four'", None) in found
    assert (
        "8 [a]",
        "mounts must be a list of strings or tables, not '/a:/a'",
        'write a list: mounts = ["/a:/a"]',
    ) in found
    assert ("9 [a]", "exclusive must be true, false or a string, not 3", None) in found
    assert {place for place, what, _ in found if what.startswith("time")} == {"10 [a]"}
    assert len(error.problems) == 6
    assert 'quote it: time = "04:00:00"' in str(error)


def test_a_problem_the_child_mends_is_none(tmp_path):
    text = '[b]\nexecutor = "slurm"\nnodes = "four"\n[a]\nextends = "b"\nnodes = 4\n'
    assert resolve(tmp_path, text).values["nodes"] == 4


@pytest.mark.parametrize(
    "broken",
    [
        "[other]\nunknown = 1\n",
        "[other]\nextends = 'other'\n",
        "[other]\nextends = 'nowhere'\n",
        "[other]\nexecutor = 'slrum'\n",
        "[other]\nnodes = 'x'\n",
        "[other]\nenv_vars.X = '${oc.env:NOT_SET_ANYWHERE}'\n",
        "[other]\nextends = 'wandb'\n[wandb]\n",
        "[child]\nextends = 'a'\nunknown = 1\n",
    ],
)
def test_problems_outside_the_chain_do_not_block(tmp_path, broken):
    assert resolve(tmp_path, f'[a]\nexecutor = "slurm"\n{broken}').executor == "slurm"


@pytest.mark.parametrize(
    ("line", "remedy"),
    [('executor = "slrum"', "did you mean 'slurm'?"), ('executor = "k8s"', "known executors:"), ("executor = 1", None)],
)
def test_an_unknown_executor(tmp_path, line, remedy):
    error = refused(tmp_path, f"[b]\n{line}\n[a]\nextends = 'b'\n")
    assert error.where.endswith("env.toml:2 [b]")
    if remedy:
        assert remedy in error.remedy


def test_keys_of_another_executor_are_ignored_with_a_warning(tmp_path):
    profile = resolve(tmp_path, '[a]\nexecutor = "slurm"\nresource_shape = "x"\n')
    assert "resource_shape" not in profile.values
    assert "resource_shape is a key of lepton; executor 'slurm' ignores it" in profile.warnings[0]
    assert "env.toml:3 [a]" in profile.warnings[0]


def test_a_missing_variable_names_profile_key_and_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    text = '[b]\nexecutor = "slurm"\naccount = "${oc.env:NOT_SET}"\n[a]\nextends = "b"\nnodes = 2\n[c]\n'
    error = refused(tmp_path, text)
    assert error.what == "profile 'a': account needs the environment variable NOT_SET, which is not set"
    assert error.where.endswith("env.toml:3 [b]")
    assert "export NOT_SET=" in error.remedy
    assert resolve(tmp_path, text, "c").values == {}


def test_a_missing_variable_of_a_value_the_child_replaces_is_not_missed(tmp_path, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    text = '[b]\nexecutor = "slurm"\naccount = "${oc.env:NOT_SET}"\n[a]\nextends = "b"\naccount = "mine"\n'
    assert resolve(tmp_path, text).values["account"] == "mine"


def test_a_missing_variable_in_a_table_names_its_key(tmp_path, monkeypatch):
    monkeypatch.delenv("NOT_SET", raising=False)
    error = refused(tmp_path, '[a]\n[a.env_vars]\nX = "1"\nY = "${oc.env:NOT_SET}"\n')
    assert "env_vars.Y needs the environment variable NOT_SET" in error.what
    assert error.where.endswith("env.toml:4 [a]")


def test_a_variable_may_give_a_number(tmp_path, monkeypatch):
    monkeypatch.setenv("NODES", "4")
    assert resolve(tmp_path, '[a]\nnodes = "${oc.env:NODES}"\n').values["nodes"] == 4
    monkeypatch.setenv("NODES", "four")
    assert "nodes must be a whole number" in refused(tmp_path, '[a]\nnodes = "${oc.env:NODES}"\n').what


@pytest.mark.parametrize(
    "value",
    ["YOUR-ACCOUNT", "my YOUR-TEAM", "MY-APP-ID", "CHANGEME", "CHANGE-ME", "<user>", "/lustre/.../users", "YOUR_NAME"],
)
def test_placeholders(tmp_path, value):
    profile = resolve(tmp_path, f'[a]\nexecutor = "slurm"\naccount = "{value}"\n')
    assert len(profile.unfilled()) == 1
    assert f"account is still a placeholder: '{value}'" in profile.unfilled()[0]
    assert "env.toml:3 [a]" in profile.unfilled()[0]


@pytest.mark.parametrize("value", ["acme", "your-account", "my-account", "a<b", "MYTEAM", "/lustre/..", "YOURS"])
def test_ordinary_values_are_no_placeholders(tmp_path, value):
    assert resolve(tmp_path, f'[a]\nexecutor = "slurm"\naccount = "{value}"\n').unfilled() == ()


def test_placeholders_in_lists_and_tables(tmp_path):
    text = '[a]\nexecutor = "slurm"\nmounts = ["/lustre/.../x:/x"]\nenv_vars = { TEAM = "YOUR-TEAM" }\n'
    assert len(resolve(tmp_path, text).unfilled()) == 2


def test_redirections_in_commands_are_no_placeholders(tmp_path):
    text = '[a]\nexecutor = "slurm"\nsecrets = ["MY_OWN"]\n'
    text += 'startup_commands = ["sort <in >out", "echo $MY_VAR", "cd YOUR-DIR"]\n'
    lines = resolve(tmp_path, text).unfilled()
    assert ["YOUR-DIR" in line for line in lines] == [True]


@pytest.mark.parametrize(
    "text",
    [
        'custom_spec = { envs = [{ name = "MY_VAR", value = "x" }] }',
        'custom_spec = { envs = [{ name = "A", value_from = { secret_name_ref = "MY_SECRET" } }] }',
        'custom_spec = { container = { command = ["sh", "-c", "cat <in >out; echo $MY_VAR"] } }',
        'secret_vars = { TOKEN = "MY_SECRET" }',
        'secret_vars = { MY_TOKEN = "token" }',
    ],
)
def test_what_goes_to_a_platform_as_it_is_has_names_of_variables(tmp_path, text):
    start = '[a]\nexecutor = "lepton"\nnemo_run_dir = "/x"\nnode_group = "g"\nresource_shape = "s"\n'
    assert resolve(tmp_path, start + text + "\n").unfilled() == ()
    left = resolve(tmp_path, start + 'custom_spec = { envs = [{ name = "A", value = "YOUR-KEY" }] }\n').unfilled()
    assert ["custom_spec.envs.value is still a placeholder" in line for line in left] == [True]


def test_a_secret_that_looks_like_a_placeholder_is_not_shown(tmp_path):
    text = '[a]\nexecutor = "dgxcloud"\nclient_secret = "MY-Very-Secret"\nenv_vars = { HF_TOKEN = "MY_Token" }\n'
    lines = "\n".join(resolve(tmp_path, text).unfilled())
    assert "client_secret is still a placeholder" in lines
    assert "env_vars.HF_TOKEN is still a placeholder" in lines
    assert "Very-Secret" not in lines
    assert "MY_Token" not in lines


def test_required_fields(tmp_path):
    lines = resolve(tmp_path, '[a]\nexecutor = "dgxcloud"\nproject_name = ""\n').unfilled()
    named = {line.split()[0] for line in lines}
    assert {"base_url", "client_id", "client_secret", "project_name"} <= named
    assert "kube_apiserver_url" not in named


def test_a_system_section_is_resolved_and_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("TEAM", "us")
    env = read(tmp_path, '[wandb]\nproject = "p"\nentity = "${oc.env:TEAM}"\n[artifacts]\nbakend = "file"\n')
    assert system_section(env, "wandb") == {"project": "p", "entity": "us"}
    with pytest.raises(UserError, match="unknown key 'bakend'") as caught:
        system_section(env, "artifacts")
    assert caught.value.remedy == "did you mean 'backend'?"
    assert caught.value.where.endswith("env.toml:5 [artifacts]")


def test_a_secret_of_the_wrong_type_is_not_shown(tmp_path):
    error = refused(tmp_path, '[a]\nexecutor = "dgxcloud"\nclient_secret = [8675309]\n')
    assert "8675309" not in str(error)
