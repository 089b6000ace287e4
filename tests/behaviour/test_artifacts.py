"""What one job has made, as the next one reads it: nothing lost, nothing stale, whoever asks when."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path
from typing import Any

import pytest
from waiting import LONG, until

from behaviour.bench import same_lines, toml
from behaviour.test_secrets import places_of

_HEAD = '# /// script\n# [tool.runspec]\n# schema = "1"\n# [tool.runspec.run]\n# launch = "direct"\n{0}# ///\n'
_MAKER = (
    _HEAD.format('# [[tool.runspec.produces]]\n# name = "model"\n# type = "text"\n')
    + """
import os, pathlib, sys
folder = pathlib.Path(open(sys.argv[2]).read().split("output_dir: ")[1].strip())
folder.mkdir(parents=True, exist_ok=True)
(folder / "by").write_text(os.environ["NEMOTRON_JOB_NAME"])
with open(str(folder) + ".runs", "a") as runs:
    runs.write(os.environ["NODE_RANK"])
raise SystemExit(int(os.environ.get("CODE", "0")) if os.environ["NODE_RANK"] == os.environ.get("FAILS", "0") else 0)
"""
)
_READER = (
    _HEAD.format('# [[tool.runspec.consumes]]\n# name = "data"\n# type = "text"\n')
    + """
import pathlib, sys
print("made by", pathlib.Path(open(sys.argv[2]).read().split("data: ")[1].strip(), "by").read_text(), flush=True)
"""
)


class Chain:
    """A recipe that makes an artifact and one that reads it."""

    def __init__(self, bench: Any) -> None:
        self.bench = bench
        self.artifact = f"words-{uuid.uuid4().hex[:8]}"
        project = bench.project
        project.write("recipes/mine/make/make.py", _MAKER)
        project.write(
            "recipes/mine/make/config/default.yaml",
            f"run: {{model: {{artifact: {self.artifact}}}}}\noutput_dir: ${{run.output_dir}}\n",
        )
        project.write("recipes/mine/read/read.py", _READER)
        project.write(
            "recipes/mine/read/config/default.yaml",
            f"run: {{data: {{artifact: {self.artifact}}}}}\ndata: ${{art:data,path}}\n",
        )

    @property
    def latest(self) -> Path:
        """The link to the newest version, as it is seen from here."""
        folders = self.bench.setting.folders
        run = folders[0] if folders else self.bench.project.state / "run"
        return Path(run) / "artifacts" / self.artifact / "latest"

    def made(self, *words: str) -> str:
        """The name of a detached job that makes it, once it is the newest; nemotron is not asked meanwhile."""
        self.bench.nemotron("mine", "make", "--batch", "target", *words).succeeds()
        name = self.bench.newest()
        until(lambda: self.latest.is_symlink() and self.latest.readlink().name, name, lambda seen: seen == name, LONG)
        return name

    def read(self, *words: str, **environment: str) -> str:
        """Which version a job says it has read; its record says the same."""
        ended = self.bench.nemotron("mine", "read", "--run", "target", *words, **environment).succeeds()
        (line,) = same_lines(self.bench.rig.nodes, ended.out)
        name = line.removeprefix("made by ")
        shown = self.bench.show(self.bench.newest())
        assert shown["inputs"]["data"].endswith(f"/{self.artifact}/{name}"), shown["inputs"]
        return str(name)


@pytest.mark.slow
def test_chain(bench):
    """A job reads what was made last, however long nobody has asked about the job that made it."""
    chain = Chain(bench)
    assert [chain.made() == chain.read() for _ in range(2)] == [True, True]


@pytest.mark.slow
def test_failed_version(bench):
    """What a job that failed has made is never the newest."""
    chain = Chain(bench)
    good = chain.made()
    assert bench.nemotron("mine", "make", "--run", "target", "++run.env.env_vars.CODE='3'").code == 3
    assert chain.read() == good


@pytest.mark.slow
def test_store_elsewhere(bench):
    """A folder of artifacts that the job would not see is mounted for it, or the job is refused: nothing is lost."""
    chain, root = Chain(bench), bench.project.folder / "elsewhere"
    done = bench.nemotron("mine", "make", "--run", "target", f"run.artifacts.root={root}")
    if bench.rig.name in ("lepton", "dgxcloud"):
        done.refuses("output 'model' would be lost when the job ends", str(root), "add to ")
        assert bench.nemotron("jobs", "list", "--json").json == []
    else:
        done.succeeds()
        assert (root / chain.artifact / "latest" / "by").read_text() == bench.newest()


@pytest.mark.slow
def test_wrong_type(bench):
    """A job whose output is not as its type wants it ends with exit code 65, says why, and registers nothing."""
    if bench.rig.name in ("slurm", "lepton", "dgxcloud"):
        bench.profile(retries=2)  # the same would come of it: it runs once
    chain = Chain(bench)
    good = chain.made()
    bench.project.write("recipes/mine/make/make.py", _MAKER.replace('"text"', '"training_jsonl"'))
    done = bench.nemotron("mine", "make", "--run", "target")
    what = "output 'model' (training_jsonl): "
    assert (done.code, what in done.out + done.err) == (65, True), done
    name = bench.newest()
    assert len(chain.latest.with_name(f"{name}.runs").read_text()) == bench.rig.nodes
    told = bench.nemotron("jobs", "diagnose", name).out
    assert what in told and "holds no file that ends with .jsonl" in told
    assert chain.read() == good


@pytest.mark.slow
def test_bucket_store(bench, s3_lab):
    """Jobs keep their artifacts in a bucket and read them from there; its keys stand in no file."""
    chain, keys = _in_bucket(bench, s3_lab)
    where = bench.setting.bucket(keys)
    jobs = []
    for code in (0, 0, 3):
        done = bench.nemotron("mine", "make", "--run", "target", f"++run.env.env_vars.CODE='{code}'", *where, **keys)
        assert done.code == code, done.err + done.out
        jobs.append(bench.newest())
    second, first = bench.nemotron("artifacts", "list", chain.artifact, "--json", **keys).succeeds().json
    assert [(each["version"], each["producer"]["job"]) for each in (first, second)] == [(1, jobs[0]), (2, jobs[1])]
    assert first["digest"].startswith("sha256:") and first["digest"] != second["digest"]
    assert s3_lab.get(f"{first['path']}/by").decode() == jobs[0]
    bench.nemotron("artifacts", "tag", f"{chain.artifact}:1", "gold", **keys).succeeds()
    shutil.rmtree(chain.latest.parents[1])  # what these jobs have left for the next ones there
    for word, job in ((chain.artifact, jobs[1]), (f"{chain.artifact}:gold", jobs[0])):
        assert chain.read(f"run.data={word}", *where, **keys) == job
    assert places_of(keys["SECRET_KEY"], bench.project.state, bench.project.folder, *bench.setting.folders) == []


@pytest.mark.slow
def test_bucket_without_keys(bench, s3_lab):
    """A job that would have no keys for the bucket is refused before it starts."""
    _in_bucket(bench, s3_lab)
    bench.nemotron("mine", "make", "--run", "target").refuses("ACCESS_KEY")
    assert bench.nemotron("jobs", "list", "--json").json == []


def _in_bucket(bench: Any, lab: Any) -> tuple[Chain, dict[str, str]]:
    """A chain whose artifacts are in a bucket, and the variables that hold its keys."""
    store = {"root": f"s3://bucket/{bench.rig.name}", "endpoint": lab.endpoint, "region": lab.region}
    lines = ["[artifacts]", *(f"{key} = {toml(value)}" for key, value in store.items())]
    bench.project.write("env.toml", "\n".join([(bench.project.folder / "env.toml").read_text(), *lines, ""]))
    return Chain(bench), {key: lab.environment()[key] for key in ("ACCESS_KEY", "SECRET_KEY")}
