"""The programs of ours that go with every job: the same for all, named by version and digest where a job is shown."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from pathlib import Path, PurePosixPath

import nemo_runspec
from nemo_runspec.backends.base import Program

SUPERVISOR = "supervisor.py"
PROGRAMS = (SUPERVISOR, "start.sh", "fallback.sh")
"""Names in a job's directory."""

_ROOM = "jobside"
_SHARED = ("forms",)
"""Modules of the toolkit that the job side uses too."""

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

from nemo_runspec.jobside.main import main

os._exit(main(sys.argv[1:]))
"""


@lru_cache
def supervisor() -> str:
    """The supervisor as one text, which any python3 from 3.6 on runs."""
    top = Path(nemo_runspec.__file__).parent
    files = [*sorted((top / _ROOM).glob("*.py")), *(top / f"{name}.py" for name in _SHARED)]
    modules = {_module(file, top): file.read_text(encoding="utf-8") for file in files if file.stem != "__init__"}
    packages = dict.fromkeys(str(parent) for name in modules for parent in PurePosixPath(name).parents if parent.name)
    texts = [f"MODULES[{package.replace('/', '.')!r}] = ''\n" for package in packages]
    texts += [f"MODULES[{name.replace('/', '.')!r}] = r'''{_checked(text)}'''\n" for name, text in modules.items()]
    return "\n".join((_HEAD, *texts, _TAIL))


def _module(file: Path, top: Path) -> str:
    return str(PurePosixPath(top.name) / file.relative_to(top).with_suffix("").as_posix())


def _checked(text: str) -> str:
    assert "'''" not in text and text.isascii(), "a module of the job side is a raw text, which any Python reads"
    return text


@lru_cache
def program_text(name: str) -> str:
    """The text of one of the programs, by the name that it has in a job's directory."""
    if name == SUPERVISOR:
        return supervisor()
    return (Path(nemo_runspec.__file__).parent / _ROOM / name).read_text(encoding="utf-8")


@lru_cache
def programs(*names: str) -> tuple[Program, ...]:
    """Programs by their names; all that every job needs where none is named."""
    return tuple(_program(name) for name in names or PROGRAMS)


def _program(name: str) -> Program:
    content = program_text(name).encode()
    return Program(name, nemo_runspec.__version__, sha256(content).hexdigest(), len(content))
