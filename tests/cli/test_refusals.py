"""Every mistake on the command line: exit code 2, what to type instead, and nothing has happened."""

from __future__ import annotations

import pytest
from support import snapshot

TINY = ["nano3", "pretrain", "-c", "tiny"]

REFUSALS = [
    ([*TINY, "--run", "my-cluster", "--batch", "my-cluster"], ["exclude each other", "--run my-cluster, or --batch"]),
    ([*TINY, "--run"], ["--run needs a value", "fix: --run PROFILE"]),
    ([*TINY, "-r"], ["-r needs a value"]),
    ([*TINY, "--run", "--dry-run"], ["--run needs a value, and what follows it is '--dry-run'"]),
    ([*TINY, "--run="], ["--run needs a value"]),
    ([*TINY, "--run", ""], ["--run needs a value"]),
    ([*TINY, "-c"], ["-c needs a value"]),
    ([*TINY, "--dryrun"], ["--dryrun", "--dry-run"]),
    ([*TINY, "--dry_run"], ["--dry_run", "--dry-run"]),
    ([*TINY, "--batc", "my-cluster"], ["--batc", "--batch"]),
    ([*TINY, "--multi-run"], ["--multirun"]),
    ([*TINY, "--nonsense"], ["--nonsense"]),
    ([*TINY, "--lr", "1"], ["no option '--lr'", "after --: nemotron nano3 pretrain -c tiny -- --lr 1"]),
    (["run", "./t.py", "-d", "--lr=1", "x=1", "--", "-v"], ["after --: nemotron run ./t.py -d -- --lr=1 x=1 -v"]),
    ([*TINY, "-x"], ["-x"]),
    ([*TINY, "--run", "my_clutser"], ["no profile 'my_clutser'", "did you mean 'my-cluster'?"]),
    ([*TINY, "--run", "nothing-like-it"], ["profiles: base-slurm, my-cluster"]),
    ([*TINY, "--run", "wandb"], ["'wandb' is a system section"]),
    ([*TINY, "--batch", "artifacts"], ["'artifacts' is a system section"]),
    ([*TINY, "--run", "cli"], ["'cli' is a system section"]),
    ([*TINY, "--run", "cache"], ["'cache' is a system section"]),
    ([*TINY, "--run", "my-cluster", "--run", "laptop"], ["--run is given 2 times", "keep one"]),
    ([*TINY, "-c", "default"], ["--config is given 2 times"]),
    ([*TINY, "--stage"], ["--stage needs a remote profile", "--run PROFILE"]),
    ([*TINY, "--force-squash"], ["--force-squash needs a remote profile"]),
    ([*TINY, "--stage", "--run", "laptop"], ["profile 'laptop' runs on this machine"]),
    ([*TINY, "--stage", "--dry-run"], ["--stage needs a remote profile"]),
    ([*TINY, "--out", "plan.json"], ["--out saves the plan of a dry run", "--dry-run --out plan.json"]),
    ([*TINY, "my-clutser"], ["'my-clutser' is neither an option nor an override", "--run NAME"]),
    ([*TINY, "my-cluster"], ["neither an option nor an override", "did you mean --run my-cluster?"]),
    (["nano3", "pretrain", "tiny"], ["'tiny' is neither an option nor an override", "did you mean -c tiny?"]),
    ([*TINY, "run.x=[1,", "2]", "-d"], ["'2]' is neither", "one word in quotes: 'run.x=[1, 2]'"]),
    ([*TINY, "run.x=[1,2"], ["a bracket is left open", "close it, in quotes for the shell: 'run.x=[1,2]'"]),
    ([*TINY, "optimizer.lr=abc"], ["optimizer.lr is a number (0.01), and 'abc' is none", "++optimizer.lr=abc"]),
    ([*TINY, "-m", "optimizer.lr=1e-3,10k"], ["and '10k' is none", "++optimizer.lr=10k"]),
    (["list", "nan3"], ["no recipe begins with 'nan3'", "did you mean 'nano3'?"]),
    (["list", "nan3", "--json"], ["no recipe begins with 'nan3'"]),
    ([*TINY, "train.train_iters"], ["neither an option nor an override", "key=value"]),
    ([*TINY, "train.train_itres=5"], ["no key 'train.train_itres'", "did you mean 'train.train_iters'?"]),
    ([*TINY, "run.env.nodse=5"], ["did you mean 'run.env.nodes'?"]),
    ([*TINY, "train.train_iters=n[1-3]"], ["cannot read the override", "quote it: 'train.train_iters=\"n[1-3]\"'"]),
    ([*TINY, "run.env.nodes=2"], ["a local run has one node", "fix:"]),
    (["nano3", "pretrain", "-c", "tinny"], ["no config 'tinny'", "did you mean 'tiny'?"]),
    (["nano3", "pretrain", "-c", "./gone.yaml"], ["no such config file: ./gone.yaml"]),
    (["nano3", "pretrian"], ["no command 'nano3 pretrian'", "did you mean 'pretrain'?"]),
    (["nano3", "data", "perp"], ["did you mean 'prep'?"]),
    (["nanno3", "pretrain"], ["no command 'nanno3'", "did you mean 'nano3'?"]),
    (["lst"], ["no command 'lst'", "did you mean 'list'?"]),
    (["jobs", "lsit"], ["no command 'jobs lsit'", "did you mean 'list'?"]),
    (["lepton", "nods"], ["no command 'lepton nods'", "did you mean 'nodes'?"]),
    (["help", "jobs", "lsit"], ["no command 'jobs lsit'", "did you mean 'list'?"]),
    (["env", "show"], ["PROFILE is missing", "at:  nemotron env show", "fix: nemotron env show PROFILE"]),
    (["env", "list", "more"], ["nothing more is taken here: more", "at:  nemotron env list"]),
    (["jobs", "list", "--limit", "few"], ["--limit: 'few' is not a whole number", "fix: --limit N"]),
    (["jobs", "list", "--stat", "failed"], ["no option '--stat'", "did you mean '--state'?"]),
    (["jobs", "list", "--json=1"], ["--json takes no value"]),
    (["run", "./x.py", "--lr", "1e-3"], ["an argument for the script", "nemotron run ./x.py -- --lr 1e-3"]),
    (["-v", "-q", "list"], ["--verbose and --quiet exclude each other"]),
    (["-q", "env", "list", "-v"], ["--verbose and --quiet exclude each other"]),
    (["pretrain"], ["no command 'pretrain'"]),
    (["run", "./gone.py"], ["no such script"]),
    (["run"], ["SCRIPT"]),
    (["run", "."], ["no such script"]),
    (["steps", "run", "sft/automodul"], ["no step 'sft/automodul'", "did you mean 'sft/automodel'?"]),
    (["steps", "show", "x"], ["no step 'x'"]),
    (["env", "show", "nothing"], ["no profile 'nothing'"]),
    (["env", "show", "wandb"], ["system section"]),
    (["env", "shwo"], ["shwo"]),
    (["env", "check", "gone.toml"], ["cannot read gone.toml"]),
    (["apply", "gone.json"], ["cannot read gone.json"]),
    (["apply", "env.toml"], ["not a saved plan"]),
    (["diff", "gone.json", "gone.json"], ["no such plan file"]),
    (["jobs", "show", "gone"], ["error:"]),
    (["--run", "my-cluster", *TINY], ["--run stands before", "nemotron nano3 pretrain -c tiny --run my-cluster"]),
    (["-rmy-cluster", *TINY], ["nemotron nano3 pretrain -c tiny -rmy-cluster"]),
    (["--dry-run", *TINY], ["nemotron nano3 pretrain -c tiny --dry-run"]),
    (["--config=tiny", "nano3", "pretrain"], ["nemotron nano3 pretrain --config=tiny"]),
    (["nano3", "--dry-run", "pretrain", "-c", "tiny"], ["nemotron nano3 pretrain -c tiny --dry-run"]),
    (["nano3", "-c", "tiny", "data", "prep", "pretrain"], ["nemotron nano3 data prep pretrain -c tiny"]),
    (["-d"], ["-d stands before the command it belongs to"]),
    (["--nonsense"], ["--nonsense"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), REFUSALS, ids=[" ".join(words) for words, _ in REFUSALS])
def test_refused(project, nemotron, words, expected):
    before = snapshot(project.folder, project.home)
    nemotron(*words).refuses(*expected)
    assert snapshot(project.folder, project.home) == before


@pytest.mark.slow
@pytest.mark.parametrize("number", range(0, len(REFUSALS), 6))
def test_refused_as_a_process(project, nemotron_process, number):
    words, expected = REFUSALS[number]
    before = snapshot(project.folder, project.home)
    outcome = nemotron_process(*words, PYTHONDONTWRITEBYTECODE="1")
    outcome.refuses(*expected)
    assert outcome.out == ""
    assert snapshot(project.folder, project.home) == before


def test_naming_a_profile_never_falls_back_to_this_machine(project, nemotron):
    """Whatever is wrong with the profile or its file, nothing runs here."""
    for text in ("", "not toml", "[my-cluster]\nexecutor = 'slrum'\n", "[my-cluster]\nextends = 'my-cluster'\n"):
        project.write("env.toml", text)
        before = snapshot(project.folder, project.home)
        nemotron(*TINY, "--run", "my-cluster").refuses()
        assert snapshot(project.folder, project.home) == before


@pytest.mark.parametrize(("profile", "missing"), [("runai", "client_secret"), ("lepton", "LEPTON_WORKSPACE_ID")])
@pytest.mark.parametrize("option", ["--run", "--batch"])
def test_a_cloud_without_a_login(project, nemotron, profile, missing, option):
    before = snapshot(project.folder, project.home)
    outcome = nemotron(*TINY, option, profile)
    outcome.refuses("nothing was submitted", missing)
    assert snapshot(project.folder, project.home) == before


@pytest.mark.parametrize("option", ["--run", "--batch"])
def test_a_login_node_that_cannot_be_reached(project, nemotron, nemotron_process, option):
    """The job is on record as failed, so that nobody waits for it; nothing was sent.

    In a process of its own, because a submission imports NeMo-Run in a thread that would outlive this test.
    """
    project.write("env.toml", '[far]\nexecutor = "slurm"\ntunnel = "ssh"\nhost = "127.0.0.1"\nport = 9\n')
    project.write("train.py", "print(1)")
    nemotron_process("run", "./train.py", option, "far").refuses("127.0.0.1:9")
    [record] = nemotron("jobs", "list", "--json").succeeds().json
    assert record["state"] == "failed"
    assert record["cause"].startswith("not submitted: ")


@pytest.mark.parametrize("option", ["--run", "--batch"])
def test_no_docker_engine(project, nemotron, monkeypatch, option):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{project.folder}/gone.sock")
    project.write("train.py", "print(1)")
    before = snapshot(project.folder, project.home)
    nemotron("run", "./train.py", option, "box").refuses("Docker", "fix:")
    assert snapshot(project.folder, project.home) == before
