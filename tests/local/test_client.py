"""Local jobs, really run: exit codes, records, redaction, signals; no process stays behind."""

from __future__ import annotations

import json
import os
import pickle
import pty
import select
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from job_scripts import plan_for
from waiting import LONG, line_of, until

from nemo_runspec.backends import get_backend
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.local import processes
from nemo_runspec.backends.local.render import render
from nemo_runspec.backends.local.worker import job_environment
from nemo_runspec.console import Console
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Artifact, EnvVar, PythonEnv
from nemo_runspec.records import JobStore
from nemo_runspec.submission.request import Submission
from nemo_runspec.supervise.client import run

JOBKIT = str(Path(__file__).parents[1])
CALL = """
import pickle, sys
sys.path.insert(0, {job_scripts!r})
from nemo_runspec.console import TerminalConsole
from nemo_runspec.supervise.client import run
from nemo_runspec.submission.request import Submission
plan, grace = pickle.load(open({file!r}, "rb"))
job = Submission(plan, "{{}}", {{"MY_KEY": "s3cret-value"}}, ("nemotron",))
sys.exit(run(job, console=TerminalConsole(), grace=grace))
"""
READY = "import os, sys, time\nprint('ready', os.getpid(), flush=True)\n"
FOR_LONG = "time.sleep(600)"
"""Longer than any test waits: what is over then was ended."""


class Lines(Console):
    def __init__(self):
        self.text = []

    def say(self, text):
        self.text.append(text)

    @property
    def all(self):
        return "\n".join(self.text)


@pytest.fixture(autouse=True)
def python_on_path(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
def call(capfdbinary):
    def go(plan, secrets=None, **more):
        lines = Lines()
        code = run(Submission(plan, "{}\n", secrets or {}, ("nemotron",)), console=lines, **more)
        return code, capfdbinary.readouterr().out.decode(), lines.all

    return go


@pytest.fixture
def start(tmp_path):
    """The client in a process of its own."""
    started = []

    def go(plan, grace=10.0, **more):
        file = tmp_path / "plan.pickle"
        file.write_bytes(pickle.dumps((plan, grace)))
        code = CALL.format(job_scripts=JOBKIT, file=str(file))
        values = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True, **more}
        child = subprocess.Popen([sys.executable, "-c", code], **values)
        started.append((child, plan))
        return child

    yield go
    for child, plan in started:
        child.kill()
        child.wait()
        processes.kill_all(plan.job_dir, child.pid)


def record(plan):
    return JobStore(Path(plan.job_dir).parent).get(plan.name)


def wait_ready(child, count=1):
    found = []
    while len(found) < count:
        line = line_of(child.stdout).decode()
        assert line, child.stderr.read()
        if "ready" in line:
            found.append(int(line.split()[-1]))
    return found


def lives(pid):
    """Whether a process runs. One that was killed with its parent is buried by the system, which takes its time."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def nothing_left(plan, session):
    assert processes.members(plan.job_dir, session) == set()


def said(child, word):
    """Waits until the client has said a line with a word; such lines are no longer in what `communicate` returns."""
    lines = []
    while not lines or word not in lines[-1]:
        lines.append(line_of(child.stderr).decode())
        assert lines[-1], lines


@pytest.mark.parametrize("code", [0, 1, 3])
def test_the_recipes_exit_code(tmp_path, call, code):
    plan = plan_for(tmp_path, f"print('hello'); raise SystemExit({code})")
    seen, out, notes = call(plan)
    assert (seen, out) == (code, "hello\n")
    found = record(plan)
    assert (found.state, found.exit_code) == ("succeeded" if code == 0 else "failed", code)
    assert [t.state for t in found.states][:3] == ["planned", "starting", "running"]
    assert any(line.startswith(f"{plan.name}: {found.state} after ") for line in notes.splitlines())
    assert f"exit code {code}" in notes
    assert "logs/job.log" in notes


@pytest.mark.slow
@pytest.mark.parametrize(("launch", "who"), [("direct", 0), ("torchrun", 1)])
def test_killed_by_signal_9(tmp_path, call, torch_bin, monkeypatch, launch, who):
    monkeypatch.setenv("PATH", f"{torch_bin}:{os.environ['PATH']}")
    script = f"import os, time\nif os.environ.get('RANK', '0') == '{who}': os.kill(os.getpid(), 9)\n{FOR_LONG}"
    plan = plan_for(tmp_path, script, launch=launch, processes=who + 1)
    code, _, notes = call(plan)
    assert code == 137
    assert record(plan).signal == 9
    assert f"{f'rank {who}' if who else 'the command'} was killed by signal 9 (SIGKILL)" in notes


@pytest.mark.slow
def test_two_ranks_one_fails_with_3(tmp_path, call, torch_bin, monkeypatch):
    monkeypatch.setenv("PATH", f"{torch_bin}:{os.environ['PATH']}")
    script = f"import os, sys, time\nif os.environ['RANK'] == '1': sys.exit(3)\n{FOR_LONG}"
    code, _, notes = call(plan_for(tmp_path, script, launch="torchrun", processes=2))
    assert code == 3
    assert "rank 1 ended with exit code 3" in notes


def test_a_failing_startup_command(tmp_path, call):
    plan = plan_for(tmp_path, "print('never')", setup=("exit 7",))
    code, out, notes = call(plan)
    assert (code, "never" in out) == (7, False)
    assert "startup command 1 of 1" in notes
    assert "startup command 1 of 1" in record(plan).cause


def test_what_is_laid_out_is_what_was_planned(tmp_path, call):
    config = {"train": {"lr": 1e-4, "name": "ü: x"}, "list": [1, None, True]}
    script = "import sys, pathlib; print(pathlib.Path(sys.argv[2]).read_text()); open('here', 'w').close()"
    plan = replace(plan_for(tmp_path, script, config=config, takes_config=True), run={"mode": "run"})
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        assert call(plan)[0] == 0
    finally:
        os.chdir(here)
    folder = Path(plan.job_dir)
    assert (tmp_path / "here").exists()
    assert yaml.safe_load((folder / "train.yaml").read_text()) == config
    assert yaml.safe_load((folder / "job.yaml").read_text()) == {"run": {"mode": "run"}, **config}
    assert (folder / "job.sh").read_text() == render(plan).files[0].text
    assert render(plan).command == ("bash", str(folder / "job.sh"))
    assert (folder / "plan.json").read_text() == "{}\n"
    assert (folder / "bundle/recipes/test/main.py").read_bytes() == Path(plan.bundle.files[0].source).read_bytes()
    assert all(p.stat().st_mode & 0o077 == 0 for p in (folder, folder / "logs/job.log", folder / "record.json"))


def test_a_recipe_changed_since_the_plan_is_an_error_and_nothing_happened(tmp_path, call):
    plan = plan_for(tmp_path, "print(1)")
    Path(plan.bundle.files[0].source).write_text("print(2)")
    with pytest.raises(UserError, match="changed since the plan"):
        call(plan)
    assert not Path(plan.job_dir).exists()


def test_a_bundle_path_that_leads_out_is_refused(tmp_path, call):
    plan = plan_for(tmp_path, "print(1)")
    file = replace(plan.bundle.files[0], path="../../x.py")
    with pytest.raises(UserError, match="leads out"):
        call(replace(plan, bundle=replace(plan.bundle, files=(file,))))


def test_secrets_reach_the_job_and_nothing_else(tmp_path, call):
    script = "import os\nv = os.environ['MY_KEY']\nprint(v[:6], end='', flush=True)\nprint(v[6:], len(v))"
    plan = plan_for(tmp_path, script)
    code, out, notes = call(plan, {"MY_KEY": "s3cret-value"})
    assert (code, out) == (0, "****** 12\n")
    assert "s3cret-value" not in notes
    for file in Path(plan.job_dir).rglob("*"):
        assert not file.is_file() or b"s3cret-value" not in file.read_bytes(), file


def test_the_environment_of_the_job(tmp_path):
    base = {"PATH": "/bin", "PYTHONPATH": "/ours", "PYTHONHOME": "/h", "VIRTUAL_ENV": "/v", "KEEP": "1"}
    assert job_environment(base, {"K": "s"}, None) == {
        "PATH": "/bin", "PYTHONPATH": "/ours", "VIRTUAL_ENV": "/v", "KEEP": "1", "K": "s",
    }  # fmt: skip
    assert job_environment(base, {}, Path("/e/bin")) == {"PATH": "/e/bin:/bin", "VIRTUAL_ENV": "/e", "KEEP": "1"}


@pytest.mark.slow
def test_a_recipe_with_dependencies_gets_its_own_python(tmp_path, call, torch_bin, monkeypatch):
    monkeypatch.setenv("NEMOTRON_HOME", str(torch_bin.parents[2]))
    script = "import sys, torch; print(sys.prefix, torch.__version__.split('+')[0])"
    plan = plan_for(tmp_path, script, python=PythonEnv(("torch==2.13.0", "numpy")))
    code, out, _ = call(plan)
    assert (code, out) == (0, f"{torch_bin.parent} 2.13.0\n")


def test_an_environment_that_cannot_be_made_is_a_failed_job(tmp_path, call, monkeypatch):
    monkeypatch.setenv("UV_OFFLINE", "1")
    plan = plan_for(tmp_path, "", python=PythonEnv(("no-such-package-of-nemotron==1",)))
    with pytest.raises(UserError, match="uv could not make"):
        call(plan)
    assert record(plan).state == "failed"


def raising(error):
    def hook(*_, **__):
        raise error

    return hook


def making(top, script, **values):
    """A plan that makes a version of `my-model`, and an output whose path was named."""
    plan = plan_for(top, f"import os; os.makedirs(os.environ['MADE'])\n{script}", **values)
    made = top / "store" / "my-model" / plan.name
    produces = (Artifact("model", "model", artifact="my-model", path=str(made)), Artifact("x", "y", path=str(top)))
    return replace(plan, produces=produces, env=(EnvVar("MADE", str(made), "test"),)), made


def test_outputs_are_recorded_and_the_job_registers_its_versions_after_a_success(tmp_path, call):
    plan, made = making(tmp_path, "")
    assert call(plan)[0] == 0
    assert dict(record(plan).outputs) == {"model": str(made), "x": str(tmp_path)}
    assert (made.parent / "latest").readlink() == Path(made.name)
    failing, made = making(tmp_path, "raise SystemExit(1)", name="test-job-1120-failing0")
    assert call(failing)[0] == 1
    assert made.is_dir() and (made.parent / "latest").readlink() == Path(plan.name)


def test_what_cannot_be_registered_is_no_success(tmp_path, call):
    (tmp_path / "store" / "my-model" / "latest" / "full").mkdir(parents=True)
    plan, made = making(tmp_path, "")
    code, out, _ = call(plan)
    assert (code, record(plan).state) == (74, "failed")
    said = f"{made.parent}/latest does not lead to it: "
    assert said in out + (Path(plan.job_dir) / "logs" / "job.log").read_text()


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"),
                                 (signal.SIGHUP, 129, "SIGHUP")],
)  # fmt: skip
def test_a_signal_stops_the_job_and_leaves_no_process(tmp_path, start, number, code, word):
    script = f"import subprocess\nsubprocess.Popen(['sleep', '600'])\n{READY}{FOR_LONG}"
    plan = plan_for(tmp_path, script)
    child = start(plan)
    (pid,) = wait_ready(child)
    os.killpg(child.pid, number)
    _, errors = child.communicate(timeout=LONG)
    assert child.returncode == code, errors
    assert not lives(pid)
    nothing_left(plan, child.pid)
    assert (record(plan).state, record(plan).exit_code) == ("cancelled", code)
    assert word in errors.decode()
    assert b"Traceback" not in errors


@pytest.mark.slow
def test_torchrun_ranks_are_stopped_too(tmp_path, start, torch_bin, monkeypatch):
    monkeypatch.setenv("PATH", f"{torch_bin}:{os.environ['PATH']}")
    plan = plan_for(tmp_path, READY + FOR_LONG, launch="torchrun", processes=2)
    child = start(plan)
    pids = wait_ready(child, 2)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=LONG)
    assert child.returncode == 130
    assert not any(map(lives, pids))
    nothing_left(plan, child.pid)


STUBBORN = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + READY + FOR_LONG


@pytest.mark.slow
@pytest.mark.parametrize("launch", ["direct", "torchrun"])
def test_a_job_that_does_not_stop_is_killed_after_the_grace(tmp_path, start, torch_bin, monkeypatch, launch):
    monkeypatch.setenv("PATH", f"{torch_bin}:{os.environ['PATH']}")
    plan = plan_for(tmp_path, STUBBORN, launch=launch)
    child = start(plan, grace=1.0)
    wait_ready(child)
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=LONG)
    assert time.monotonic() - asked > 0.8
    assert child.returncode == 130
    assert b"did not stop within 1 s" in errors
    nothing_left(plan, child.pid)


def test_a_second_ctrl_c_kills_at_once(tmp_path, start):
    plan = plan_for(tmp_path, STUBBORN)
    child = start(plan, grace=600.0)
    wait_ready(child)
    child.send_signal(signal.SIGINT)
    said(child, "the job was asked to stop")  # of two signals that wait to be taken the system makes one
    assert child.poll() is None
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=LONG)
    assert child.returncode == 130
    nothing_left(plan, child.pid)


def test_a_job_may_end_its_work_after_ctrl_c(tmp_path, start):
    script = f"import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit('saved'))\n{READY}{FOR_LONG}"
    plan = plan_for(tmp_path, script)
    child = start(plan, grace=600.0)
    wait_ready(child)
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=LONG)
    assert b"saved" in out
    assert record(plan).state == "cancelled"


def test_ctrl_c_while_the_environment_is_made(tmp_path, start, monkeypatch):
    binaries = tmp_path / "bin"
    binaries.mkdir()
    (binaries / "uv").write_text("#!/bin/sh\necho $$ > " + str(tmp_path / "uv-pid") + "\nexec sleep 600\n")
    (binaries / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{binaries}:{os.environ['PATH']}")
    plan = plan_for(tmp_path, "", python=PythonEnv(("something",)))
    child = start(plan)
    until(lambda: (tmp_path / "uv-pid").exists() and (tmp_path / "uv-pid").read_text().strip(), "uv")
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=LONG)
    assert child.returncode == 130, errors
    assert record(plan).state == "cancelled"
    assert not lives(int((tmp_path / "uv-pid").read_text()))


def test_the_record_is_true_after_nemotron_was_killed(tmp_path, start):
    plan = plan_for(tmp_path, READY + FOR_LONG)
    child = start(plan)
    (pid,) = wait_ready(child)
    assert record(plan).state == "running"
    child.kill()
    child.wait()
    until(lambda: processes.members(plan.job_dir, child.pid), "the job's end", good=lambda left: not left)
    assert not lives(pid)
    found = record(plan)
    assert (found.state, found.exit_code) == ("lost", 143)
    assert "nemotron itself was killed" in found.reason


def test_lost_where_nothing_was_left(tmp_path, start):
    plan = plan_for(tmp_path, READY + FOR_LONG)
    child = start(plan)
    wait_ready(child)
    script = record(plan).process
    os.kill(script.pid, signal.SIGSTOP)
    stopped = Path(f"/proc/{script.pid}/stat")
    until(lambda: stopped.read_text().rpartition(")")[2].split()[0], "its rest", good=lambda state: state == "T")
    child.kill()
    child.wait()
    assert record(plan).state == "running"
    until(lambda: processes.kill_all(plan.job_dir, script.pid), "the job's end")
    assert record(plan).state == "lost"


def test_a_closed_standard_output_does_not_end_the_job(tmp_path, start):
    script = f"""
        import os, time
        for n in range(20):
            print("line", n, flush=True)
            while not os.path.exists({str(tmp_path / "closed")!r}):
                time.sleep(0.02)
    """
    plan = plan_for(tmp_path, script)
    child = start(plan)
    assert line_of(child.stdout) == b"line 0\n"
    child.stdout.close()
    (tmp_path / "closed").touch()
    errors = child.stderr.read().decode()
    assert child.wait(timeout=LONG) == 0
    assert "standard output was closed; the job goes on" in errors
    assert "Traceback" not in errors and "BrokenPipe" not in errors
    assert (Path(plan.job_dir) / "logs/job.log").read_text().splitlines()[-1] == "line 19"


def test_a_progress_bar_on_a_terminal(tmp_path, start):
    script = """
        import json, os, time
        for step in range(1, 6):
            with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
                numbers = {"step": step, "total_steps": 5, "loss": 3 / step, "tokens_per_second": 1234}
                file.write(json.dumps(numbers) + "\\n")
            print(f"[bold]step[/bold] {step}", flush=True)
            time.sleep(0.3)
    """
    leader, follower = pty.openpty()
    child = start(plan_for(tmp_path, script), stdout=follower, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"})
    os.close(follower)
    shown = b""
    while True:
        if select.select([leader], [], [], 30)[0]:
            try:
                shown += os.read(leader, 4096)
            except OSError:
                break
    assert child.wait(timeout=LONG) == 0, child.stderr.read()
    text = shown.decode()
    assert "5/5" in text
    assert "loss 0.6000" in text
    assert "1,234 tokens/s" in text
    assert "[bold]step[/bold] 5" in text


def test_without_a_terminal_there_are_plain_lines(tmp_path, call):
    script = "import os\nopen(os.environ['NEMOTRON_METRICS_FILE'], 'w').write('{\"step\": 1}\\n')\nprint('x')"
    assert call(plan_for(tmp_path, script))[1] == "x\n"


@pytest.mark.slow
def test_what_a_job_leaves_behind_is_ended(tmp_path, call):
    script = "import subprocess\nsubprocess.Popen(['sleep', '600'], start_new_session=True)"
    plan = plan_for(tmp_path, script)
    code, _, notes = call(plan)
    assert code == 0
    assert "left behind" in notes
    assert processes.members("no-such-job", 0) == set()
    nothing_left(plan, 0)


@pytest.mark.slow
@pytest.mark.parametrize("pause", ["", "sleep 0.01;"])
def test_what_is_left_and_goes_on_writing_is_not_waited_for(tmp_path, call, pause):
    """It would write for ever."""
    plan = plan_for(tmp_path, "print('done')", setup=(f"(while :; do echo x; {pause} done) &",))
    code, out, _ = call(plan)
    assert (code, record(plan).state, "done\n" in out) == (0, "succeeded", True)
    nothing_left(plan, 0)


def test_a_signal_ends_a_job_with_a_leftover_that_ignores_it(tmp_path, start):
    left = "(trap '' TERM; echo ready $BASHPID; while :; do echo x; sleep 0.01; done) &"
    child = start(plan := plan_for(tmp_path, READY + FOR_LONG, setup=(left,)), grace=1.0)
    wait_ready(child, 2)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=LONG)
    assert (child.returncode, record(plan).state) == (143, "cancelled")
    nothing_left(plan, child.pid)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_without_a_standard_output_the_job_runs_and_is_logged(tmp_path, closed):
    plan = plan_for(tmp_path, "print('hello')")
    file = tmp_path / "plan.pickle"
    file.write_bytes(pickle.dumps((plan, 10.0)))
    code = CALL.format(job_scripts=JOBKIT, file=str(file))
    command = ["bash", "-c", f'exec "$@" {closed}', "bash", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert (done.returncode, "Traceback" in done.stderr, record(plan).state) == (0, False, "succeeded"), done.stderr
    assert (Path(plan.job_dir) / "logs/job.log").read_text() == "hello\n"


def test_a_working_directory_whose_name_is_not_utf8(tmp_path, call, monkeypatch):
    folder = os.fsencode(tmp_path) + b"/\xff"
    Path(os.fsdecode(folder)).mkdir()
    monkeypatch.chdir(folder)
    plan = plan_for(tmp_path, "print(1)")
    assert call(plan)[0] == 0
    assert os.fsencode(record(plan).cwd) == folder


def test_a_job_folder_that_cannot_be_filled_is_a_failed_job_and_no_traceback(tmp_path, call, monkeypatch):
    plan = plan_for(tmp_path, "print(1)")
    monkeypatch.setattr("nemo_runspec.supervise.job.write_bundle", raising(OSError(28, "No space left", "/x")))
    with pytest.raises(UserError, match="No space left"):
        call(plan)
    assert (record(plan).state, record(plan).exit_code) == ("failed", 2)


def test_a_job_that_was_cancelled_without_its_supervisor_is_not_started_by_it_afterwards(tmp_path, call, monkeypatch):
    """The supervisor was stopped while it made the job ready; another process has ended the job meanwhile."""
    plan = plan_for(tmp_path, f"open({str(tmp_path / 'went_on')!r}, 'w'); import time; {FOR_LONG}")
    store = JobStore(Path(plan.job_dir).parent)

    def cancelled_meanwhile(*_):
        store.finish(store.get(plan.name), "cancelled", exit_code=143, cause="cancelled without its supervisor")

    monkeypatch.setattr("nemo_runspec.envs.ensure_env", cancelled_meanwhile)
    code, _, notes = call(plan)
    assert code == 143
    assert "cancelled without its supervisor" in notes
    assert record(plan).state == "cancelled"
    nothing_left(plan, 0)


def test_a_record_that_can_no_longer_be_written_does_not_change_the_exit_code(tmp_path, call, monkeypatch):
    plan = plan_for(tmp_path, "raise SystemExit(3)")
    monkeypatch.setattr(JobStore, "finish", raising(OSError(28, "No space left", "/x")))
    code, _, notes = call(plan)
    assert code == 3
    assert "failed, exit code 3; its record cannot be written: No space left" in notes


@pytest.mark.parametrize(
    ("env", "launch", "words"),
    [({}, "direct", []), ({"mounts": [], "packager": "none"}, "direct", []), ({"nproc_per_node": 2}, "torchrun", []),
     ({"mounts": ["/a:/b"]}, "torchrun", ["mounts: not used"]),
     ({"mounts": ["/a:/b"], "packager": "git"}, "ray", ["mounts: not used by executor 'local'"]),
     ({"nproc_per_node": 2, "gpus_per_node": 8}, "direct", ["nproc_per_node = 2 is not used"])],
)  # fmt: skip
def test_what_a_local_run_does_not_use_is_said(env, launch, words):
    warnings = get_backend("local").make_target(TargetRequest("n", "run", "train", launch, env)).warnings
    assert len(warnings) == len(words)
    assert all(warning.startswith(word) for warning, word in zip(warnings, words, strict=True))


def test_more_than_one_node_is_refused():
    request = TargetRequest("n", "run", "train", "torchrun", {"nodes": 2})
    with pytest.raises(UserError, match="one node") as caught:
        get_backend("local").make_target(request)
    assert "run.env.nodes=1" in str(caught.value.remedy)


def test_records_hold_json(tmp_path, call):
    plan = plan_for(tmp_path, "")
    call(plan)
    data = json.loads((Path(plan.job_dir) / "record.json").read_text())
    assert (data["schema"], data["name"], data["states"][-1]["state"]) == (2, plan.name, "succeeded")
