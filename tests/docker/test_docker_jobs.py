"""Jobs in a real engine, from the command line: how they end is told as it was, and nothing of them stays behind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import support
from job_scripts import kill
from lab_docker import BASE, WITH_ENTRYPOINT, WITHOUT_BASH, Engine, needs_docker
from support import Outcome, Project
from waiting import open_gate, until

pytestmark = needs_docker


@pytest.fixture(autouse=True)
def nothing_stays(docker_engine: Engine) -> Iterator[None]:
    yield
    left = docker_engine.containers(), docker_engine.networks()
    docker_engine.empty()
    assert left == ([], set())


def run(box: Project, script: str, *words: str, **environment: str) -> Outcome:
    """`nemotron run ./main.py --run box WORDS…` with this script."""
    box.write("main.py", script)
    return support.process(box, "run", "./main.py", "--run", "box", *words, **environment)


def record(box: Project) -> dict[str, Any]:
    """The only job's record."""
    (folder,) = (box.state / "jobs").glob("main-*")
    return json.loads((folder / "record.json").read_text())


def profile(box: Project, *lines: str) -> None:
    """Adds lines to the profile."""
    box.write("env.toml", box.env_file.read_text() + "\n".join(lines) + "\n")


def test_a_job_runs_in_the_container_and_its_outputs_are_kept(box):
    out = run(
        box,
        """
        import os, sys, pathlib
        print("in", pathlib.Path("/etc/debian_version").read_text().strip()[:2], sys.argv[1:])
        print("host", os.uname().nodename == os.environ["NEMOTRON_JOB_NAME"])
        pathlib.Path(os.environ["NEMO_RUN_DIR"], "made").write_text("kept")
        """.replace("\n        ", "\n"),
        "--",
        "a b",
        "$HOME",
        "it's",
        "*",
    ).succeeds()
    assert "in 12 ['a b', '$HOME', \"it's\", '*']\n" in out.out
    assert "host True" in out.out
    assert (box.state / "run" / "made").read_text() == "kept"
    assert record(box)["states"][-1]["state"] == "succeeded"


@pytest.mark.parametrize("code", [1, 3, 137])
def test_its_exit_code_is_ours(box, code):
    out = run(box, f"import sys; print('said'); sys.exit({code})")
    assert out.code == code
    assert (record(box)["states"][-1]["state"], record(box)["exit_code"]) == ("failed", code)


def test_a_signal_is_told_from_an_exit_code(box):
    out = run(box, "import os; os.kill(os.getpid(), 9)")
    assert out.code == 137
    assert "killed by signal 9" in record(box)["cause"]


def test_out_of_memory_is_said(box):
    profile(box, 'additional_kwargs = { mem_limit = "60m", memswap_limit = "60m" }')
    out = run(box, "block = bytearray(400 << 20)")
    assert out.code == 137
    assert "out of memory" in record(box)["cause"]


def test_out_of_memory_of_the_job_script_itself_is_said(box):
    """Then there is no exit marker, and only the engine knows."""
    profile(
        box,
        'additional_kwargs = { mem_limit = "60m", memswap_limit = "60m" }',
        """startup_commands = ['x=$(head -c 300000000 /dev/zero | tr "\\\\0" x)']""",
    )
    out = run(box, "pass")
    assert out.code != 0
    assert "out of memory" in record(box)["cause"]


def test_a_container_removed_by_somebody_else_has_failed(box, docker_engine):
    box.write("main.py", "import time; print('up', flush=True); time.sleep(600)")
    child = support.start(box, "run", "./main.py", "--run", "box")
    container = until(lambda: _running(docker_engine))
    docker_engine.client().remove_container(container, force=True)
    _, err = child.communicate(timeout=120)
    assert child.returncode == 137, err
    assert "the container was removed by somebody else" in record(box)["cause"]


def _running(engine: Engine) -> str | None:
    found = [c for c in engine.containers() if c["State"] == "running"]
    return found[0]["Id"] if found and b"up" in engine.client().logs(found[0]["Id"]) else None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_job_softly(box, docker_engine, number):
    box.write(
        "main.py",
        "import signal, sys, time\n"
        "def stop(n, f): print('told', n, flush=True); sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, stop)\nprint('up', flush=True)\ntime.sleep(600)\n",
    )
    child = support.start(box, "run", "./main.py", "--run", "box")
    until(lambda: _running(docker_engine))
    child.send_signal(number)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 128 + number, err
    assert "told 15" in out
    assert record(box)["states"][-1]["state"] == "cancelled"


def test_a_job_that_will_not_stop_is_killed(box, docker_engine):
    box.write(
        "main.py", "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)\n"
    )
    child = support.start(box, "run", "./main.py", "--run", "box")
    until(lambda: _running(docker_engine))
    child.send_signal(signal.SIGINT)
    child.send_signal(signal.SIGINT)
    until(lambda: child.poll() is not None or child.send_signal(signal.SIGINT))
    _, err = child.communicate(timeout=120)
    assert "the job: it is killed now" in err, "not once its time was up"
    assert record(box)["states"][-1]["state"] == "cancelled"


def test_a_detached_job_goes_on_and_can_be_cancelled(box, docker_engine):
    box.write("main.py", "import time; print('up', flush=True); time.sleep(600)")
    support.process(box, "run", "./main.py", "--batch", "box").succeeds()
    container = until(lambda: _running(docker_engine))
    assert container
    support.process(box, "jobs", "cancel", record(box)["name"]).succeeds()
    assert record(box)["states"][-1]["state"] == "cancelled"


def test_a_job_whose_supervisor_was_killed_is_found_and_ended(box, docker_engine):
    box.write("main.py", "import time; print('up', flush=True); time.sleep(600)")
    support.process(box, "run", "./main.py", "--batch", "box").succeeds()
    container = until(lambda: _running(docker_engine))
    until(lambda: record(box).get("container"))
    kill(record(box)["launcher"]["pid"])
    shown = until(lambda: _shown_as_left_alone(box))
    assert shown["state"] == "running"
    assert container[:12] in json.dumps(shown)
    support.process(box, "jobs", "cancel", record(box)["name"]).succeeds()
    assert record(box)["states"][-1]["state"] == "cancelled"


def _shown_as_left_alone(box: Project) -> dict[str, Any] | None:
    shown = support.process(box, "jobs", "show", record(box)["name"], "--json").succeeds().json
    return shown if "supervisor is gone" in json.dumps(shown) else None


def test_every_line_of_much_output_arrives_in_order(box):
    out = run(box, "for i in range(200_000): print('line', i, 'x' * 40)").succeeds()
    assert out.out == "".join(f"line {i} {'x' * 40}\n" for i in range(200_000))


def test_output_and_errors_stay_in_order(box):
    profile(box, "startup_commands = ['for i in $(seq 2000); do echo out$i; echo err$i >&2; done']")
    out = run(box, "pass").succeeds()
    assert out.out.splitlines() == [f"{kind}{i}" for i in range(1, 2001) for kind in ("out", "err")]


def test_a_secret_reaches_the_job_and_nothing_else(box, docker_engine):
    profile(box, 'secrets = ["MY_TOKEN"]')
    canary = "canary-'\"$(boom)\n-7f3a9"
    script = (
        "import os, hashlib, time, pathlib\n"
        "print('digest', hashlib.sha256(os.environ['MY_TOKEN'].encode()).hexdigest())\n"
        "print('file', pathlib.Path('/nemo_run/secrets.env').exists())\n"
        "print('up', flush=True)\n"
        "while not pathlib.Path('/nemo_run/go').exists(): time.sleep(0.05)\n"
    )
    box.write("main.py", script)
    child = support.start(box, "run", "./main.py", "--run", "box", MY_TOKEN=canary)
    container = until(lambda: _running(docker_engine))
    known = json.dumps(docker_engine.client().inspect_container(container))
    (folder,) = (box.state / "jobs").glob("main-*")
    open_gate(folder)
    out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    import hashlib

    assert f"digest {hashlib.sha256(canary.encode()).hexdigest()}" in out
    assert "file False" in out
    assert "7f3a9" not in known + out + err
    assert [file for file, content in support.contents(folder).items() if b"7f3a9" in content] == []


def test_an_image_with_an_entry_point_of_its_own_runs_the_job(box):
    profile(box)
    box.write("env.toml", box.env_file.read_text().replace(BASE, WITH_ENTRYPOINT))
    out = run(box, "import os; print(os.environ['FROM_IMAGE'], os.getuid())").succeeds()
    assert out.out == f"yes {os.getuid()}\n"


def test_an_image_without_bash_is_said(box):
    box.write("env.toml", box.env_file.read_text().replace(BASE, WITHOUT_BASH))
    out = run(box, "pass")
    assert out.code != 0
    assert "the image needs bash" in out.err
    assert record(box)["states"][-1]["state"] == "failed"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['runtime = "nothere"'], "has no 'nothere'"),
        (['ipc_mode = "container:nothere"'], "nothere"),
        (['additional_kwargs = { security_opt = ["nonsense"] }'], "nonsense"),
        (['additional_kwargs = { userns_mode = "host", working_dir = "relative" }'], "relative"),
        (['network = "container:nothere"'], "nothere"),
        (['mounts = ["./nothere:/data"]'], "nothere"),
    ],
)
def test_what_the_engine_refuses_is_one_message(box, lines, words):
    profile(box, *lines)
    out = run(box, "print('ran')")
    assert out.code == 2
    assert words in out.err
    assert "Traceback" not in out.err
    assert "ran" not in out.out


def test_privileged_limits_shared_memory_and_gpus_are_as_asked(box):
    profile(
        box,
        'runtime = "nvidia"',
        "privileged = true",
        'ulimits = ["memlock=-1", "nofile=512:1024"]',
        'shm_size = "33m"',
        "gpus_per_node = 2",
        'ipc_mode = "host"',
        'network = "own-net"',
    )
    out = run(
        box,
        "import os, resource\nprint(resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "print(os.environ.get('NVIDIA_VISIBLE_DEVICES'), os.environ['NEMOTRON_GPUS_PER_NODE'])\n",
    ).succeeds()
    assert "(1024, 1024)\n" in out.out, "as many as its hard limit allows"
    assert "None 2" in out.out or "0,1 2" in out.out


def test_mounts_are_resolved_on_this_machine(box):
    (box.home / "data").mkdir()
    (box.home / "data" / "x").write_text("from home")
    box.write("here/y", "from here")
    box.write("var/z", "from a variable")
    profile(box, 'mounts = ["~/data:/d", "./here:/h:ro", "$PLACE/var:/v"]')
    out = run(
        box,
        "import pathlib\nprint([pathlib.Path(p).read_text() for p in ('/d/x', '/h/y', '/v/z')])\n"
        "try: pathlib.Path('/h/new').touch()\nexcept OSError as error: print(error.strerror)\n",
        PLACE=str(box.folder),
    ).succeeds()
    assert "['from home', 'from here', 'from a variable']" in out.out
    assert "Read-only file system" in out.out


def test_the_network_stays_while_somebody_uses_it(box, docker_engine):
    """Three jobs at once, started together: one network, removed with the last."""
    go = "pathlib.Path(os.environ['NEMO_RUN_DIR'], 'go').exists()"
    box.write("main.py", f"import os, pathlib, time\nwhile not {go}: time.sleep(0.05)\n")
    children = [support.start(box, "run", "./main.py", "--run", "box") for _ in range(3)]
    until(lambda: [c["State"] for c in docker_engine.containers()] == ["running"] * 3, "all three")
    assert docker_engine.networks() == {"nemo_run"}
    (box.state / "run" / "go").touch()
    for child in children:
        _, err = child.communicate(timeout=120)
        assert child.returncode == 0, err


def test_a_network_of_somebody_elses_stays(box, docker_engine):
    client = docker_engine.client()
    client.create_network("theirs", driver="bridge")
    try:
        profile(box, 'network = "theirs"')
        run(box, "pass").succeeds()
        assert docker_engine.networks() == {"theirs"}
    finally:
        client.remove_network("theirs")


def test_an_image_that_is_nowhere_is_one_message(box):
    box.write("env.toml", box.env_file.read_text().replace(BASE, "127.0.0.1:9/team/gone:1"))
    out = run(box, "pass")
    assert out.code == 2
    assert "'127.0.0.1:9/team/gone:1' is not here, and Docker cannot pull it: " in out.err
    assert "connection refused\n  fix: is 127.0.0.1:9 reachable from here?" in out.err
    assert record(box)["states"][-1]["state"] == "failed"


def test_a_recipe_and_a_step_run(box):
    for path in ("mine/stage", "steps/prep/one"):
        box.recipe(path, body="import sys, pathlib; print(pathlib.Path(sys.argv[2]).read_text())\n")
    assert "value: 1" in support.process(box, "mine", "stage", "--run", "box").succeeds().out
    assert "value: 1" in support.process(box, "steps", "run", "prep/one", "--run", "box").succeeds().out


def test_committed_code_is_the_working_directory(box):
    box.write("lib/mine.py", "VALUE = 'committed'\n")
    box.write("main.py", "import os, mine_loader\nprint(os.getcwd(), mine_loader.VALUE)\n")
    box.write("mine_loader.py", "from lib.mine import VALUE\n")
    support.make_repository(box.folder)
    box.write("lib/mine.py", "VALUE = 'changed'\n")
    out = support.process(box, "run", "./main.py", "--run", "box").succeeds()
    assert "/nemo_run/code committed" in out.out
