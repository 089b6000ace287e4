"""OmegaConf resolvers that know the job: `${oc.env:…}` sees its variables first; `${art:…}`, `${plan:…}`.

OmegaConf keeps resolvers for the whole process. They are put in place for the making of one plan and taken back after
it, so that neither another plan nor a program that calls this library sees them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.base import Container
from omegaconf.basecontainer import BaseContainer

from nemo_runspec.config.doubling import too_many

_MISSING = "_nemotron_missing_"
_FIELDS = {"name": "artifact"}
"""Fields of `${art:…}` that a table calls otherwise."""

MOST_RESOLVED = 10_000
"""Interpolations that one configuration may need resolved; each is counted as often as it is."""

MOST_TEXT = 64 << 20
"""Characters that they may come to together."""


@contextmanager
def bounded_resolution() -> Iterator[None]:
    """While it lasts, a configuration that doubles itself (`a: ${b}${b}`, `b: ${c}${c}`, …) is an error.

    OmegaConf has no limit of its own: thirty such lines fill any memory.

    Raises:
        UserError: more than `MOST_RESOLVED` interpolations, or `MOST_TEXT` characters.
    """
    resolve = Container._resolve_interpolation_from_parse_tree
    left = {"number": MOST_RESOLVED, "text": MOST_TEXT}

    def counted(self: Container, *args: Any, **kwargs: Any) -> Any:
        found = resolve(self, *args, **kwargs)
        value = found._value() if found is not None else None
        left["number"] -= 1
        left["text"] -= len(value) if isinstance(value, str) else 0
        if min(left.values()) < 0:
            raise too_many(MOST_RESOLVED)
        return found

    Container._resolve_interpolation_from_parse_tree = counted  # type: ignore[method-assign]
    try:
        yield
    finally:
        Container._resolve_interpolation_from_parse_tree = resolve  # type: ignore[method-assign]


@contextmanager
def job_resolvers(
    variables: Mapping[str, str],
    auto_mount: Callable[..., str] | None = None,
    plan: Callable[[str], int] | None = None,
) -> Iterator[None]:
    """While it lasts, `${oc.env:NAME,default}` answers with `variables`, then with this process's environment.

    `variables` may grow meanwhile. As with OmegaConf's own resolver, a default is text.

    Args:
        auto_mount: what `${auto_mount:git+URL@ref,target}` calls with the text between its commas.
        plan: what `${plan:nodes}` calls.
    """
    resolvers: dict[str, Callable[..., Any]] = BaseContainer._resolvers
    before = {name: resolvers.get(name) for name in ("oc.env", "art", "auto_mount", "plan")}

    def env(name: str, default: Any = _MISSING) -> Any:
        value = variables.get(name, os.environ.get(name))
        if value is not None:
            return value
        if default == _MISSING:
            raise KeyError(f"the environment variable {name} is not set; give a default: ${{oc.env:{name},default}}")
        return None if default is None else str(default)

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    OmegaConf.register_new_resolver("art", _artifact, replace=True)
    if auto_mount is not None:
        OmegaConf.register_new_resolver("auto_mount", auto_mount, replace=True)
    if plan is not None:
        OmegaConf.register_new_resolver("plan", plan, replace=True)
    try:
        yield
    finally:
        for name, resolver in before.items():
            if resolver is None:
                resolvers.pop(name, None)
            else:
                resolvers[name] = resolver


def _artifact(name: str, field: str = "path", *, _root_: DictConfig) -> Any:
    """`${art:data,path}`: a field of the artifact the recipe calls `data`."""
    value = OmegaConf.select(_root_, f"run.{name}.{_FIELDS.get(field, field)}")
    if value is None:
        raise KeyError(f"run.{name}.{field} is not known: name an artifact with run.{name}=NAME or a path")
    return value
