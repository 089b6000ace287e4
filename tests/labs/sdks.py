"""The clouds' own SDKs as they are published: all that a lab serves and takes is held against their types.

A lab that answers as only our own code expects hides what a platform does not have. `.ci/lab-sdks` fetches the SDKs
of `sdks.txt`, each into a folder of its own; their types are read in a process of their own (`sdk_check.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from labs.cache import CACHE
from labs.web import Answer, Request, WebLab

needs_sdks = pytest.mark.lab("sdks", how="bash .ci/lab, then REQUIRE_LAB=1 uv run --group dev pytest")

INSTALLED = ""
"""The leptonai of the project's own environment, which NeMo-Run needs: 0.27."""


@dataclass(frozen=True)
class Sample:
    """A value and the type it must be of.

    Args:
        where: for a person. `type`: `module:Class`, `[module:Class]` for a list of it.
        beside: paths of fields that the type does not have, and that another source has.
        whole: it must be what the type takes; else only the names of its fields are looked at.
    """

    where: str
    type: str
    value: Any
    beside: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True)
class Type:
    """What a route takes and gives, as types of an SDK; '' for nothing that has one.

    Args:
        part: of an answer, the key below which the rest is. `why`: of one without a type.
    """

    gives: str = ""
    takes: str = ""
    part: str = ""
    beside: tuple[str, ...] = ()
    why: str = ""


def problems(sdk: str, samples: Sequence[Sample]) -> list[str]:
    """What one SDK, such as `leptonai==0.47.1`, says against values."""
    script = str(Path(__file__).with_name("sdk_check.py"))
    environment = {**os.environ, "PYTHONPATH": str(CACHE / "sdks" / sdk) if sdk else ""}
    assert not sdk or (CACHE / "sdks" / sdk).is_dir(), f"no {sdk} there: bash .ci/lab-sdks"
    text = json.dumps([asdict(sample) for sample in samples])
    done = subprocess.run(
        [sys.executable, script], input=text, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[str] = json.loads(done.stdout)
    return found


def audited(lab: WebLab, table: Mapping[str, Type]) -> list[Sample]:
    """The list into which all that the lab takes and gives comes from now on, as samples of the table's types."""
    found: list[Sample] = []

    def audit(route: str, request: Request, answer: Answer) -> None:
        entry = table[route]
        if entry.gives and answer.body is not None:
            value = answer.body[entry.part] if entry.part else answer.body
            found.append(Sample(f"answer to {route}", entry.gives, _plain(value), entry.beside))
        if entry.takes:
            found.append(Sample(f"body of {route}", entry.takes, request.json(), entry.beside))

    lab.audit = audit
    return found


def routes_of(lab: WebLab) -> set[str]:
    """All routes, as `audited` names them."""
    functions = (getattr(type(lab), name) for name in dir(type(lab)))
    return {f"{method} {path}" for each in functions for method, path in getattr(each, "routes", ())}


def filled(schema: Mapping[str, Any]) -> Any:
    """A value with every field that a JSON schema has, each with something that fits."""
    if "enum" in schema:
        return schema["enum"][0]
    make = _MAKERS.get(str(schema.get("type")), lambda _: "x")
    return make(schema)


def _filled_object(schema: Mapping[str, Any]) -> dict[str, Any]:
    extra = schema.get("additionalProperties")
    found = {name: filled(each) for name, each in schema.get("properties", {}).items()}
    return {**found, **({"x": filled(extra)} if isinstance(extra, Mapping) else {})}


_MAKERS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "object": _filled_object,
    "array": lambda schema: [filled(schema["items"])],
    "integer": lambda schema: schema.get("minimum", 1),
    "boolean": lambda schema: True,
}


def of_names(names: Iterable[str]) -> dict[str, None]:
    """A value with these fields, without content."""
    return dict.fromkeys(names)


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
