"""The profile keys that all clouds share, and what a plan's target gets of them. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.checks import VARIABLE, lists, tables, texts
from nemo_runspec.backends.stall import STALL_TIMEOUT, stall_problem, stall_seconds
from nemo_runspec.backends.target import Target
from nemo_runspec.duration import FORMS, whole_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.redact import is_secret_variable

_S3_VARIABLES = {"s3_endpoint": ("S3_ENDPOINT_URL", ""), "s3_region": ("CLOUD_REGION", "us-east-1")}
"""Where the S3 service is: the variable that says so where the profile does not, else what is meant. It is decided
with the plan: whatever asks S3 later, here or in a pod, reads the target."""

_TIMEOUTS = ("queue_timeout", "pull_timeout", "start_timeout")

CODE_TRANSPORTS = ("auto", "inline", "git", "s3", "volume")

_LEFT_OPEN = "a plan leaves open how the job's files reach its pods, which is decided as it is submitted"
_BY_WHO_ASKS = "the platform is not told: whoever asks about the job acts by it"

FIELDS: tuple[Field, ...] = (
    Field(
        "code_transport",
        "str",
        "How the job's files reach its pods: inline (in the job's own description), git (a commit the pods can fetch), "
        "s3 (presigned), volume (run_dir_here); auto takes the first that fits.",
        default="auto",
        choices=CODE_TRANSPORTS,
        never_sent=_LEFT_OPEN,
    ),
    Field(
        "code_url",
        "str",
        "Where code is put for transport s3, such as s3://bucket/code.",
        never_sent=_LEFT_OPEN,
    ),
    Field(
        "run_dir_here",
        "str",
        "The directory for jobs as this machine sees it, where it is mounted here too.",
        never_sent=_LEFT_OPEN,
    ),
    Field("inputs", "table[str]", 'Data the job reads: path in the job = s3://bucket/key, such as "/data/x".'),
    Field("outputs", "list[str]", "Paths of the job that are copied to output_url, also when it has failed."),
    Field(
        "output_url",
        "str",
        "Where outputs go, such as s3://bucket/results; below it, a folder for each job. By default results in the "
        "bucket that S3_BUCKET_NAME names, where there are outputs.",
    ),
    Field("s3_endpoint", "str", "URL of an S3 service other than Amazon's; by default S3_ENDPOINT_URL."),
    Field("s3_region", "str", "Region of the S3 service; by default CLOUD_REGION, else us-east-1."),
    Field(
        "cloud_metadata",
        "bool",
        "Give the job CLOUD_METADATA: for each bucket that this profile names its region, endpoint and keys, as JSON, "
        "where containers of NVIDIA's TAO Toolkit look for them.",
        default=False,
    ),
    Field(
        "queue_timeout",
        "str",
        "How long a job may wait for nodes, such as 15m.",
        default="15m",
        never_sent=_BY_WHO_ASKS,
    ),
    Field(
        "pull_timeout",
        "str",
        "How long its nodes may pull the image, such as 1h; 5m at most once the platform says it cannot be pulled.",
        default="1h",
        never_sent=_BY_WHO_ASKS,
    ),
    Field(
        "start_timeout",
        "str",
        "How long its nodes may take to start otherwise, such as 15m.",
        default="15m",
        never_sent=_BY_WHO_ASKS,
    ),
    Field(
        "on_timeout",
        "str",
        "What becomes of a job that waits for longer: warn, or stop (it is stopped and diagnosed). By default it is "
        "stopped where it has nodes and does not start, and warned about while it waits for them.",
        choices=("warn", "stop"),
        never_sent=_BY_WHO_ASKS,
    ),
    Field(
        "retries",
        "count",
        "How often a job that was evicted, or whose node was at fault, is submitted again.",
        default=0,
    ),
    STALL_TIMEOUT,
    Field(
        "avoid_failed_nodes",
        "bool",
        "Submit it again without the nodes that were at fault.",
        default=False,
        never_sent=_BY_WHO_ASKS,
    ),
    Field("secret_vars", "table[str]", "Variable of the job = name of a secret that the platform keeps."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTarget(Target):
    """What a cloud job is beyond what every plan says; each backend's target adds its own.

    Args:
        shared: whether the job's directory lies on storage that outlives its pods and that all of them see.
        s3_endpoint: '' is Amazon's.
        cloud_metadata: the buckets of which the job is told where they are and with which keys, in `CLOUD_METADATA`.
        queue_timeout, pull_timeout, start_timeout: seconds. `on_timeout`: `warn`, `stop`, or '' for what fits each.
        stall_timeout: seconds without progress, after which the job ends itself; None for as long as it likes.
        retries: of a job that was evicted or had a bad node; never of one that failed by itself.
        warnings: what is odd but not wrong. `unfilled`: what must be mended before a submission.
    """

    container_image: str = field()
    shared: bool = False
    code_transport: str = "auto"
    code_url: str = ""
    run_dir_here: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    output_url: str = ""
    s3_endpoint: str = ""
    s3_region: str = ""
    cloud_metadata: tuple[str, ...] = ()
    queue_timeout: int = 900
    pull_timeout: int = 3600
    start_timeout: int = 900
    on_timeout: str = ""
    stall_timeout: int | None = None
    retries: int = 0
    avoid_failed_nodes: bool = False
    secret_vars: dict[str, str] = field(default_factory=dict)
    pre_launch_commands: tuple[str, ...] = ()
    custom_spec: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()


def cloud_values(env: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of a `CloudTarget` from a merged profile, but for those that a backend finds out."""
    defaults = {declared.name: declared.default for declared in FIELDS}
    return {
        "code_transport": env.get("code_transport") or "auto",
        "on_timeout": env.get("on_timeout") or "",
        "stall_timeout": stall_seconds(env.get("stall_timeout")),
        "retries": env.get("retries") or 0,
        "avoid_failed_nodes": bool(env.get("avoid_failed_nodes")),
        **{key: whole_seconds(str(env.get(key) or defaults[key])) for key in _TIMEOUTS},
        **{key: str(env.get(key) or _variable(env, name) or usual) for key, (name, usual) in _S3_VARIABLES.items()},
        **texts(env, "code_url", "run_dir_here", unset=""),
        "output_url": _output_url(env),
        "cloud_metadata": _buckets(env) if env.get("cloud_metadata") else (),
        **tables(env, "inputs", "secret_vars", "custom_spec"),
        **lists(env, "outputs", "pre_launch_commands"),
    }


def _output_url(env: Mapping[str, Any]) -> str:
    """Where outputs go; '' where nobody says so, or there are none."""
    bucket = _variable(env, "S3_BUCKET_NAME").strip().removeprefix("s3://").strip("/") if env.get("outputs") else ""
    return str(env.get("output_url") or (f"s3://{bucket}/results" if bucket else ""))


def _buckets(env: Mapping[str, Any]) -> tuple[str, ...]:
    """Every bucket that a profile, or S3_BUCKET_NAME, names, each once."""
    urls = [*(str(url) for url in (env.get("inputs") or {}).values()), _output_url(env)]
    named = [url.partition("://")[2].partition("/")[0] for url in urls]
    return tuple(filter(None, dict.fromkeys([*named, _variable(env, "S3_BUCKET_NAME").strip()])))


def _variable(env: Mapping[str, Any], name: str) -> str:
    """The job's own variable, else this machine's."""
    return str((env.get("env_vars") or {}).get(name) or os.environ.get(name, ""))


def cloud_problems(env: Mapping[str, Any]) -> list[UserError]:
    """What is wrong with the shared keys; each begins with the key's name."""
    found = [*_timeouts(env), *stall_problem(env.get("stall_timeout")), *_urls(env), *_data(env), *_secret_vars(env)]
    if env.get("cloud_metadata") and not _buckets(env):
        remedy = "set inputs or outputs, or export S3_BUCKET_NAME=bucket"
        found.append(
            UserError("cloud_metadata: no bucket is named that it could tell of", remedy=remedy, key="cloud_metadata")
        )
    return found


def _timeouts(env: Mapping[str, Any]) -> list[UserError]:
    found = []
    for key in _TIMEOUTS:
        try:
            whole_seconds(str(env.get(key) or "1m"))
        except ValueError:
            found.append(UserError(f"{key}: {env[key]!r} is no length of time", remedy=f"such as {FORMS}", key=key))
    return found


def _urls(env: Mapping[str, Any]) -> list[UserError]:
    urls = {"code_url": str(env.get("code_url") or ""), "output_url": _output_url(env)}
    urls = {key: url for key, url in urls.items() if url}
    urls |= {f"inputs: {path}": str(url) for path, url in (env.get("inputs") or {}).items()}
    return [problem for name, url in urls.items() if (problem := _url(name, url))]


def _url(name: str, url: str) -> UserError | None:
    bucket = url.partition("://")[2].partition("/")[0]
    if url.startswith("s3://") and bucket:
        return None
    rest = url.partition("://")[2] or url.lstrip("/")
    mend = f"write s3://{rest or 'bucket/path'}"
    return UserError(f"{name}: {url!r} is no S3 path", remedy=mend, key=name.partition(":")[0])


def _data(env: Mapping[str, Any]) -> list[UserError]:
    paths = [("inputs", path) for path in env.get("inputs") or {}]
    paths += [("outputs", path) for path in env.get("outputs") or ()]
    found = [
        UserError(
            f"{key}: {path!r} is not an absolute path", remedy="as the job sees it, such as /data/train.json", key=key
        )
        for key, path in paths
        if not path.startswith("/")
    ]
    if env.get("outputs") and not _output_url(env):
        remedy = "such as s3://bucket/results; or export S3_BUCKET_NAME=bucket"
        found.append(UserError("outputs: output_url does not say where they go", remedy=remedy, key="outputs"))
    return found


def _secret_vars(env: Mapping[str, Any]) -> list[UserError]:
    return [
        UserError(
            f"secret_vars: {name!r} is not the name of a variable",
            remedy='such as { HF_TOKEN = "my-secret" }',
            key="secret_vars",
        )
        for name in env.get("secret_vars") or {}
        if not VARIABLE.fullmatch(name)
    ]


def spec_variables(given: Any) -> list[Mapping[str, Any]]:
    """The variables of a list in a platform's spec, or in a `custom_spec`; what is none is left out."""
    return [each for each in given if isinstance(each, Mapping)] if isinstance(given, (list, tuple)) else []


def plain_secrets(custom: Mapping[str, Any], key: str, reference: str) -> list[UserError]:
    """Variables of a `custom_spec` that would show a secret to everyone who sees the job.

    Args:
        key: where that platform's spec has its variables.
        reference: what `secret_vars` would name; `{name}` is the variable's own.
    """
    return [
        UserError(
            f"custom_spec.{key}: {name} holds a secret, which everyone who sees the job would see",
            remedy=f'keep it on the platform, and set secret_vars = {{ {name} = "{reference.format(name=name)}" }}',
            key="custom_spec",
        )
        for each in spec_variables(custom.get(key))
        if is_secret_variable(name := str(each.get("name")), each.get("value"))
    ]
