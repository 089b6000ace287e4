"""What is shown is what NeMo-Run would submit, for any profile."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from nemo_runspec.backends.slurm import verified
from nemo_runspec.backends.slurm.fields import FIELDS
from nemo_runspec.backends.slurm.render import render, render_sbatch, submit_command
from nemo_runspec.errors import UserError
from nemo_runspec.field import problem_with

# Any text that a plan takes: quotes, shell characters, letters of any script, spaces and marks of any kind.
KINDS = st.characters(codec="utf-8").filter(verified.is_tried)
ODD = "\t '\"\\$`{}%#~;&|*\u0085\u00a0\u00ad\u200d\u2028\u2029\u3000\ufeff\ue000\U000e0041"
TEMPLATES = ("{{ b }}", "{% end %}", "{# x #}", "${img_root}", "$head_node_ip_var", "x /nemo_run/y", "a\\")
LINE = st.one_of(st.text(st.one_of(KINDS, st.sampled_from(ODD)), min_size=1, max_size=24), st.sampled_from(TEMPLATES))
WORD = st.from_regex(r"[a-z][a-z0-9_]{0,11}", fullmatch=True)
FOLDER = st.from_regex(r"/[A-Za-z0-9/._+=@-]{1,30}", fullmatch=True)
PATH = st.lists(WORD, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))
TARGET = st.one_of(PATH.map("/in{}".format), LINE.map(lambda text: "/in/" + text.replace(":", "").replace(",", "")))
COUNT = st.integers(1, 4096)
TIME = st.from_regex(r"([0-9]{1,2}-)?[0-9]{1,2}(:[0-5][0-9]){0,2}", fullmatch=True)
SOURCE = st.one_of(
    PATH, WORD.map("$HOME/{}".format), WORD.map("${{SCRATCH}}/{} x".format), PATH.map("/$nemo_run{}".format),
    LINE.map(lambda text: "/" + text.replace(":", "").replace(",", "")), PATH.map("/$nemo_run{} x".format),
)  # fmt: skip
MOUNT = st.tuples(SOURCE, TARGET, st.sampled_from(["", ":ro", ":rw+nosuid"])).map(lambda m: f"{m[0]}:{m[1]}{m[2]}")
MEMORY = st.one_of(st.integers(0, 10**6), st.sampled_from(["0", "200G", "1T"]), LINE)
OPTION = st.one_of(
    st.sampled_from(["mail_type", "mail-user", "reservation", "nodelist", "licenses", "nice", "spread_job", "ntasks"]),
    st.from_regex(r"(--)?[a-z][a-z0-9_-]{0,8}", fullmatch=True),
)
SCALAR = st.one_of(st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), LINE)
OPTIONAL = {
    "account": LINE, "partition": LINE, "run_partition": LINE, "batch_partition": LINE, "time": st.one_of(TIME, COUNT),
    "qos": LINE, "job_name_prefix": st.from_regex(r"[A-Za-z0-9_.+-]{0,12}", fullmatch=True),
    "retries": st.integers(0, 9),
    "dependencies": st.lists(st.sampled_from(["12", "34_5", "7+1", "8_*", "slurm_tunnel://nemo_run/99/master/0"])),
    "dependency_type": st.sampled_from(["afterok", "afterany"]),
    "additional_parameters": st.dictionaries(OPTION, SCALAR, max_size=4),
    "nodes": COUNT, "gpus_per_node": st.integers(0, 16), "nproc_per_node": COUNT, "cpus_per_task": COUNT,
    "cpus_per_gpu": COUNT, "gpus_per_task": COUNT, "mem": MEMORY, "mem_per_gpu": MEMORY, "mem_per_cpu": MEMORY,
    "exclusive": st.sampled_from([True, False, "user", "mcs", "topo"]), "gres": LINE, "constraint": LINE,
    "exclude": LINE,
    "segment": COUNT, "network": LINE, "array": st.one_of(st.integers(0, 99), st.sampled_from(["0-7%2", "1,3,5"])),
    "signal": st.sampled_from(["B:USR1@300", "TERM", "R:int@9"]), "comment": LINE, "resume": st.booleans(),
    "open_mode": st.sampled_from(["append", "truncate"]),
    "container_image": st.one_of(st.sampled_from(["nvcr.io#nvidia/nemo:25.04", "/images/nemo 25.sqsh"]), LINE),
    "mounts": st.lists(MOUNT, max_size=3, unique_by=lambda mount: mount.split(":")[1]),
    "container_env": st.lists(WORD.map(str.upper), max_size=3),
    "srun_args": st.lists(st.one_of(st.sampled_from(["--mpi=pmix", "--no-container-mount-home"]), LINE), max_size=3),
    "setup_lines": st.lists(st.one_of(LINE, st.sampled_from(["\n", "\r\n", "\r"])), min_size=1).map("".join),
    "memory_measure": st.booleans(),
    "remote_job_dir": st.one_of(PATH, st.just("~/runs"), PATH.map("{}/".format), FOLDER, FOLDER.map("~{}".format)),
}  # fmt: skip
TUNNELS = st.one_of(
    st.just({}), st.just({"tunnel": "local"}),
    st.fixed_dictionaries(
        {"tunnel": st.just("ssh"), "host": st.just("login.example.com")},
        optional={"user": WORD, "port": COUNT, "identity": st.just("~/.ssh/id")},
    ),
)  # fmt: skip
PROFILES = st.builds(lambda env, tunnel: {**env, **tunnel}, st.fixed_dictionaries({}, optional=OPTIONAL), TUNNELS)


@pytest.fixture(scope="module", autouse=True)
def plain_job_script():
    """The job script is another room's; here only its place matters."""
    patch = pytest.MonkeyPatch()
    patch.setattr("nemo_runspec.script.render.render_job_script", lambda plan, layout: f"cd {layout.code}\n")
    yield
    patch.undo()


def planned(make_plan, env, launch, mode, kind):
    """The plan of a profile; a profile that is refused is none to be tried."""
    if kind == "build":
        env = {key: value for key, value in env.items() if key not in ("nodes", "nproc_per_node")}
    try:
        return make_plan("slurm", env, launch=launch, mode=mode, kind=kind)
    except UserError:
        reject()


PLANS = {
    "env": PROFILES,
    "launch": st.sampled_from(["torchrun", "direct", "ray"]),
    "mode": st.sampled_from(["run", "batch"]),
    "kind": st.sampled_from(["", "build"]),
}


TRIED = int(os.environ.get("RENDERINGS_TRIED", "300"))
"""Profiles. Where the result is shipped, `renew_compared.py` has more of them tried."""


@pytest.mark.slow
@settings(max_examples=TRIED, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(**PLANS)
def test_every_profile_renders_as_nemo_run_renders_it(make_plan, env, launch, mode, kind):
    plan = planned(make_plan, env, launch, mode, kind)
    ours = render(plan).files[1].text
    assert ours == verified.nemo_run_rendering(plan)
    assert subprocess.run(["bash", "-n"], input=ours, text=True, capture_output=True).returncode == 0 or (
        not env.keys().isdisjoint(("setup_lines", "srun_args"))
    )


@pytest.mark.parametrize("container", [None, "nvcr.io#nvidia/nemo:25.04"])
def test_an_experiment_writes_the_same_text_in_its_own_directory(
    make_plan, container, tmp_path, monkeypatch, nobodys_environment
):
    """Nothing but the directory differs from what `nemo_run.Experiment` writes for an inline script."""
    import nemo_run as run
    from nemo_run import config

    from nemo_runspec.backends.slurm.executor import make_executor

    # NeMo-Run reads NEMORUN_HOME when it is imported, which another test may have done.
    monkeypatch.setattr(config, "_NEMORUN_HOME", str(nobodys_environment))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # NeMo-Run's subprocesses read it
    env = {
        "account": "team_llm",
        "nodes": 2,
        "gpus_per_node": 8,
        "container_image": container,
        "mounts": ["/data:/data"],
    }
    plan = make_plan("slurm", env)
    title = "with" if container else "without"
    with run.Experiment(title, clean_mode=True) as experiment:
        experiment.add(run.Script(inline="true"), executor=make_executor(plan), name=plan.name)
        experiment.dryrun(log=False, delete_exp_dir=False)
    written = next((nobodys_environment / "experiments" / title).rglob(f"{plan.name}_sbatch.sh")).read_text()
    theirs = re.search(r"--output=(\S+)/sbatch_", written)[1]
    assert written.replace(theirs, plan.job_dir) == render_sbatch(plan)


def test_the_job_script_comes_first_and_lies_where_the_batch_script_looks_for_it(make_plan):
    plan = make_plan("slurm", {"container_image": "img"})
    script, batch, functions = render(plan).files
    assert (functions.title, functions.name) == ("batch script's values", "batch.sh")
    assert (script.title, batch.title) == ("job script", "sbatch script")
    assert (script.title, script.name, script.text) == ("job script", f"scripts/{plan.name}.sh", "cd /nemo_run/code\n")
    assert f"bash /nemo_run/{script.name}\n" in batch.text
    assert f",{plan.job_dir}:/nemo_run " in batch.text


def test_without_a_container_everything_lies_in_the_job_directory(make_plan):
    plan = make_plan("slurm", {"remote_job_dir": "/lustre/me/run"})
    script, batch, _ = render(plan).files
    assert script.text == f"cd {plan.job_dir}/code\n"
    assert plan.job_dir == f"/lustre/me/run/jobs/{plan.name}"
    assert f"--chdir {plan.job_dir}/code " in batch.text
    assert f"bash {plan.job_dir}/{script.name}\n" in batch.text
    assert "/nemo_run" not in batch.text


def test_the_directory_for_jobs_is_seen_in_the_container_once(make_plan):
    own = make_plan("slurm", {"container_image": "i", "remote_job_dir": "/lustre/me/run", "mounts": ["/data:/data"]})
    covered = make_plan(
        "slurm", {"container_image": "i", "remote_job_dir": "/lustre/me/run", "mounts": ["/lustre:/lustre"]}
    )
    assert own.target.mounts == ("/data:/data", "/lustre/me/run:/lustre/me/run")
    assert covered.target.mounts == ("/lustre:/lustre",)


@pytest.mark.parametrize(("launch", "tasks"), [("torchrun", 1), ("ray", 1), ("direct", 8)])
def test_one_task_per_node_unless_direct(make_plan, launch, tasks):
    text = render_sbatch(make_plan("slurm", {"ntasks_per_node": 8, "gpus_per_node": 8}, launch=launch))
    assert f"#SBATCH --ntasks-per-node={tasks}\n" in text
    assert "#SBATCH --gpus-per-node=8\n" in text


def test_no_gpus_asks_for_none(make_plan):
    assert "gpus" not in render_sbatch(make_plan("slurm", {"gpus_per_node": 0}))


def test_no_variable_of_the_job_is_in_the_batch_script(make_plan):
    assert "s3cret-value" not in render_sbatch(make_plan("slurm", {}, variables={"NAME": "s3cret-value"}))


def test_submit_command_here_and_over_ssh(make_plan):
    here = make_plan("slurm", {"remote_job_dir": "/lustre/run"})
    path = f"/lustre/run/jobs/{here.name}/{here.name}_sbatch.sh"
    assert submit_command(here) == ("sbatch", "--requeue", "--parsable", path)
    env = {
        "tunnel": "ssh",
        "host": "login",
        "user": "me",
        "port": 2222,
        "identity": "~/.ssh/key",
        "remote_job_dir": "/lustre/run",
    }
    assert submit_command(make_plan("slurm", env))[:6] == ("ssh", "-p", "2222", "-i", "~/.ssh/key", "me@login")


def test_a_home_known_only_to_the_cluster_is_a_named_hole(make_plan):
    plan = make_plan("slurm", {"tunnel": "ssh", "host": "login.example.com", "container_image": "img"})
    shown = render(plan)
    assert shown.holes == (
        "@HOME@: the home directory of your user on login.example.com, asked for when it is submitted",
    )
    home = "/home/me"
    filled = replace(
        plan,
        job_dir=plan.job_dir.replace("@HOME@", home),
        target=replace(
            plan.target,
            remote_job_dir=plan.target.remote_job_dir.replace("@HOME@", home),
            mounts=tuple(m.replace("@HOME@", home) for m in plan.target.mounts),
        ),
    )
    assert render_sbatch(filled) == shown.files[1].text.replace("@HOME@", home)
    assert render(filled).holes == ()


@pytest.mark.slow
def test_a_difference_stops_the_submission(make_plan, monkeypatch):
    plan = make_plan("slurm", {})
    verified.assert_same(plan)
    monkeypatch.setattr(verified, "render_sbatch", lambda plan: "#!/bin/bash\n")
    with pytest.raises(UserError, match="nothing was submitted"):
        verified.assert_same(plan)


@pytest.mark.slow
def test_rendering_imports_no_nemo_run_and_reading_fields_no_jinja():
    code = """
import sys
import nemo_runspec.backends.slurm
assert not {"nemo_run", "jinja2"} & set(sys.modules), "fields"
from nemo_runspec.backends.slurm.render import _template
_template()
assert "nemo_run" not in sys.modules, "render"
import nemo_runspec.backends.docker, nemo_runspec.backends.lepton, nemo_runspec.backends.dgxcloud
assert not {"nemo_run", "leptonai", "requests", "docker", "torch", "ray"} & set(sys.modules), "others"
"""
    subprocess.run([sys.executable, "-c", code], check=True)


RENEW = "uv run --group dev python tests/backends/renew_compared.py"


def test_the_shipped_comparison_is_that_of_this_code():
    """Else every first submission of a user would import NeMo-Run, eight seconds of a processor, before it is sent."""
    shipped = json.loads(verified.SHIPPED.read_text(encoding="utf-8"))
    assert shipped == verified.renderings(), f"what renders a batch script has changed: {RENEW}"


def test_the_shipped_comparison_spares_the_first_submission_one(make_plan, monkeypatch):
    def compared(plan):
        raise AssertionError("it was compared again")

    monkeypatch.setattr(verified, "assert_same", compared)
    plan = make_plan("slurm", {"account": "a", "setup_lines": "module load cuda\nexport A=1", "comment": "é 漢"})
    verified.require_same(plan)


CONTROLS = "\x00\t\n\r\x1b\x7f\x85\u2028'\"$\\"
ANY = st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from(CONTROLS)), min_size=1, max_size=12)
WRITTEN = {"str": ANY, "int|str": ANY, "bool|str": ANY, "list[str]": st.lists(ANY, min_size=1, max_size=2)}
TEXTS = {field.name: field for field in FIELDS if field.type in WRITTEN and not field.choices}


@pytest.mark.parametrize("key", [*TEXTS, "additional_parameters"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_profile_makes_a_plan_beyond_what_was_tried(make_plan, key, data):
    """Whatever stands in it: it is refused, or the comparison that is shipped speaks for it."""
    value = data.draw(WRITTEN[TEXTS[key].type] if key in TEXTS else st.dictionaries(OPTION, ANY, min_size=1))
    if key in TEXTS and problem_with(TEXTS[key], value):
        return
    try:
        plan = make_plan("slurm", {"tunnel": "ssh", key: value} if key == "host" else {key: value})
    except UserError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verified, "_as_shipped", lambda: True)
        assert verified.is_proved(plan)


@pytest.mark.parametrize(
    "change", [{"ours": "another"}, {"theirs": "another"}, {"nemo_run": "0.12.0"}, None], ids=lambda change: str(change)
)
def test_what_the_shipped_comparison_does_not_know_is_compared(make_plan, monkeypatch, tmp_path, change):
    """Another NeMo-Run, a renderer that was changed, and values that the property test does not try."""
    if change is not None:
        (tmp_path / "compared.json").write_text(json.dumps({**verified.renderings(), **change}))
        monkeypatch.setattr(verified, "SHIPPED", tmp_path / "compared.json")
    verified._as_shipped.cache_clear()
    seen = []
    monkeypatch.setattr(verified, "assert_same", seen.append)
    plan = make_plan("slurm", {"account": "a"})
    if change is None:
        plan = replace(plan, target=replace(plan.target, comment="two\nlines"))
    try:
        verified.require_same(plan)
    finally:
        verified._as_shipped.cache_clear()
    assert seen == [plan]


def test_a_home_directory_followed_by_several_slashes(make_plan):
    plan = make_plan("slurm", {"tunnel": "ssh", "host": "login", "remote_job_dir": "~//runs"})
    assert plan.job_dir == f"@HOME@/runs/jobs/{plan.name}"
