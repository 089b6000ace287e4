"""The programs of ours that go with jobs: the same for all, named by version and digest where a job is shown.

Those of one platform alone stand with its backend, which makes them with `program`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from nemo_runspec.backends.base import Program
from nemo_runspec.plans.model import Plan
from nemo_runspec.version import FOLDER, __version__

SUPERVISOR = "supervisor.py"
POD_FALLBACK = "fallback-pod.sh"
PROGRAMS = (SUPERVISOR, "start.sh", "fallback.sh")
"""Names in a job's directory."""
DOWNSAMPLE = "downsample.py"
"""By itself the program by which metrics are fetched from where a job ran: `python3 -c PROGRAM FILE`."""

POD_PROGRAMS = (*PROGRAMS, POD_FALLBACK)
"""Those of a job of pods."""
CHECKS_PROGRAM = "checks.py"
"""Where inputs or outputs have a type that can be checked, too."""
STORE_PROGRAM = "store.py"
"""In a job's directory, where its artifacts are in a bucket."""
CHANGES_PROGRAM = "changes.py"
"""By itself the program by which a store of artifacts is changed where it is: `python3 -c PROGRAM`, told by JSON."""

_JOBSIDE = "jobside"
_POD = "jobside/pod"
_CHECKS = "artifacts/checks"
_STORAGE = "backends/cloud/storage"
REGISTERS = ("artifacts/content.py", "artifacts/versions.py")
"""What registers artifacts where a job runs."""

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
_SUPERVISES = """
from nemo_runspec.jobside import signals

signals.block()

from {main} import main

os._exit(main(sys.argv[1:]))
"""
_RUNS = """
from {main} import main

main()
"""


@dataclass(frozen=True)
class PythonProgram:
    """What a program in Python is made of.

    Args:
        main: the module whose `main` it calls.
        places: rooms and modules of this package, as paths below it.
        modules: further ones, by their full names.
        supervises: it begins with signals blocked, and ends with the exit code of `main`, which has its arguments.
    """

    main: str
    places: tuple[str, ...]
    modules: tuple[str, ...] = ()
    supervises: bool = False

    def text(self) -> str:
        """The program as one text, which any python3 from 3.6 on runs."""
        own = tuple(module for place in self.places for module in _modules_at(place))
        found = {module: _source(module) for module in (*own, *self.modules)}
        packages = dict.fromkeys(package for module in found for package in _packages_of(module))
        texts = [f"MODULES[{package!r}] = ''\n" for package in packages]
        texts += [f"MODULES[{module!r}] = r'''{_checked(text)}'''\n" for module, text in found.items()]
        return "\n".join((_HEAD, *texts, (_SUPERVISES if self.supervises else _RUNS).format(main=self.main)))


_MADE = {
    SUPERVISOR: PythonProgram(
        "nemo_runspec.jobside.main", (_JOBSIDE, "forms.py", "lines.py", *REGISTERS), supervises=True
    ),
    CHECKS_PROGRAM: PythonProgram("nemo_runspec.artifacts.checks.main", (f"{_CHECKS}/main.py", _CHECKS)),
    STORE_PROGRAM: PythonProgram(
        "nemo_runspec.backends.cloud.storage.store_program",
        (
            *(f"{_STORAGE}/{name}.py" for name in ("store_program", "s3", "s3_signing", "s3_wire", "versions")),
            "s3_names.py",
            "artifacts/changes.py",
            *REGISTERS,
        ),
    ),
    CHANGES_PROGRAM: PythonProgram("nemo_runspec.artifacts.changes", ("artifacts/changes.py", *REGISTERS)),
}


def programs(*names: str) -> tuple[Program, ...]:
    """Programs by their names."""
    return tuple(program(name, program_text(name)) for name in names)


def checks_programs(plan: Plan) -> tuple[str, ...]:
    """The checkers' program, where a plan has something to be checked."""
    return (CHECKS_PROGRAM,) if any(each.check and each.path for each in (*plan.consumes, *plan.produces)) else ()


def programs_of(plan: Plan) -> tuple[Program, ...]:
    """What a job needs that has no platform's own programs."""
    return programs(*PROGRAMS, *checks_programs(plan))


def pod_programs(platform: str, *further: str) -> tuple[Program, ...]:
    """All that a job of pods needs.

    Args:
        platform: the module by which its pods find out which node each is (`Backend.node_program`).
        further: programs that not every job needs.
    """
    supervisor = program(SUPERVISOR, _pod_supervisor(platform))
    return (supervisor, *programs(*(name for name in POD_PROGRAMS if name != SUPERVISOR), *further))


@lru_cache
def program(name: str, text: str) -> Program:
    """A program by its name in a job's directory and its text."""
    content = text.encode()
    return Program(name, __version__, sha256(content).hexdigest(), len(content), text)


@lru_cache
def program_text(name: str) -> str:
    """The text of one of the programs above, by its name in a job's directory."""
    return _MADE[name].text() if name in _MADE else (FOLDER / _JOBSIDE / name).read_text(encoding="utf-8")


@lru_cache
def _pod_supervisor(platform: str) -> str:
    modules = (*_modules_at(_POD), *_modules_at("s3_names.py"), platform)
    return replace(_MADE[SUPERVISOR], modules=modules).text()


def _modules_at(place: str) -> list[str]:
    """Names of the modules of a room of this package, or of one module."""
    files = [FOLDER / place] if place.endswith(".py") else sorted((FOLDER / place).glob("*.py"))
    found = [file.relative_to(FOLDER.parent).with_suffix("") for file in files if file.stem != "__init__"]
    return [".".join(path.parts) for path in found]


def _packages_of(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _source(module: str) -> str:
    """The text of a module: of ours without importing what stands above it, which a platform's own is asked for."""
    ours = FOLDER.parent.joinpath(*module.split(".")).with_suffix(".py")
    if ours.is_file():
        return ours.read_text(encoding="utf-8")
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, f"there is no {module}"
    return Path(spec.origin).read_text(encoding="utf-8")


def _checked(text: str) -> str:
    assert "'''" not in text and text.isascii(), "a module of the job side is a raw text, which any Python reads"
    return text
