"""A job on a cluster over SSH, as a person lives with it: attached, detached, seen from elsewhere, staged, repeated."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from labs.slurm.fixtures import needs_slurm
from slurm_project import Cluster, Reader, ranks
from support import finish, make_repository
from waiting import line_of, open_gate, until

from nemo_runspec.backends.slurm.render import slurm_programs
from nemo_runspec.digests import digest_of_text

pytestmark = needs_slurm

PROGRAMS = {each.name: each.text for each in slurm_programs()}

HELD = """
    import os, sys, time
    print("ready", flush=True)
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
    print("the last line", flush=True)
    raise SystemExit(3)
"""
TOLD = """
    import os, time
    for number in range(300):
        print(os.environ["RANK"], number)
    while not os.path.exists(os.environ["NEMOTRON_JOB_DIR"] + "/go"):
        time.sleep(0.05)
    raise SystemExit(7)
"""
PATIENT = """
    import os, signal, time
    got = []
    signal.signal(signal.SIGTERM, lambda *_: got.append("TERM"))
    print("ready", flush=True)
    while not got:
        time.sleep(0.05)
    time.sleep(3)
    open(os.environ["NEMOTRON_JOB_DIR"] + "/saved", "w").close()
    print("got", *got, flush=True)
    raise SystemExit(9)
"""


def test_attached_on_two_nodes(cluster):
    """The job's exit code; every rank's lines once, behind its prefix; where it is and how it ended, beside them."""
    process = cluster.started("run", cluster.script(TOLD), "--run", "pair")
    seen, told = Reader(process.stdout), Reader(process.stderr)
    told.tells(r"nemotron: (queued \(\d+\)|running on n\[1-2\])")
    name = cluster.newest()
    open_gate(cluster.remote(name))
    assert process.wait(300) == 7, told.lines
    lines = ranks(seen.all())
    assert len(lines) == 600
    for rank in (0, 1):
        said = [line for line in lines if line.startswith(f"[rank{rank}] ")]
        assert said == [f"[rank{rank}] {rank} {number}" for number in range(300)]
    told.all()
    told.tells(rf"{name}: failed after .+ on n\[1-2\], exit code 7")


def test_detached_and_looked_at_from_elsewhere(cluster):
    """Every way to look at a job that goes on: status, logs from a second terminal, its exact scripts, wait, rm."""
    done = cluster.nemotron("run", cluster.script(HELD), "--batch", "there").succeeds()
    name = done.out.strip()
    assert re.fullmatch(rf"{cluster.word}-\d{{4}}-\w{{8}}", name), done.out
    record = cluster.until(name, lambda record: record["state"] == "running")
    ((number, queued, _),) = cluster.queued()
    assert (record["handle"]["id"], record["name"], record["facts"]["nodes"]) == (number, queued, "n1")
    assert re.search(rf"^{name} +running +{number} .* n1\b", cluster.nemotron("jobs", "status").succeeds().out, re.M)

    cluster.nemotron("jobs", "ssh", name, "--node", "n4").refuses("has no node 'n4'", "name one of its nodes: n1")

    following = cluster.started("jobs", "logs", "-f", name)
    assert line_of(following.stdout) == "ready\n"
    waiting = cluster.started("jobs", "wait", name)
    remote = cluster.remote(name)
    assert_scripts_are_the_same(cluster, name, remote)
    open_gate(remote)
    followed = finish(following)
    assert (followed.code, followed.out, finish(waiting).code) == (0, "the last line\n", 3)

    cluster.lab.stop_ssh()
    assert cluster.logs(name) == ["ready", "the last line"], "without the cluster, what was fetched"
    assert cluster.nemotron("jobs", "wait", name).code == 3
    cluster.lab.start_ssh()
    batch_log = next(remote.glob("sbatch_*.out")).read_text()
    assert cluster.nemotron("jobs", "logs", name, "--platform").succeeds().out == batch_log != ""
    cluster.nemotron("jobs", "rm", name).succeeds()
    assert not remote.exists()
    assert not cluster.local(name).exists()


def assert_scripts_are_the_same(cluster: Cluster, name: str, remote: Path) -> None:
    """What `show --script` prints, what the cluster has, and the dry run with its holes filled: the same bytes.

    What is the same for all jobs is named by its digest, and is there.
    """
    shown = sections(cluster.nemotron("jobs", "show", name, "--script").succeeds().out)
    own = [path for path in [*remote.glob("*.sh"), *remote.glob("scripts/*.sh")] if path.name not in PROGRAMS]
    there = {path.name: path.read_text() for path in own}
    listed = shown.pop("jobs")
    assert shown == there
    dry = cluster.nemotron("run", f"./{cluster.word}.py", "--batch", "there", "--dry-run", "--full").succeeds().out
    other = re.search(r"\njob (\S+) in ", dry)[1]
    home = str(cluster.lab.base / "home" / "root")
    filled = sections(dry.replace(other, name).replace("@HOME@", home))
    alone = cluster.nemotron("run", f"./{cluster.word}.py", "--batch", "there", "--dry-run", "--script").succeeds().out
    other = re.search(r"--job-name=(\S+)", alone)[1]
    assert alone.replace(other, name).replace("@HOME@", home) == there[f"{name}_sbatch.sh"]
    assert {key: filled[key].rstrip("\n") for key in there} == {key: text.rstrip("\n") for key, text in there.items()}
    sent = {name: (remote / name).read_text() for name in PROGRAMS}
    assert sent == PROGRAMS
    assert all(f"sha256 {digest_of_text(text)[:12]}" in said for text in sent.values() for said in (dry, listed))
    assert not [path for path in cluster.local(name).iterdir() if path.name in PROGRAMS], "they are named here"


def sections(text: str) -> dict[str, str]:
    """File name → text, of what stands below lines such as `--- job script: scripts/job.sh ---`."""
    parts = re.split(r"^--- (.*) ---\n", text, flags=re.M)[1:]
    return {Path(head.split()[-1]).name: body[:-1] for head, body in zip(parts[::2], parts[1::2], strict=True)}


def test_cancel(cluster):
    """The command gets one TERM, has the time to save its work, and the job ends as cancelled."""
    name = cluster.batch(PATIENT)
    cluster.log_has(name, "ready")
    done = cluster.nemotron("jobs", "cancel", name, "--grace", "60").succeeds()
    assert "cancelled" in done.out
    assert (cluster.remote(name) / "saved").exists()
    assert cluster.logs(name) == ["ready", "got TERM"]
    record = cluster.show(name)
    assert (record["state"], record["exit_code"]) == ("cancelled", 9)
    assert "nemotron jobs cancel" in record["cause"]
    assert cluster.nemotron("jobs", "cancel", name).succeeds().out.startswith(f"{name}: already cancelled")


def test_retry(cluster):
    """The same plan on the same package under another name; the cluster has the package, and nothing of it is sent."""
    profile = '[code]\nextends = "there"\npackager = "git"\n'
    cluster.project.write("env.toml", cluster.project.env_file.read_text() + profile)
    cluster.project.write("data.bin", "x" * 3_000_000)
    script = cluster.script("import os; print(os.path.getsize('data.bin')); raise SystemExit(4)")
    make_repository(cluster.project.folder)
    first = cluster.nemotron("run", script, "--run", "code")
    assert (first.code, first.out) == (4, "3000000\n"), first.err
    assert "sending the code package to lab" in first.err
    before = [(path.name, path.stat().st_ino) for path in packages(cluster)]
    cluster.project.write("data.bin", "changed since")
    again = cluster.nemotron("jobs", "retry", "last")
    assert (again.code, again.out) == (4, "3000000\n"), again.err
    assert "sending" not in again.err
    assert [(path.name, path.stat().st_ino) for path in packages(cluster)] == before
    second, one = cluster.nemotron("jobs", "list", "--json").json
    assert (second["retry_of"], second["package"]["digest"]) == (one["name"], one["package"]["digest"])
    assert second["handle"]["id"] != one["handle"]["id"]


def packages(cluster: Cluster) -> list[Path]:
    return sorted((cluster.lab.base / "home" / "root" / ".nemotron" / "run" / "packages").iterdir())


def test_staged(cluster):
    """`--stage` submits nothing and says how to go on by hand; a job submitted so is found by its name."""
    done = cluster.nemotron("run", cluster.script("print('by hand')"), "--batch", "there", "--stage").succeeds()
    name = done.out.strip()
    assert cluster.queued() == []
    assert cluster.status(name)["state"] in ("planned", "submitting"), "not submitted is no failure"
    command = re.search(r"^ *submit: +(.*)$", done.err, re.M)[1]
    subprocess.run(command, shell=True, check=True, env=cluster.project.environment(), stdout=subprocess.DEVNULL)
    record = cluster.until(name, lambda record: record["state"] == "succeeded")
    assert record["handle"]["id"] == cluster.queued()[0][0]
    assert cluster.logs(name) == ["by hand"]


def test_from_the_login_node(cluster):
    """Without a tunnel the same commands do the same, and no connection is made."""
    before = cluster.lab.sshd.connections()
    name = cluster.batch(HELD, profile="here")
    cluster.log_has(name, "ready")
    open_gate(cluster.remote(name))
    assert cluster.nemotron("jobs", "wait", name).code == 3
    lines = until(lambda: cluster.logs(name), "both lines", lambda lines: len(lines) == 2)
    assert lines[1] == "the last line"
    assert cluster.lab.sshd.connections() == before
