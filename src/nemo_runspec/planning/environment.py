"""A job's environment: plain variables with what set them, and secrets, which are taken out and go by reference."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.artifacts.store import BUCKETS
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.planning.given import FROM_FILE
from nemo_runspec.plans.model import EnvVar, SecretRef
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.system import WANDB_VARIABLES
from nemo_runspec.redact import HIDDEN, is_secret_variable, is_weak, secrets_of, without
from nemo_runspec.runspec import Runspec
from nemo_runspec.s3_names import KEYS, TOKEN, lacking, token_in
from nemo_runspec.secret_names import is_secret_name
from nemo_runspec.secrets import find, of_environment
from nemo_runspec.source import Layer, Source

ALWAYS_LOOKED_FOR = ("WANDB_API_KEY", "HF_TOKEN")


@dataclass
class JobEnvironment:
    """What a job will see.

    Args:
        variables: in the order they are exported.
        secrets: references; `values` holds what could be found now, for this process only: it never enters a plan.
        missing: secrets that a profile lists, or the recipe requires, and that were not found anywhere.
        lacking: other variables that the recipe requires, and nobody has set.
        warnings: secrets that stand in a file as text, and those that cannot be kept out of a log.
    """

    variables: list[EnvVar]
    secrets: list[SecretRef]
    values: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plain_variables(run: Mapping[str, Any], spec: Runspec, run_dir: str, local: bool) -> dict[str, EnvVar]:
    """The job's variables by name, secrets still among them: nemotron's, W&B's, the header's, the profile's; last wins.

    Args:
        run: `name` and `recipe`, and the resolved `env` and `wandb`.
        run_dir: what `NEMO_RUN_DIR` is in the job.
        local: True where the job inherits this process's environment, so that the user's own `HF_HOME` stays.
    """
    found = {variable.name: variable for variable in _automatic(run, spec, run_dir, local=local)}
    found.update({name: EnvVar(name, value, "recipe header [env]") for name, value in spec.env.items()})
    variables = (run["env"].get("env_vars") or {}).items()
    found.update({name: EnvVar(name, as_text(value), "run.env.env_vars") for name, value in variables})
    return found


def job_environment(
    run: Mapping[str, Any],
    spec: Runspec,
    run_dir: str,
    sources: Mapping[str, Source],
    *,
    local: bool,
    files: Mapping[str, str] | None = None,
) -> JobEnvironment:
    """The variables of `plain_variables` with their sources, and the secrets taken out of them.

    Args:
        run: the resolved `run` section.
        sources: dotted path → where a value was written.
        files: variable → the file that was named for it on the command line.

    Raises:
        UserError: a variable is set, and is to be a secret of the platform too.
    """
    found = plain_variables(run, spec, run_dir, local)
    for name in run["env"].get("env_vars") or {}:
        source = _source(sources, name)
        if source is not None:
            found[name] = EnvVar(name, found[name].value, source.label())
    kept = _kept_there(run["env"])
    refuse_twice_given(run["env"], found.values())
    required = [name for name in spec.requires_env if name not in kept]
    listed = _listed(run["env"], kept, bucket=_uses_bucket(run, spec)) + [n for n in required if is_secret_name(n)]
    result = _split(found, listed, _Written(sources, files or {}), kept)
    result.lacking += _unset(required, result, local=local)
    result.warnings += weak_ones({**(of_environment(weak=True) if local else {}), **result.values})
    return result


def _unset(required: Iterable[str], known: JobEnvironment, *, local: bool) -> list[str]:
    """Variables that nobody has set, where the job inherits this process's too. Secrets are told apart."""
    given = {variable.name for variable in known.variables if variable.value} | {*known.values, *known.missing}
    return [name for name in required if name not in given and not (local and os.environ.get(name))]


def refuse_twice_given(env: Mapping[str, Any], variables: Iterable[EnvVar]) -> None:
    """Raises `UserError` for a variable that is set, and is to be a secret of the platform too. `env`: the profile."""
    kept = _kept_there(env)
    for variable in variables:
        if key := kept.get(variable.name):
            raise UserError(
                f"{key}: the platform is to set {variable.name}, and so does {variable.source}",
                remedy="leave one of them out",
                key=key,
            )


def take_arguments(args: Sequence[str], environment: JobEnvironment) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The script's arguments as they may be written down. Secrets among them go by reference, as variables of the job.

    Returns: the arguments with `HIDDEN` for each secret, and the names of these variables, see `Launch.secret_args`.
    """
    found = list(zip(args, secrets_of(args), strict=True))
    values = [word[slice(*span)] for word, spans in found for span in spans]
    names = tuple(f"NEMOTRON_ARG_{number}" for number, _ in enumerate(values, 1))
    if values and any(HIDDEN in word for word in args):
        raise UserError(f"an argument after -- holds {HIDDEN}, which stands for a secret that is not shown")
    environment.secrets += [SecretRef(name, "override", "an argument after --") for name in names]
    environment.values.update(zip(names, values, strict=True))
    return tuple(without(word, spans) for word, spans in found), names


def weak_ones(values: Mapping[str, str]) -> list[str]:
    """A warning about the secrets that no log is kept free of, by name; none where there are none."""
    names = ", ".join(name for name, value in values.items() if value and is_weak(value))
    why = "too short or too common a text to be hidden in logs: choose a longer one"
    return [f"weak secret {names}: {why}"] if names else []


def as_text(value: Any) -> str:
    """A scalar as a shell would see it; booleans as `true` and `false`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _automatic(run: Mapping[str, Any], spec: Runspec, run_dir: str, *, local: bool) -> Iterable[EnvVar]:
    yield EnvVar("NEMO_RUN_DIR", run_dir, "the profile's job directory")
    if not (local and os.environ.get("HF_HOME")):
        yield EnvVar("HF_HOME", f"{run_dir}/hf", "below NEMO_RUN_DIR")
    yield from _wandb(run)


def _wandb(run: Mapping[str, Any]) -> Iterable[EnvVar]:
    """W&B's variables, where anything of it is set; the run's id and name are the job's (`jobside/environment.py`)."""
    wandb = {k: v for k, v in run["wandb"].items() if v not in (None, "", []) and k in WANDB_VARIABLES}
    if not wandb:
        return
    wandb.setdefault("job_type", str(run["recipe"]).replace("/", "-"))
    for key, variable in WANDB_VARIABLES.items():
        if key in wandb:
            value = wandb[key]
            yield EnvVar(variable, ",".join(value) if isinstance(value, list) else as_text(value), f"run.wandb.{key}")


def _kept_there(env: Mapping[str, Any]) -> dict[str, str]:
    """Variables that the platform itself sets, from secrets it keeps → the key that says so."""
    keys = _keys_of(env, lambda key: key.keeps_secrets)
    return {variable: key for key in keys for variable in env.get(key) or ()}


def _keys_of(env: Mapping[str, Any], has: Callable[[Field], bool]) -> tuple[str, ...]:
    return fields_of(str(env.get("executor"))).where(has)


def _uses_bucket(run: Mapping[str, Any], spec: Runspec) -> bool:
    """True if a job reads or writes artifacts in a bucket."""
    tables = (run.get(item.name) or {} for item in (*spec.consumes, *spec.produces))
    in_bucket = str((run.get("artifacts") or {}).get("root") or "").startswith(BUCKETS)
    return in_bucket and any(table.get("artifact") for table in tables)


def _listed(env: Mapping[str, Any], kept: Collection[str], *, bucket: bool = False) -> list[str]:
    """Secrets the profile lists, and those its data needs."""
    listed = list(env.get("secrets") or ())
    if not bucket and not any(env.get(key) for key in _keys_of(env, lambda key: key.on_s3)):
        return listed
    listed += lacking({*listed, *kept, *(env.get("env_vars") or ())})
    return [*listed, *_token(listed)]


def _token(listed: Collection[str]) -> list[str]:
    """The token of keys that go from here, where they are temporary: it is never missing."""
    tokens = {"ACCESS_KEY": token_in(os.environ), KEYS["ACCESS_KEY"]: os.environ.get(TOKEN, "").strip()}
    return [TOKEN] if any(tokens[name] for name in tokens if name in listed) else []


def _split(
    found: Mapping[str, EnvVar], listed: Sequence[str], written: _Written, kept: Collection[str]
) -> JobEnvironment:
    """Secrets taken out of the variables; those in `kept` are neither looked for here nor missing."""
    wanted = [name for name in dict.fromkeys([*listed, *ALWAYS_LOOKED_FOR]) if name not in kept]
    result = JobEnvironment([], [])
    for name, variable in found.items():
        secret = is_secret_variable(name, variable.value) or name in wanted
        if not secret and (variable.value or not is_secret_name(name)):
            result.variables.append(variable)
        elif secret and variable.value:
            result.secrets.append(_given(variable, written))
            result.values[name] = variable.value
            result.warnings += _as_text_somewhere(variable, written)
    for name in wanted:
        if name in result.values:
            continue
        reference, value = find(name, {each.name: each.value for each in found.values()})
        if value:
            result.secrets.append(reference)
            result.values[name] = value
        elif name not in ALWAYS_LOOKED_FOR or name in listed:
            result.missing.append(name)
    return result


@dataclass(frozen=True)
class _Written:
    """Where variables were written. `files`: of those that a file on the command line has."""

    sources: Mapping[str, Source]
    files: Mapping[str, str]

    def source(self, name: str) -> Source | None:
        return _source(self.sources, name)


def _given(variable: EnvVar, written: _Written) -> SecretRef:
    """The reference of a secret that stands in `env_vars`: where it can be found again, if anywhere."""
    source = written.source(variable.name)
    if os.environ.get(variable.name) == variable.value:
        return SecretRef(variable.name, "environment", variable.name)
    if file := written.files.get(variable.name):
        return SecretRef(variable.name, FROM_FILE, file)
    from_profile = source is not None and source.layer is Layer.PROFILE
    return SecretRef(variable.name, "profile" if from_profile else "override", variable.source)


def _as_text_somewhere(variable: EnvVar, written: _Written) -> list[str]:
    """A warning about a secret that was written where others read it, rather than taken from the environment."""
    if variable.value in os.environ.values() or written.files.get(variable.name):
        return []  # a file of variables is made for secrets, too
    source = written.source(variable.name)
    where = source.place() if source else variable.source
    mend = f'export {variable.name}=… and list it, secrets = ["{variable.name}"], instead'
    return [f"secret {variable.name} stands as text in {where}; it travels as a secret: {mend}"]


def _source(sources: Mapping[str, Source], name: str) -> Source | None:
    return sources.get(f"run.env.env_vars.{name}") or sources.get("run.env.env_vars")
