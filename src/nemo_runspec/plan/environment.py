"""A job's environment: plain variables with what set them, and secrets, which are taken out and go by reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.plan.model import EnvVar, SecretRef
from nemo_runspec.profiles.system import WANDB_VARIABLES
from nemo_runspec.redact import is_secret_name
from nemo_runspec.runspec import Runspec
from nemo_runspec.secrets import find
from nemo_runspec.source import Layer, Source

ALWAYS_LOOKED_FOR = ("WANDB_API_KEY", "HF_TOKEN")


@dataclass
class JobEnvironment:
    """What a job will see.

    Args:
        variables: in the order they are exported.
        secrets: references; `values` holds what could be found now, for this process only: it never enters a plan.
        missing: secrets a profile lists that were not found anywhere.
    """

    variables: list[EnvVar]
    secrets: list[SecretRef]
    values: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def job_environment(
    run: Mapping[str, Any], spec: Runspec, run_dir: str, recipe: str, sources: Mapping[str, Source], *, local: bool
) -> JobEnvironment:
    """Joins what nemotron, W&B settings, the recipe's header and the profile's `env_vars` set; the last wins.

    Args:
        run: the resolved `run` section. `run_dir`: what `NEMO_RUN_DIR` is in the job.
        local: True where the job inherits this process's environment, so that the user's own `HF_HOME` stays.
    """
    found: dict[str, EnvVar] = {}
    for variable in _automatic(run, run_dir, recipe, local=local):
        found[variable.name] = variable
    for name, value in spec.env.items():
        found[name] = EnvVar(name, value, "recipe header [env]")
    for name, value in (run["env"].get("env_vars") or {}).items():
        source = _source(sources, name)
        found[name] = EnvVar(name, as_text(value), source.label() if source else "run.env.env_vars")
    return _split(found, run["env"].get("secrets") or (), sources)


def as_text(value: Any) -> str:
    """A scalar as a shell would see it; booleans as `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _automatic(run: Mapping[str, Any], run_dir: str, recipe: str, *, local: bool) -> Iterable[EnvVar]:
    import os

    yield EnvVar("NEMO_RUN_DIR", run_dir, "the profile's job directory")
    if not (local and os.environ.get("HF_HOME")):
        yield EnvVar("HF_HOME", f"{run_dir}/hf", "below NEMO_RUN_DIR")
    wandb = {k: v for k, v in run["wandb"].items() if v not in (None, "", [])}
    if not wandb.get("project") and not wandb.get("entity"):
        return
    wandb.setdefault("name", run["name"])
    wandb.setdefault("job_type", recipe.replace("/", "-"))
    for key, variable in WANDB_VARIABLES.items():
        if key in wandb:
            value = wandb[key]
            yield EnvVar(variable, ",".join(value) if isinstance(value, list) else as_text(value), f"run.wandb.{key}")


def _split(found: Mapping[str, EnvVar], listed: Iterable[str], sources: Mapping[str, Source]) -> JobEnvironment:
    wanted = list(dict.fromkeys([*listed, *ALWAYS_LOOKED_FOR]))
    result = JobEnvironment([], [])
    for name, variable in found.items():
        if not is_secret_name(name) and name not in wanted:
            result.variables.append(variable)
        elif variable.value:
            source = _source(sources, name)
            on_argv = source is not None and source.layer is Layer.CLI
            result.secrets.append(SecretRef(name, "override" if on_argv else "profile", variable.source))
            result.values[name] = variable.value
    for name in wanted:
        if name in result.values:
            continue
        reference, value = find(name)
        if value:
            result.secrets.append(reference)
            result.values[name] = value
        elif name not in ALWAYS_LOOKED_FOR or name in listed:
            result.missing.append(name)
    return result


def _source(sources: Mapping[str, Source], name: str) -> Source | None:
    return sources.get(f"run.env.env_vars.{name}") or sources.get("run.env.env_vars")
