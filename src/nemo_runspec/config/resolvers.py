"""OmegaConf resolvers that know the job: `${oc.env:…}` sees the job's own variables first, `${art:…}` its artifacts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from omegaconf import DictConfig, OmegaConf

_MISSING = "_nemotron_missing_"


def use_job_environment(variables: Mapping[str, str]) -> None:
    """Makes `${oc.env:NAME,default}` answer with the job's variables, then with this process's."""

    def env(name: str, default: Any = _MISSING) -> Any:
        if name in variables:
            return variables[name]
        value = os.environ.get(name)
        if value is not None:
            return value
        if default == _MISSING:
            raise KeyError(f"the environment variable {name} is not set; give a default: ${{oc.env:{name},default}}")
        return default

    OmegaConf.register_new_resolver("oc.env", env, replace=True)
    OmegaConf.register_new_resolver("art", _artifact, replace=True)


def _artifact(name: str, field: str = "path", *, _root_: DictConfig) -> Any:
    """`${art:data,path}`: a field of the artifact the recipe calls `data`."""
    value = OmegaConf.select(_root_, f"run.{name}.{field}")
    if value is None:
        raise KeyError(f"run.{name}.{field} is not known: name an artifact with run.{name}=NAME or a path")
    return value
