"""The programs of ours that go with jobs: the same for all, named by version and digest where a job is shown."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath

import nemo_runspec
from nemo_runspec.backends.base import Program

SUPERVISOR = "supervisor.py"
PROGRAMS = (SUPERVISOR, "start.sh", "fallback.sh")
"""Names in a job's directory."""

SLURM_PROGRAMS = (*PROGRAMS, "slurm.py", "slurm.sh", "slurm_fallback.sh")
"""Those of a job on Slurm."""

_JOBSIDE = "jobside"
_SLURM = "backends/slurm/jobside"

_MODULES = {
    SUPERVISOR: (_JOBSIDE, "forms.py"),
    "slurm.py": (
        _SLURM,
        *(f"{_JOBSIDE}/{name}.py" for name in ("artifacts", "processes", "records", "secrets", "signals", "values")),
    ),
}
"""Name → the rooms and modules of this package that a program is made of; the first has its `main.py`."""

_HEAD = '''# nemotron's supervisor: what runs where a job runs. Its modules are texts, each read when it is imported.
import os
import sys

MODULES = {}


class Loader(object):
    """Finds the modules below (docs.python.org, importlib.abc); type(sys.__spec__) is ModuleSpec."""

    def find_spec(self, name, path=None, target=None):
        if name in MODULES:
            return type(sys.__spec__)(name, self, origin="supervisor.py", is_package=not MODULES[name])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        exec(compile(MODULES[module.__name__], module.__name__, "exec"), module.__dict__)

    def get_source(self, name):
        return MODULES[name]


sys.meta_path.insert(0, Loader())
'''
_TAIL = """
from nemo_runspec.jobside import signals

signals.block()

from nemo_runspec.{room}.main import main

os._exit(main(sys.argv[1:]))
"""


@lru_cache
def _python_program(name: str) -> str:
    """A program as one text, which any python3 from 3.6 on runs."""
    top = Path(nemo_runspec.__file__).parent
    files = [file for place in _MODULES[name] for file in _files(top / place)]
    modules = {_module(file, top): file.read_text(encoding="utf-8") for file in files if file.stem != "__init__"}
    packages = dict.fromkeys(str(parent) for name in modules for parent in PurePosixPath(name).parents if parent.name)
    texts = [f"MODULES[{package.replace('/', '.')!r}] = ''\n" for package in packages]
    texts += [f"MODULES[{name.replace('/', '.')!r}] = r'''{_checked(text)}'''\n" for name, text in modules.items()]
    return "\n".join((_HEAD, *texts, _TAIL.format(room=_MODULES[name][0].replace("/", "."))))


def _files(place: Path) -> Iterator[Path]:
    yield from [place] if place.suffix else sorted(place.glob("*.py"))


def _module(file: Path, top: Path) -> str:
    return str(PurePosixPath(top.name) / file.relative_to(top).with_suffix("").as_posix())


def _checked(text: str) -> str:
    assert "'''" not in text and text.isascii(), "a module of the job side is a raw text, which any Python reads"
    return text


@lru_cache
def program_text(name: str) -> str:
    """The text of one of the programs, by the name that it has in a job's directory."""
    if name in _MODULES:
        return _python_program(name)
    folder = _SLURM if name.startswith("slurm") else _JOBSIDE
    return (Path(nemo_runspec.__file__).parent / folder / name).read_text(encoding="utf-8")


@lru_cache
def programs(*names: str) -> tuple[Program, ...]:
    """Programs by their names; all that every job needs where none is named."""
    return tuple(_program(name) for name in names or PROGRAMS)


def _program(name: str) -> Program:
    content = program_text(name).encode()
    return Program(name, nemo_runspec.__version__, sha256(content).hexdigest(), len(content))
