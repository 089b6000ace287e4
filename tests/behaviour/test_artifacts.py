"""What one job has made, as the next one reads it: nothing lost, nothing stale, whoever asks when."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from waiting import LONG, until

from behaviour.bench import same_lines

_HEAD = '# /// script\n# [tool.runspec]\n# schema = "1"\n# [tool.runspec.run]\n# launch = "direct"\n{0}# ///\n'
_MAKER = (
    _HEAD.format('# [[tool.runspec.produces]]\n# name = "model"\n# type = "text"\n')
    + """
import os, pathlib, sys
folder = pathlib.Path(open(sys.argv[2]).read().split("output_dir: ")[1].strip())
folder.mkdir(parents=True, exist_ok=True)
(folder / "by").write_text(os.environ["NEMOTRON_JOB_NAME"])
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

    def read(self, *words: str) -> str:
        """Which version a job says it has read; its record says the same."""
        ended = self.bench.nemotron("mine", "read", "--run", "target", *words).succeeds()
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
