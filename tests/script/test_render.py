"""The text of the job script, and what it does with one process."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from job_scripts import lay_out, plan_for, run_script, start_script
from waiting import line_of, until

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.jobside.environment import variables
from nemo_runspec.jobside.job import JobTask
from nemo_runspec.jobside.records import Folder
from nemo_runspec.packaging.package_paths import places_in_package
from nemo_runspec.plans.model import EnvVar, Package
from nemo_runspec.records.drawn import DrawnLines
from nemo_runspec.script.layout import JobLayout
from nemo_runspec.script.markers import NodeMarker, cause, command_ran, deciding_marker, parse_marker, read_markers
from nemo_runspec.script.node_identity import node_identity_of
from nemo_runspec.script.quoting import assignments, json_page
from nemo_runspec.script.render import job_values, render_job_script
from nemo_runspec.script.reserved import RESERVED, WAITS, check_environment
from nemo_runspec.supervise.outcome import outcome_of

HOSTILE = (
    "a b",
    "",
    "$HOME",
    "q'\"x",
    "new\nline\n",
    "tab\there",
    "ünï ☃",
    "--flag=$(id)",
    "`id`",
    "*",
    "\\",
    "!x",
    "{}",
)
TELL = """
    import json, os, sys
    print(json.dumps({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}))
"""


def told(output: str) -> dict:
    lines = [line for line in output.splitlines() if line.startswith('{"argv"')]
    assert len(lines) == 1, output
    return json.loads(lines[0])


def marker(plan):
    found = deciding_marker(read_markers(Path(JobLayout(plan.job_dir).status)))
    assert found is not None
    return found


def test_the_same_plan_gives_the_same_text_and_bash_reads_it(tmp_path):
    for executor in ("local", "docker", "slurm", "dgxcloud", "lepton"):
        for launch in ("direct", "torchrun", "ray"):
            for nodes in (1, 2):
                plan = plan_for(tmp_path, executor=executor, launch=launch, nodes=nodes, args=HOSTILE)
                text = render_job_script(plan, JobLayout("/nemo_run"))
                assert text == render_job_script(plan, JobLayout("/nemo_run"))
                subprocess.run(["bash", "-n"], input=text, text=True, check=True)


def test_arguments_arrive_unchanged(tmp_path):
    code, output = run_script(plan_for(tmp_path, TELL, args=HOSTILE), tmp_path)
    assert code == 0, output
    assert told(output)["argv"] == list(HOSTILE)


def test_arguments_arrive_unchanged_through_a_recipes_own_command(tmp_path):
    plan = plan_for(tmp_path, TELL, args=HOSTILE, cmd="X=1 python -u {script} --cfg {config}")
    code, output = run_script(plan, tmp_path)
    assert code == 0, output
    seen = told(output)
    assert seen["argv"] == ["--cfg", f"{plan.job_dir}/train.yaml", *HOSTILE]
    assert seen["env"]["X"] == "1"


@pytest.mark.slow
@settings(max_examples=15)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=6))
def test_any_argument_arrives_unchanged(tmp_path_factory, arguments):
    top = tmp_path_factory.mktemp("arguments")
    code, output = run_script(plan_for(top, TELL, args=tuple(arguments)), top)
    assert code == 0, output
    assert told(output)["argv"] == arguments


@pytest.mark.parametrize("bad", ["a\0b", "a\udcff"])
def test_what_no_script_can_hold_is_refused(tmp_path, bad):
    with pytest.raises(UserError):
        render_job_script(plan_for(tmp_path, args=(bad,)), JobLayout("/x"))


def test_a_bad_variable_name_is_refused(tmp_path):
    with pytest.raises(UserError, match="A;rm"):
        render_job_script(plan_for(tmp_path, env={"A;rm": "x"}), JobLayout("/x"))


@pytest.mark.parametrize("name", [*sorted(RESERVED), "nemotron_status", "UID", "A-B", "1A"])
def test_a_variable_the_job_would_not_get_is_refused_with_its_source(tmp_path, name):
    with pytest.raises(UserError, match=f"^'?{name}'? ") as caught:
        check_environment([EnvVar(name, "7", "env.toml:3")])
    assert caught.value.where == "env.toml:3"
    with pytest.raises(UserError, match=name):
        render_job_script(plan_for(tmp_path, env={name: "7"}), JobLayout("/x"))


def test_all_bad_variables_at_once_and_secrets_by_name():
    check_environment([EnvVar("MASTER_ADDR", "a", ""), EnvVar("NEMOTRON_BARRIER_SECONDS", "1", "")], ["HF_TOKEN"])
    with pytest.raises(Problems) as caught:
        check_environment([EnvVar("RANK", "7", "x")], ["MY-KEY", "OK", "MY-KEY", "WORLD_SIZE"])
    assert [problem.what.split()[0] for problem in caught.value.problems] == ["RANK", "'secrets:", "secrets:"]


@pytest.mark.parametrize("value", ["", "10m", "-1", "1.5", "$(date)", "9" * 10])
def test_seconds_that_are_none_are_refused_with_their_source(value):
    for name in WAITS:
        with pytest.raises(UserError, match=f"^{name} is a number of seconds") as caught:
            check_environment([EnvVar(name, value, "env.toml:3")])
        assert caught.value.where == "env.toml:3"


def test_names_that_the_job_script_uses_itself_arrive(tmp_path):
    names = ("code", "rank", "status", "signals", "watch", "out", "reader", "tries", "out", "file", "task", "oom")
    values = {name: f"the user's {name}" for name in names}
    code, output = run_script(plan_for(tmp_path, TELL, env=values), tmp_path)
    assert code == 0, output
    assert {name: told(output)["env"].get(name) for name in names} == values


def test_a_script_of_ones_own_imports_what_lies_beside_it(tmp_path):
    plan = plan_for(tmp_path, "import os, utils; print(utils.WORD, os.environ['PYTHONPATH'])")
    file = replace(plan.bundle.files[0], path="main.py")
    plan = replace(plan, bundle=replace(plan.bundle, files=(file,)), launch=replace(plan.launch, script="main.py"))
    (tmp_path / "source" / "utils.py").write_text("WORD = 'found'")
    code, output = run_script(plan, tmp_path, PYTHONPATH="/of/mine")
    assert code == 0, output
    assert f"found {tmp_path}/source:/of/mine" in output


def own_script(tmp_path: Path, script: str, package: Package, executor: str = "local"):
    """A plan of a script of the user's own, in `source/`, with a module beside it that must not be imported."""
    plan = plan_for(tmp_path, script, executor=executor)
    file = replace(plan.bundle.files[0], path="main.py")
    (tmp_path / "source" / "utils.py").write_text("WORD = 'not packaged'")
    bundle = replace(plan.bundle, files=(file,))
    beside = places_in_package(package, Path(plan.recipe.script).parent)
    return replace(plan, bundle=bundle, launch=replace(plan.launch, script="main.py", beside=beside), package=package)


@pytest.mark.parametrize("executor", ["local", "docker"])
@pytest.mark.parametrize(
    ("kind", "root", "options", "folder"),
    [
        ("git", "", {}, "source"),
        ("git", "", {"packager_subpath": "source/"}, ""),
        ("pattern", "", {"packager_include_pattern": "**"}, "source"),
        ("pattern", "", {"packager_include_pattern": ["*", "*"], "packager_relative_path": ["other", "source"]}, ""),
        ("pattern", "source", {"packager_include_pattern": "**"}, ""),
        ("hybrid", "", {"packager_sub_packagers": {"code": {"packager": "git", "subpath": "source"}}}, "code"),
        ("hybrid", "", {"packager_sub_packagers": {"all": {"packager": "git", "merge": "a b"}}}, "a b/source"),
    ],
)
def test_a_packaged_script_imports_from_the_package(tmp_path, executor, kind, root, options, folder):
    package = Package(kind, str(tmp_path / root), options)
    script = "import os, utils; print(utils.WORD, os.getcwd(), os.environ['PYTHONPATH'])"
    plan = own_script(tmp_path, script, package, executor)
    code = Path(JobLayout(plan.job_dir).code)
    (code / folder).mkdir(parents=True)
    (code / folder / "utils.py").write_text("WORD = 'packaged'")
    exit_code, output = run_script(plan, tmp_path)
    assert exit_code == 0, output
    assert f"packaged {code} {code / folder}:{code}\n" in output


@pytest.mark.parametrize(
    ("executor", "package"),
    [
        ("local", Package("git", "/elsewhere")),
        ("local", Package("hybrid", "/elsewhere", {"packager_sub_packagers": {"a": {"packager": "git"}}})),
    ],
)
def test_a_script_outside_the_package_imports_what_lies_beside_it(tmp_path, executor, package):
    plan = own_script(tmp_path, "import utils; print(utils.WORD)", package, executor)
    Path(JobLayout(plan.job_dir).code).mkdir(parents=True)
    assert "not packaged\n" in run_script(plan, tmp_path)[1]


def test_a_script_that_several_parts_may_bring_imports_from_each_of_them(tmp_path):
    parts = {"data": {"include_pattern": "data/*"}, "code": {"include_pattern": "source/*.py"}}
    package = Package("hybrid", str(tmp_path), {"packager_sub_packagers": parts})
    plan = own_script(tmp_path, "import utils; print(utils.WORD)", package)
    folder = Path(JobLayout(plan.job_dir).code, "code/source")
    folder.mkdir(parents=True)
    (folder / "utils.py").write_text("WORD = 'packaged'")
    assert "packaged\n" in run_script(plan, tmp_path)[1]


def test_on_another_machine_nothing_of_this_one_is_on_the_path(tmp_path):
    text = render_job_script(own_script(tmp_path, "", Package("git", "/elsewhere"), "docker"), JobLayout("/job"))
    assert str(tmp_path) not in text.split("nemotron_command() {")[1].split("}")[0]


def test_a_recipes_folder_is_not_on_the_path_of_imports(tmp_path):
    code, output = run_script(plan_for(tmp_path, TELL), tmp_path, PYTHONPATH="/of/mine")
    assert (code, told(output)["env"]["PYTHONPATH"]) == (0, "/of/mine")


def test_code_that_travels_can_be_imported(tmp_path):
    plan = replace(plan_for(tmp_path, TELL, executor="docker"), package=Package("git"))
    code = JobLayout(plan.job_dir).code
    Path(code).mkdir(parents=True)
    assert told(run_script(plan, tmp_path, PYTHONPATH="/image")[1])["env"]["PYTHONPATH"] == f"{code}:/image"
    seen = told(run_script(replace(plan, executor="local"), tmp_path, PYTHONPATH="/mine")[1])
    assert (seen["env"]["PYTHONPATH"], seen["cwd"]) == (f"{code}:/mine", code)


def test_records_are_the_owners_alone_and_the_commands_umask_stays(tmp_path):
    plan = plan_for(tmp_path, "import os; print('umask', oct(os.umask(0))); raise SystemExit(3)")
    before = os.umask(0o022)
    try:
        code, output = run_script(plan, tmp_path)
    finally:
        os.umask(before)
    assert (code, "umask 0o22" in output) == (3, True)
    status = Path(JobLayout(plan.job_dir).status)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (status, *status.rglob("*")) if path.is_dir()}
    assert modes == {0o700}
    files = [path for path in status.rglob("*") if path.is_file()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert {path.name for path in files} == {"node-0", "rank-0", "shell-0", "failed.0"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_what_root_records_belongs_to_the_owner_of_the_folder(tmp_path):
    plan = plan_for(tmp_path, "raise SystemExit(3)", executor="docker")
    status = Path(JobLayout(plan.job_dir).status)
    status.mkdir(parents=True)
    os.chown(status, 4321, 4321)
    assert run_script(plan, tmp_path)[0] == 3
    assert {path.stat().st_uid for path in status.rglob("*")} == {4321}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
@pytest.mark.parametrize("found", [True, False], ids=["find", "no-find"])
def test_what_root_makes_for_somebody_else_is_theirs_at_the_end(tmp_path, found):
    run_dir = tmp_path / "run"
    (run_dir / "old").mkdir(parents=True)
    (run_dir / "old" / "of root").write_text("")
    outside = tmp_path / "outside"
    outside.write_text("")
    script = """
        import os, pathlib, shutil
        assert "NEMOTRON_OWNER" not in os.environ
        here, run = (pathlib.Path(os.environ[n]) for n in ("NEMOTRON_JOB_DIR", "NEMO_RUN_DIR"))
        for top in (here, run):
            (top / "a b" / "c").mkdir(parents=True)
            (top / "a b" / "c" / "new\\nline").write_text("")
            (top / "link").symlink_to(run.parent / "outside")
            shutil.copy2(here / "job.sh", top / "copied with its times")
        os.chown(run / "a b" / "c", 77, 77)
        raise SystemExit(3)
    """
    plan = plan_for(tmp_path, script, executor="docker", env={"NEMO_RUN_DIR": str(run_dir)})
    layout = lay_out(plan)
    tools = tmp_path / "tools"
    tools.mkdir()
    for folder in map(Path, os.environ["PATH"].split(":")):
        for tool in folder.glob("*") if folder.is_dir() else ():
            if tool.name != "find" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)
    path = os.environ["PATH"] if found else str(tools)
    process = start_script(layout, tmp_path, NEMOTRON_OWNER="4321:4322", PATH=f"{Path(sys.executable).parent}:{path}")
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 3, output

    def owners(top: Path) -> set[tuple[int, int]]:
        return {(p.lstat().st_uid, p.lstat().st_gid) for p in (top, *top.rglob("*"))}

    job = Path(plan.job_dir)
    made = [job / "a b", job / "link", job / "copied with its times", job / "status" / "node-0"]
    made += [run_dir / "a b" / "c" / "new\nline", run_dir / "link", run_dir / "copied with its times"] if found else []
    assert {who for path in made for who in owners(path)} == {(4321, 4322)}
    assert owners(run_dir / "a b" / "c") >= {(77, 77)}
    assert owners(run_dir / "old") == owners(outside) == {(0, 0)}
    assert not list(job.rglob("began*"))


def test_nothing_is_given_away_where_nobody_asked(tmp_path):
    plan = plan_for(tmp_path, "open('/dev/null')", executor="docker")
    assert run_script(plan, tmp_path)[0] == 0
    assert {p.lstat().st_uid for p in Path(plan.job_dir).rglob("*")} == {os.geteuid()}


def test_config_and_environment(tmp_path):
    values = {"PLAIN": "x", "HARD": "a 'b' \"c\" $d\n`e` ü"}
    plan = plan_for(tmp_path, TELL, env=values, takes_config=True)
    code, output = run_script(plan, tmp_path, MASTER_ADDR="leaked", RANK="7", WORLD_SIZE="9")
    assert code == 0, output
    seen = told(output)
    assert seen["argv"] == ["--config", f"{plan.job_dir}/train.yaml"]
    assert {key: seen["env"][key] for key in values} == values
    expected = {
        "NEMOTRON_NODE_RANK": "0", "NEMOTRON_NUM_NODES": "1", "NEMOTRON_NODE_IPS": "127.0.0.1",
        "NEMOTRON_GPUS_PER_NODE": "0", "NNODES": "1", "NODE_RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "NEMOTRON_JOB_NAME": plan.name, "NEMOTRON_JOB_DIR": plan.job_dir,
        "NEMOTRON_METRICS_FILE": f"{plan.job_dir}/metrics.jsonl", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    assert {key: seen["env"].get(key) for key in expected} == expected
    assert 1024 < int(seen["env"]["MASTER_PORT"]) < 65536
    assert "RANK" not in seen["env"]
    assert seen["cwd"] == str(tmp_path)


@pytest.mark.parametrize(
    ("launcher", "world", "expected"),
    [("direct", "", "2"), ("torchrun", "", "16"), ("ray", "", None)]
    + [(launcher, "nodes", "2") for launcher in ("direct", "torchrun", "ray")],
)
def test_what_world_size_counts(tmp_path, monkeypatch, launcher, world, expected):
    """It is made in one place, for every launcher; the GPUs that a container's own launcher reads may be the user's."""
    given = {"world_size": world} if world else {}
    plan = plan_for(tmp_path, TELL, launch=launcher, executor="docker", nodes=2, processes=8, **given)
    plan = replace(plan, resources=replace(plan.resources, gpus_per_node=8))
    values = json_page(job_values(plan, node_identity_of("docker")))
    job = JobTask(values, [f"root={tmp_path}", "node=1", "nodes=2"])
    monkeypatch.setenv("WORLD_SIZE", "9")
    found = variables(job, Folder(job.status), {"MASTER_ADDR": "a", "MASTER_PORT": "1", "NEMOTRON_NODE_IPS": "a\nb"})
    assert found.get("WORLD_SIZE") == expected
    assert found.get("NUM_GPU_PER_NODE") == ("8" if world else None)
    own = render_job_script(replace(plan, env=(EnvVar("NUM_GPU_PER_NODE", "4", "test"),)), JobLayout("/x"))
    assert "\nexport NUM_GPU_PER_NODE=4\n" in own.split("start.sh")[1]


def test_bash_reads_what_is_assigned_as_it_was():
    text = assignments({"one": HOSTILE[0], "many": HOSTILE, "none": ()})
    shown = 'printf \'%s\\0\' "$one" "${many[@]}" "${none[@]}"'
    done = subprocess.run(["bash", "-c", f"{text}\n{shown}"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\0") == [HOSTILE[0], *HOSTILE, ""]


def test_a_master_the_user_names_is_kept(tmp_path):
    plan = plan_for(tmp_path, TELL, env={"MASTER_ADDR": "10.1.2.3", "MASTER_PORT": "4567"})
    seen = told(run_script(plan, tmp_path)[1])["env"]
    assert (seen["MASTER_ADDR"], seen["MASTER_PORT"]) == ("10.1.2.3", "4567")


def test_workdir(tmp_path):
    folder = tmp_path / "a b $c"
    plan = plan_for(tmp_path, TELL, workdir=str(folder), setup=(f"mkdir '{folder}'",))
    code, output = run_script(plan, tmp_path)
    assert code == 0, output
    assert told(output)["cwd"] == str(folder)


def test_a_missing_workdir_is_named(tmp_path):
    plan = plan_for(tmp_path, TELL, workdir="/no/such")
    code, output = run_script(plan, tmp_path)
    assert code == 1
    assert "node 0 failed in its setup: change to /no/such" in output


def test_the_code_package_is_the_working_directory(tmp_path):
    plan = replace(plan_for(tmp_path, TELL, executor="docker"), package=Package("git"))
    Path(JobLayout(plan.job_dir).code).mkdir(parents=True)
    assert told(run_script(plan, tmp_path)[1])["cwd"] == JobLayout(plan.job_dir).code


@pytest.mark.parametrize("code", [0, 1, 3, 127])
def test_exit_codes(tmp_path, code):
    plan = plan_for(tmp_path, f"raise SystemExit({code})")
    assert run_script(plan, tmp_path)[0] == code
    assert marker(plan).exit_code == code
    assert marker(plan).phase == "command"


@pytest.mark.parametrize(
    ("cmd", "code"),
    [
        ("false; python {script}", 1),
        ("(exit 3) | cat; python {script}", 3),
        ("python {script} > /dev/null | (exit 4) | cat", 4),
        ("{{ false; python {script}; }} && true", 0),
        ("f() { (exit 5); echo reached; }; f", 5),
        ("if false; then :; fi; false || python {script}", 0),
    ],
)
def test_a_failing_part_of_a_recipes_own_command_fails_the_job(tmp_path, cmd, code):
    seen, output = run_script(
        plan_for(tmp_path, "print('ran')", cmd=cmd.replace("{{", "{").replace("}}", "}")), tmp_path
    )
    assert (seen, "ran" in output, "reached" in output) == (code, code == 0, False), output


def test_killed_by_a_signal(tmp_path):
    plan = plan_for(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert run_script(plan, tmp_path)[0] == 137
    assert (marker(plan).signal, marker(plan).rank) == (9, None)
    assert cause(marker(plan)) == "the command was killed by signal 9 (SIGKILL)"


def test_an_exit_status_like_that_of_a_signal_is_not_taken_for_one(tmp_path):
    plan = plan_for(tmp_path, "raise SystemExit(137)", setup=("set -x",))
    assert run_script(plan, tmp_path)[0] == 137
    assert marker(plan).signal is None
    assert cause(marker(plan)) == "exit code 137 (as after signal 9, SIGKILL)"


@pytest.mark.parametrize(("number", "known"), [(6, 6), (11, 11), (15, 15), (1, 1), (2, None)])
def test_signals_that_bash_tells(tmp_path, number, known):
    plan = plan_for(tmp_path, f"import os; os.kill(os.getpid(), {number})", cmd=None)
    if number == 2:
        plan = plan_for(tmp_path, f"import os, signal; signal.signal({number}, signal.SIG_DFL); os.kill(0, {number})")
        plan = replace(plan, launch=replace(plan.launch, cmd="setsid python {script}"))
    assert run_script(plan, tmp_path)[0] == 128 + number
    assert marker(plan).signal == known


def test_a_signal_that_is_not_known_is_still_one_where_the_kernel_ran_out_of_memory():
    assert cause(NodeMarker(0, 137, rank=0, oom=True)) == "rank 0 was killed by the kernel: out of memory"
    assert cause(NodeMarker(0, 143, rank=0)) == "rank 0 ended with exit code 143 (as after signal 15, SIGTERM)"
    assert cause(NodeMarker(0, 255)) == "exit code 255"


@pytest.mark.parametrize(
    "setup", [("true", "exit 0"), ("true", "trap - TERM; exit"), ("true", "set -e; exit 0; false")]
)
def test_a_setup_that_ends_the_script_is_no_success(tmp_path, setup):
    plan = plan_for(tmp_path, TELL, setup=setup)
    code, output = run_script(plan, tmp_path)
    assert (code, "argv" in output) == (1, False)
    assert (marker(plan).phase, marker(plan).exit_code) == ("setup", 1)
    assert "node 0: setup ended the script before the command (startup command 2 of 2), exit code 1" in cause(
        marker(plan)
    )
    assert not command_ran([marker(plan)])


@pytest.mark.parametrize("setup", ["exec true", "trap - EXIT; exit 0", "set -n"])
def test_a_setup_that_ends_its_shell_without_a_word_is_no_success(tmp_path, setup):
    plan = plan_for(tmp_path, TELL, setup=(setup,))
    code, output = run_script(plan, tmp_path)
    assert (code, "argv" in output) == (1, False)
    found = read_markers(Path(JobLayout(plan.job_dir).status))
    assert not command_ran(found)
    outcome = outcome_of(1, deciding_marker(found))
    assert (outcome.state, outcome.exit_code) == ("failed", 1)
    assert "setup ended the script before the command (startup command 1 of 1)" in outcome.cause
    assert outcome_of(0, None).cause == "the job script ended without running the command"


def test_every_node_must_have_run_the_command(tmp_path):
    assert command_ran([NodeMarker(0, 0)])
    assert not command_ran([NodeMarker(0, 0), NodeMarker(0, 0)], nodes=2)
    assert command_ran([NodeMarker(0, 0), NodeMarker(1, 3)], nodes=2)
    assert not command_ran([NodeMarker(0, 1, phase="setup")])
    plan = plan_for(tmp_path, TELL)
    assert run_script(plan, tmp_path)[0] == 0
    assert outcome_of(0, marker(plan)).state == "succeeded"


def test_startup_commands_share_the_shell_of_the_command(tmp_path):
    setup = ("export FIRST='a b'", 'SECOND="$FIRST c"; export SECOND', 'if [ -n "$NOT_SET_ANYWHERE" ]; then exit 9; fi')
    code, output = run_script(plan_for(tmp_path, TELL, setup=setup), tmp_path)
    assert code == 0, output
    assert told(output)["env"]["SECOND"] == "a b c"


@pytest.mark.parametrize(("command", "code"), [("false", 1), ("exit 5", 5), ("false | cat", 1), ("echo 'open", 1)])
def test_a_failing_startup_command_fails_the_job(tmp_path, command, code):
    plan = plan_for(tmp_path, TELL, setup=("true", command))
    seen, output = run_script(plan, tmp_path)
    assert (seen != 0, "argv" in output) == (True, False)
    assert "node 0 failed in its setup: startup command 2 of 2" in output
    assert (marker(plan).phase, marker(plan).exit_code) == ("setup", seen)
    assert seen == code or command.startswith("echo")


def test_output_comes_line_by_line_and_whole(tmp_path):
    script = r"""
        import sys, time
        sys.stdout.write("no end of line yet"); sys.stdout.flush(); time.sleep(0.5)
        print(" and here it is")
        for n in range(3):
            sys.stderr.write(f"\r {n}%"); sys.stderr.flush(); time.sleep(0.05)
        print("\nwindows\r\nü\n\n" + "x" * 100_000 + "\nthe last one", end="")
    """
    process = start_script(lay_out(plan_for(tmp_path, script)), tmp_path)
    lines = DrawnLines().take(process.stdout.buffer.read()).decode().splitlines()
    assert process.wait(timeout=120) == 0
    expected = ["no end of line yet and here it is", " 2%", "windows", "ü", "", "x" * 100_000]
    assert lines == [*expected, "the last one"]


def test_a_progress_bar_is_not_held_back(tmp_path):
    """What is read while the bar stands still is not all that there is at the job's end."""
    script = r"""
        import sys, time
        for n in range(2):
            sys.stderr.write(f"\r {n}%"); sys.stderr.flush()
        time.sleep(600)
    """
    process = start_script(lay_out(plan_for(tmp_path, script)), tmp_path)
    assert any(line_of(process.stdout.buffer) == b"\r 1%\r\n" for _ in range(2))  # both may be read at once
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 143


@pytest.mark.slow
def test_what_the_command_leaves_behind_does_not_hold_the_job(tmp_path):
    plan = plan_for(tmp_path, "import subprocess; subprocess.Popen(['sleep', '600'])")
    process = start_script(lay_out(plan), tmp_path)
    assert process.wait(timeout=120) == 0
    subprocess.run(["pkill", "-s", str(process.pid)], check=False)


@pytest.mark.parametrize("cmd", [None, "python {script}", "true; python {script}; exit $?"])
def test_a_signal_reaches_the_command_once_and_its_own_ending_counts(tmp_path, cmd):
    script = """
        import signal, sys, time
        got = []
        signal.signal(signal.SIGTERM, lambda *_: got.append(1))
        print("ready", flush=True)
        while not got:
            time.sleep(0.05)
        time.sleep(0.5)
        print("signals", len(got), flush=True)
        sys.exit(7)
    """
    plan = plan_for(tmp_path, script, cmd=cmd)
    process = start_script(lay_out(plan), tmp_path)
    assert "ready" in line_of(process.stdout)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert "signals 1" in output
    assert process.returncode == 7
    assert (marker(plan).received, marker(plan).exit_code) == ("TERM", 7)


def test_ctrl_c_reaches_python(tmp_path):
    script = """
        import time
        try:
            print("ready", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            raise SystemExit(4)
    """
    process = start_script(lay_out(plan_for(tmp_path, script)), tmp_path)
    assert "ready" in line_of(process.stdout)
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode == 4


def test_a_signal_during_setup_ends_the_job(tmp_path):
    plan = plan_for(tmp_path, TELL, setup=("echo ready; sleep 600",))
    process = start_script(lay_out(plan), tmp_path)
    assert line_of(process.stdout) == "ready\n"
    # The sleep must be the program it is: before, it is bash, which would keep the signal for itself.
    until(lambda: "sleep" in programs_of(process.pid), "the sleep")
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 143, output
    assert marker(plan).exit_code == 143


@pytest.mark.parametrize("cmd", [None, "python {script}; true"])
def test_a_signal_that_means_no_end_is_kept_until_the_command_is_ready_for_it(tmp_path, cmd):
    script = """
        import signal, time
        time.sleep(1)
        heard = []
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        until = time.time() + 60
        while not heard and time.time() < until:
            time.sleep(0.05)
        time.sleep(1)
        print("heard", len(heard))
    """
    go = tmp_path / "go"
    plan = plan_for(tmp_path, script, setup=(f"echo ready; until [ -e {go} ]; do sleep 0.05; done",), cmd=cmd)
    process = start_script(lay_out(plan), tmp_path)
    assert line_of(process.stdout) == "ready\n"
    os.kill(process.pid, signal.SIGUSR1)
    go.touch()
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (0, "heard 1\n")


def test_a_trap_of_the_users_own_shell_has_its_signal_at_once(tmp_path):
    line = "trap 'echo heard it; exit 5' USR1; while true; do sleep 0.1; done"
    process = start_script(lay_out(plan_for(tmp_path, cmd=line, setup=("echo ready",))), tmp_path)
    assert line_of(process.stdout) == "ready\n"
    until(lambda: "sleep" in programs_below(process.pid), "its loop")
    os.kill(process.pid, signal.SIGUSR1)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, "heard it\n" in output) == (5, True), output


def programs_below(pid: int) -> list[str]:
    """The names of the programs that descend from a process."""
    table = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True).stdout
    rows = [(int(one), int(parent), name) for one, parent, name in (row.split(None, 2) for row in table.splitlines())]
    found, names = {pid}, []
    while more := [row for row in rows if row[1] in found and row[0] not in found]:
        found |= {row[0] for row in more}
        names += [row[2] for row in more]
    return names


def programs_of(session: int) -> list[str]:
    """The names of the programs that run in a session."""
    return subprocess.run(["ps", "-o", "comm=", "--sid", str(session)], capture_output=True, text=True).stdout.split()


def test_secrets_are_read_untraced_and_removed(tmp_path):
    plan = plan_for(tmp_path, TELL, executor="docker", setup=("set -x",))
    layout = lay_out(plan)
    Path(layout.secrets).write_text("export HF_TOKEN='hf_s3cr3t value'\n")
    process = subprocess.run(
        ["bash", "-x", layout.job_script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr
    assert told(process.stdout)["env"]["HF_TOKEN"] == "hf_s3cr3t value"
    assert "hf_s3cr3t" not in process.stderr
    assert "+ nemotron_run" in process.stderr
    assert not Path(layout.secrets).exists()


def memory_group(tmp_path: Path, megabytes: int) -> tuple[Path, str]:
    """A control group with a memory limit, and where the processes to put into it are written."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = Path(root) / f"nemotron-test-{os.getpid()}"
        try:
            folder.mkdir()
            (folder / limit).write_text(str(megabytes << 20))
        except OSError:
            if folder.is_dir():
                folder.rmdir()
            continue
        return folder, str(folder / "cgroup.procs")
    pytest.skip("lab: no writable memory control group here (needs root)")


def is_removed(folder: Path) -> bool:
    """Removes a control group, which can be done once the last of its processes has been waited for."""
    with suppress(OSError):
        folder.rmdir()
    return not folder.exists()


def test_out_of_memory_is_recorded(tmp_path):
    folder, members = memory_group(tmp_path, 200)
    plan = plan_for(tmp_path, "x = bytearray(600 << 20); print(len(x))")
    layout = lay_out(plan)
    try:
        shell = f"echo $$ > {members} && exec bash {layout.job_script}"
        done = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    finally:
        until(lambda: is_removed(folder), "the end of all that was in the group")
    assert done.returncode == 137, done
    assert marker(plan).oom
    assert cause(marker(plan)) == "the command was killed by the kernel: out of memory"


def test_an_attempt_is_said_and_recorded(tmp_path):
    plan = plan_for(tmp_path, "import os; print('try', os.environ['NEMOTRON_ATTEMPT'])", executor="slurm")
    code, output = run_script(plan, tmp_path, SLURM_JOB_ID="7", SLURM_RESTART_COUNT="2", NEMOTRON_ATTEMPTS="4")
    assert (code, marker(plan).attempt) == (0, 2), output
    assert output.splitlines() == ["nemotron: attempt 3 of 4", "try 2"]


def test_a_marker_of_an_older_script_names_no_attempt(tmp_path):
    text = (
        "node=0\nhost=n\nphase=command\nexit_code=0\nsignal=\nrank=\noom=0\nreceived=\nattempt=0\n"
        "reason=\nstarted=1.5\nended=2.5\n"
    )
    assert (parse_marker(text).attempt, parse_marker(text.replace("attempt=0\n", "")).attempt) == (0, None)


def test_what_a_job_is_told_is_for_its_command_alone(tmp_path):
    """As Slurm's batch shell tells it. The script itself gets no signal."""
    script = """
    import os, pathlib, signal, sys, time
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit("heard it"))
    told = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"], "status", "gates-7-0", "told.1")
    told.with_suffix(".tmp").write_text("USR1\\n")
    told.with_suffix(".tmp").rename(told)
    time.sleep(600)
    """
    plan = plan_for(tmp_path, script, executor="slurm")
    code, output = run_script(plan, tmp_path, SLURM_JOB_ID="7")
    assert (code, marker(plan).received) == (1, "USR1")
    assert "heard it\n" in output
