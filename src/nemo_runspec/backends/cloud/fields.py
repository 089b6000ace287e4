"""The profile keys that all clouds share, and what a plan's target gets of them. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from nemo_runspec import field
from nemo_runspec.backends.checks import VARIABLE, control_characters, raise_problems
from nemo_runspec.backends.cloud.custom_spec import Merged, merge
from nemo_runspec.backends.stall import STALL_TIMEOUT, stall_problem, stall_seconds
from nemo_runspec.duration import whole_seconds
from nemo_runspec.errors import UserError
from nemo_runspec.field import SAME_NAME, Field, argument, carried_values, key, keys_of, plain
from nemo_runspec.plans.storage import Storage, StorageMount, tables
from nemo_runspec.plans.target import Target
from nemo_runspec.profiles.common import adopt
from nemo_runspec.redact import is_secret_variable
from nemo_runspec.s3_names import REGION
from nemo_runspec.topics import CODE, COMMAND, FILES, TROUBLE

if TYPE_CHECKING:
    from nemo_runspec.backends.cloud.request import CreateRequest
    from nemo_runspec.plans.model import Plan

CloudTargetT = TypeVar("CloudTargetT", bound="CloudTarget")

_S3_VARIABLES = {"s3_endpoint": ("S3_ENDPOINT_URL", ""), "s3_region": ("CLOUD_REGION", REGION)}
"""Where the S3 service is: the variable that says so where the profile does not, else what is meant. It is decided
with the plan: whatever asks S3 later, here or in a pod, reads the target."""

CODE_TRANSPORTS = ("auto", "inline", "git", "s3", "volume")

_LEFT_OPEN = "a plan leaves open how the job's files reach its pods, which is decided as it is submitted"
_BY_WHO_ASKS = "the platform is not told: whoever asks about the job acts by it"
NEMO_RUN_ALONE = "it is an argument of NeMo-Run's own executor alone"


RETRIES = Field(
    "",
    "count",
    "How often a job that was evicted, or whose node was at fault, is submitted again.",
    default=0,
    topic=TROUBLE,
    of_one_job=True,
)
SECRET_VARS = Field(
    "",
    "table[str]",
    "Variable of the job = name of a secret that the platform keeps.",
    topic=COMMAND,
    verbatim=True,
    keeps_secrets=True,
)
"""Keys of all clouds that are arguments of NeMo-Run's executor for one of them."""

text = partial(field.text, unset="")
"""A key whose value is text on one line, '' where it is not set."""


def text_argument(help: str, **facts: Any) -> Any:
    """The same for one that is an argument of NeMo-Run's executor under its own name, too."""
    return text(help, nemo_run=SAME_NAME, **facts)


def duration(help: str, default: str, **facts: Any) -> Any:
    """A key whose value is a length of time; the target has its seconds."""
    return key(Field("", "str", help, default=default, seconds=True, **facts))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudTarget(Target):
    """What a cloud job is beyond what every plan says; each backend's target adds its own keys.

    Attributes:
        spec_variables: where the platform's spec has a job's variables.
        spec_lists: lists of tables in it that `custom_spec` adds to, and the key that tells their tables apart.
        secret_example: a value of `secret_vars`, where `{name}` is the variable's own.
        mounts_key, mount_example: as in `Storage`.
        nemo_run_executor: the class of NeMo-Run's for the platform.
        nemo_run_exports: it writes `export NAME=value` for each variable, and quotes nothing.

    Args:
        shared: whether the job's directory lies on storage that outlives its pods and that all of them see.
        s3_endpoint: '' is Amazon's.
        cloud_metadata: the buckets of which the job is told where they are and with which keys, in `CLOUD_METADATA`.
        queue_timeout, pull_timeout, start_timeout: seconds.
        on_timeout: `warn`, `stop`, or '' for what fits each.
        stall_timeout: seconds without progress, after which the job ends itself; None for as long as it likes.
        retries: of a job that was evicted or had a bad node; never of one that failed by itself.
        warnings: what is odd but not wrong.
        unfilled: what must be mended before a submission.
    """

    spec_variables: ClassVar[str]
    spec_lists: ClassVar[Mapping[str, str]]
    secret_example: ClassVar[str]
    mounts_key: ClassVar[str] = "mounts"
    mount_example: ClassVar[str]
    nemo_run_executor: ClassVar[str]
    nemo_run_exports: ClassVar[bool] = False

    container_image: str = key(adopt("container_image", required=True, nemo_run=SAME_NAME, one_line=True), unset="")
    nodes: ClassVar[Field] = adopt("nodes", nemo_run="nodes")
    gpus_per_node: ClassVar[Field] = adopt("gpus_per_node", nemo_run="gpus_per_node")
    nproc_per_node: ClassVar[Field] = adopt("nproc_per_node", nemo_run="nprocs_per_node")
    packager: ClassVar[Field] = adopt("packager", nemo_run="packager")
    pre_launch_commands: tuple[str, ...] = plain(
        "list[str]",
        "Shell commands that every pod runs before the job; one that fails ends it.",
        default=[],
        topic=COMMAND,
        verbatim=True,
    )
    custom_spec: dict[str, Any] = argument(  # noqa: RUF009 (a field)
        "table",
        "Further keys of the job's spec; they win over all others, and a warning names what they replace.",
        verbatim=True,
        asks_gpus=True,
    )

    code_transport: str = plain(
        "str",
        "How the job's files reach its pods: inline (in the job's own description), git (a commit the pods can fetch), "
        "s3 (presigned), volume (run_dir_here); auto takes the first that fits.",
        default="auto",
        choices=CODE_TRANSPORTS,
        never_sent=_LEFT_OPEN,
        topic=CODE,
    )
    code_url: str = text(
        "Where code is put for transport s3, such as s3://bucket/code.",
        one_line=False,
        never_sent=_LEFT_OPEN,
        topic=CODE,
    )
    run_dir_here: str = text(
        "The directory for jobs as this machine sees it, where it is mounted here too.",
        one_line=False,
        never_sent=_LEFT_OPEN,
        of_here=True,
        topic=FILES,
    )
    inputs: dict[str, str] = plain(  # noqa: RUF009 (a field)
        "table[str]",
        'Data the job reads: path in the job = s3://bucket/key, such as "/data/x".',
        topic=FILES,
        on_s3=True,
    )
    outputs: tuple[str, ...] = plain(
        "list[str]", "Paths of the job that are copied to output_url, also when it has failed.", topic=FILES, on_s3=True
    )
    output_url: str = text(
        "Where outputs go, such as s3://bucket/results; below it, a folder for each job. By default results in the "
        "bucket that S3_BUCKET_NAME names, where there are outputs.",
        one_line=False,
        topic=FILES,
    )
    s3_endpoint: str = text(
        "URL of an S3 service other than Amazon's; by default S3_ENDPOINT_URL.", one_line=False, topic=FILES
    )
    s3_region: str = text(
        f"Region of the S3 service; by default CLOUD_REGION, else {REGION}.", one_line=False, topic=FILES
    )
    cloud_metadata: tuple[str, ...] = key(
        Field(
            "",
            "bool",
            "Give the job CLOUD_METADATA: for each bucket that this profile names its region, endpoint and keys, as "
            "JSON, where containers of NVIDIA's TAO Toolkit look for them.",
            default=False,
            topic=FILES,
            on_s3=True,
        ),
        unset=(),
    )
    queue_timeout: int = duration(
        "How long a job may wait for nodes, such as 15m.", default="15m", never_sent=_BY_WHO_ASKS, topic=TROUBLE
    )
    pull_timeout: int = duration(
        "How long its nodes may pull the image, such as 1h; 5m at most once the platform says it cannot be pulled.",
        default="1h",
        never_sent=_BY_WHO_ASKS,
        topic=TROUBLE,
    )
    start_timeout: int = duration(
        "How long its nodes may take to start otherwise, such as 15m.",
        default="15m",
        never_sent=_BY_WHO_ASKS,
        topic=TROUBLE,
    )
    on_timeout: str = text(
        "What becomes of a job that waits for longer: warn, or stop (it is stopped and diagnosed). By default it is "
        "stopped where it has nodes and does not start, and warned about while it waits for them.",
        choices=("warn", "stop"),
        one_line=False,
        never_sent=_BY_WHO_ASKS,
        topic=TROUBLE,
    )
    retries: int = key(RETRIES)
    stall_timeout: int | None = key(STALL_TIMEOUT)
    avoid_failed_nodes: bool = plain(
        "bool",
        "Submit it again without the nodes that were at fault.",
        default=False,
        never_sent=_BY_WHO_ASKS,
        topic=TROUBLE,
    )
    secret_vars: dict[str, str] = key(SECRET_VARS)  # noqa: RUF009 (a field)

    shared: bool = False
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()

    def request(self, plan: Plan) -> CreateRequest:
        """The request that makes a plan's job. Each platform has its own."""
        raise NotImplementedError

    def spec_mounts(self) -> tuple[StorageMount, ...]:
        """What the job's spec mounts, `custom_spec` included. Each platform has its own."""
        raise NotImplementedError

    def runs(self) -> int:
        """As `Target.runs`: once more per retry."""
        return 1 + self.retries

    def merged(self, spec: Mapping[str, Any]) -> Merged:
        """A spec with `custom_spec` in it."""
        return merge(spec, self.custom_spec, self.spec_lists)

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`."""
        return Storage(
            self.spec_mounts(),
            key=self.mounts_key,
            example=self.mount_example,
            uploaded=self.outputs,
            fetched=tuple(self.inputs),
        )

    def why_lost(self, folder: str) -> str:
        """Why a folder ends with its pod, as the end of a sentence; '' where it lies on a mount that stays."""
        return replace(self.storage(""), uploaded=()).why_lost(folder)


def cloud_keys(target: type[CloudTarget]) -> tuple[Field, ...]:
    """The keys of a platform's profiles: those that its target declares itself, then those of all clouds."""
    own = {name: place for place, name in enumerate(target.__annotations__)}
    return tuple(sorted(keys_of(target), key=lambda declared: own.get(declared.name, len(own))))


def make_cloud_target(
    executor: str, target: type[CloudTargetT], env: Mapping[str, Any], problems: Iterable[UserError]
) -> CloudTargetT:
    """A platform's target as its declarations have it.

    Args:
        env: the merged profile.
        problems: what is wrong with the platform's own keys.

    Raises:
        UserError: these, and what is wrong with the keys of all clouds, at once.
    """
    raise_problems(executor, [*problems, *_problems(target, env)])
    found = carried_values(target, env)
    found |= {name: found[name] or _variable(env, var) or usual for name, (var, usual) in _S3_VARIABLES.items()}
    found["stall_timeout"] = stall_seconds(env.get("stall_timeout"))
    found["output_url"] = _output_url(env)
    found["cloud_metadata"] = _buckets(env) if env.get("cloud_metadata") else ()
    return target(**found)


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


def _problems(target: type[CloudTarget], env: Mapping[str, Any]) -> Iterator[UserError]:
    """What is wrong with texts that must stand on one line, and with the keys of all clouds."""
    keys = keys_of(target)
    yield from control_characters(env, [declared.name for declared in keys if declared.one_line])
    yield from _lengths_of_time(env, [declared for declared in keys if declared.seconds])
    yield from stall_problem(env.get("stall_timeout"))
    yield from _urls(env)
    yield from _data(env)
    for name in env.get("secret_vars") or {}:
        if not VARIABLE.fullmatch(name):
            what = f"secret_vars: {name!r} is not the name of a variable"
            yield UserError(what, remedy='such as { HF_TOKEN = "my-secret" }', key="secret_vars")
    if env.get("cloud_metadata") and not _buckets(env):
        remedy = "set inputs or outputs, or export S3_BUCKET_NAME=bucket"
        what = "cloud_metadata: no bucket is named that it could tell of"
        yield UserError(what, remedy=remedy, key="cloud_metadata")
    yield from _plain_secrets(target, env)


def _lengths_of_time(env: Mapping[str, Any], keys: Iterable[Field]) -> Iterator[UserError]:
    for name, usual in ((declared.name, declared.default) for declared in keys):
        try:
            whole_seconds(str(env.get(name) or usual))
        except ValueError:
            remedy = f"write it with its unit, such as {usual}"
            yield UserError(f"{name}: {env[name]!r} is no length of time", remedy=remedy, key=name)


def _urls(env: Mapping[str, Any]) -> Iterator[UserError]:
    """Addresses that are none on S3; where a key has none, it is not looked at."""
    urls = {key: url for key, url in (("code_url", env.get("code_url")), ("output_url", _output_url(env))) if url}
    urls |= {f"inputs: {path}": url for path, url in (env.get("inputs") or {}).items()}
    for name, url in urls.items():
        address = str(url).partition("://")[2]
        if not str(url).startswith("s3://") or not address.partition("/")[0]:
            remedy = f"write s3://{address or str(url).lstrip('/') or 'bucket/path'}"
            yield UserError(f"{name}: {str(url)!r} is no S3 path", remedy=remedy, key=name.partition(":")[0])


def _data(env: Mapping[str, Any]) -> Iterator[UserError]:
    for name in ("inputs", "outputs"):
        for path in env.get(name) or ():
            if not path.startswith("/"):
                remedy = "as the job sees it, such as /data/train.json"
                yield UserError(f"{name}: {path!r} is not an absolute path", remedy=remedy, key=name)
    if env.get("outputs") and not _output_url(env):
        remedy = "such as s3://bucket/results; or export S3_BUCKET_NAME=bucket"
        yield UserError("outputs: output_url does not say where they go", remedy=remedy, key="outputs")


def _plain_secrets(target: type[CloudTarget], env: Mapping[str, Any]) -> Iterator[UserError]:
    """Variables of a `custom_spec` that would show a secret to everyone who sees the job."""
    place = target.spec_variables
    for each in tables((env.get("custom_spec") or {}).get(place)):
        name = str(each.get("name"))
        if is_secret_variable(name, each.get("value")):
            what = f"custom_spec.{place}: {name} holds a secret, which everyone who sees the job would see"
            example = target.secret_example.format(name=name)
            remedy = f'keep it on the platform, and set secret_vars = {{ {name} = "{example}" }}'
            yield UserError(what, remedy=remedy, key="custom_spec")
