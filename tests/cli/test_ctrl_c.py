"""Ctrl-C before anything was started: one line and exit code 130, whatever Python was just doing."""

from __future__ import annotations

import subprocess
import sys

import pytest

SAID = "error: interrupted; nothing more was done\n"

AT_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
"""A `sitecustomize.py`: Ctrl-C comes as a module is looked for."""

IN_A_LIBRARY = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name != "nemo_runspec.planning.build" or self not in sys.meta_path:
            return
        sys.meta_path.remove(self)
        import omegaconf.base
        def cut_off(node, *given):
            try:
                raise KeyboardInterrupt
            finally:
                node.is_half_changed.by_then
        omegaconf.base.Node._set_flag = cut_off
sys.meta_path.insert(0, Finder())
"""
"""A `sitecustomize.py`: Ctrl-C cuts a change of a config in two, and putting it back fails, as seen of OmegaConf."""


def interrupted(project, tmp_path, customize, *words):
    (tmp_path / "sitecustomize.py").write_text(customize)
    return subprocess.run(
        [sys.executable, "-m", "nemotron", *words],
        cwd=project.folder,
        env=project.environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "module", ["nemotron.cli.main", "typer", "nemo_runspec.catalog", "nemotron.cli.root", "nemotron.cli.options"]
)
def test_while_modules_are_loaded(project, tmp_path, module):
    done = interrupted(project, tmp_path, AT_IMPORT.format(module=module), "nano3", "pretrain", "-c", "tiny")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", SAID)
    assert not (project.state / "jobs").exists()


def test_in_the_middle_of_a_library(project, tmp_path):
    done = interrupted(project, tmp_path, IN_A_LIBRARY, "nano3", "pretrain", "-c", "tiny")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", SAID)


def test_what_is_no_interrupt_is_no_interrupt(project, tmp_path):
    customize = IN_A_LIBRARY.replace("raise KeyboardInterrupt", "pass")
    done = interrupted(project, tmp_path, customize, "nano3", "pretrain", "-c", "tiny")
    assert done.returncode == 1 and "AttributeError" in done.stderr
