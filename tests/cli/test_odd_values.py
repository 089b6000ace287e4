"""Values that nobody means: users there are not, addresses that are none, numbers of a thousand digits."""

from __future__ import annotations

import os

import pytest
from job_records import record, stored
from support import ENV_TOML, PROFILES, call

from nemo_runspec.records import JobStore

GONE = "~nosuchuser/x"
VARIABLES = ("HF_HOME", "HF_TOKEN_PATH", "XDG_CACHE_HOME", "NETRC", "LEPTON_CACHE_DIR", "HOME")


@pytest.fixture
def recipe(project):
    project.recipe("mine/train")
    return project


@pytest.mark.parametrize("variable", VARIABLES)
def test_the_home_of_a_user_there_is_not(recipe, monkeypatch, variable):
    """What is only read there is not there."""
    monkeypatch.setenv(variable, GONE)
    call("mine", "train", "-d").succeeds()
    for profile in PROFILES:
        assert call("mine", "train", "-d", "--run", profile).code in (0, 2)
    assert call("jobs", "list").code in (0, 2)


def test_a_process_without_a_home(recipe, monkeypatch):
    """A container's user may have neither HOME nor an entry in /etc/passwd."""
    monkeypatch.setenv("HOME", "~")
    call("mine", "train", "-d").succeeds()


@pytest.mark.parametrize(
    ("profile", "key"),
    [
        ("laptop", "env.job_dir"), ("laptop", "artifacts.root"), ("my-cluster", "env.remote_job_dir"),
        ("box", "env.mounts"),
    ],
)  # fmt: skip
def test_what_is_written_needs_a_user_there_is(recipe, profile, key):
    value = f'["{GONE}:/x"]' if key.endswith("mounts") else f'"{GONE}"'
    call("mine", "train", "-d", "--run", profile, f"run.{key}={value}").refuses("no user 'nosuchuser'", "fix:")
    assert not list(recipe.folder.glob("~*"))


@pytest.mark.parametrize("url", ["http://[::1", "http://[::1]:x", "http://a:99999999", "//", "\x1b[31m", "x"])
def test_an_address_that_is_none(recipe, monkeypatch, url):
    monkeypatch.setenv("WANDB_BASE_URL", url)
    call("mine", "train", "-d", "--run", "my-cluster").succeeds()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("profile", "key"),
    [
        *(("my-cluster", key) for key in ("time", "signal", "array", "nodes", "mem", "gpus_per_node", "qos")),
        *(("box", key) for key in ("shm_size", "memory", "stall_timeout")),
        *(("lepton", key) for key in ("nodes", "queue_timeout")),
        ("laptop", "nproc_per_node"),
        ("laptop", "max_gpu_hours"),
    ],
)
@pytest.mark.parametrize("number", ["9" * 40, "9" * 400, "9" * 5000, "1-" + "9" * 5000, "9" * 400 + "g", "²", "٣"])
def test_numbers_that_no_platform_has(recipe, profile, key, number):
    for value in (number, f"'{number}'"):
        outcome = call("mine", "train", "-d", "--run", profile, f"run.env.{key}={value}")
        assert outcome.code == 2 or number in "²٣" or len(number) < 100, outcome
        assert outcome.code in (0, 2)
    recipe.write("env.toml", ENV_TOML.replace(f"[{profile}]\n", f'[{profile}]\n{key} = "{number}"\n', 1))
    assert call("env", "check").code in (0, 2)


@pytest.mark.parametrize(
    ("mount", "said"),
    [
        ("git+https://host/x.git@a=b,/t", ""), ("git+https://höst/x.git@ü,/ü", ""), ("a@a=b,/t", "not git+URL@ref"),
        ("git+https://[::1@m,/t", "not a git+URL@ref"), (",,,,", "not git+URL@ref"), ("", "not git+URL@ref"),
        ("git+https://host/x@{a},/t", "cannot read run.env.mounts"),
        ('git+https://host/x@a"b,/t', "cannot read run.env.mounts"),
    ],
)  # fmt: skip
def test_mounts_of_repositories_in_any_words(recipe, mount, said):
    recipe.write("env.toml", ENV_TOML.replace("[box]\n", f"[box]\nmounts = ['''${{auto_mount:{mount}}}''']\n", 1))
    outcome = call("mine", "train", "-d", "--run", "box")
    if said:
        outcome.refuses(said, "env.toml:")
    else:
        outcome.succeeds()


@pytest.mark.parametrize("odd", ["FIFO", "device"])
def test_a_config_that_is_no_file_is_not_waited_for(recipe, odd):
    file = recipe.folder / "recipes" / "mine" / "train" / "config" / "odd.yaml"
    file.parent.mkdir(exist_ok=True)
    os.mkfifo(file) if odd == "FIFO" else file.symlink_to("/dev/zero")
    call("mine", "train", "--help").succeeds()
    assert call("mine", "train", "-c", "odd", "-d").code == 2


def test_a_script_of_a_job_that_is_no_file_is_not_waited_for(recipe):
    stored(store := JobStore(recipe.state / "jobs"), record("a-job", ("planned",)))
    os.mkfifo(store.folder("a-job") / "job.sh")
    call("jobs", "show", "a-job", "--script").refuses("it is a FIFO")
