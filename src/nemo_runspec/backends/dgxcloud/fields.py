"""The keys of a DGX Cloud profile, and the target that a plan gets from them. Pure: run:ai is not asked for anything.

The arguments of NeMo-Run's `DGXCloudExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nemo_runspec.artifacts.store import uses_bucket
from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.cloud.fields import (
    NEMO_RUN_ALONE,
    RETRIES,
    CloudTarget,
    cloud_keys,
    make_cloud_target,
    text_argument,
)
from nemo_runspec.backends.cloud.request import CreateRequest
from nemo_runspec.backends.dgxcloud.payload import LISTS, VARIABLES, gpus_asked, make_request, mounts_of, target_spec
from nemo_runspec.errors import Unfilled, UserError
from nemo_runspec.field import SAME_NAME, Field, argument, key, plain
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Plan, Resources
from nemo_runspec.plans.storage import READ_ONLY, StorageMount
from nemo_runspec.plans.target import target_of
from nemo_runspec.profiles.common import adopt, nodes_of
from nemo_runspec.redact import HIDDEN, is_secret_variable
from nemo_runspec.s3_names import lacking
from nemo_runspec.toml import as_toml
from nemo_runspec.topics import CODE, COMMAND, FILES, PLACE
from nemo_runspec.transport.loopback import require_tls
from nemo_runspec.transport.reading import count, table

_ODD: Mapping[str, str] = {
    "schedulerName": "run:ai's API (2.24) has no such key and may refuse the workload",
    "minReplicas": "it makes the workload elastic, whose pods are not told who they are",
    "maxReplicas": "it makes the workload elastic, whose pods are not told who they are",
}
"""Keys of custom_spec that are worth a word."""

_SHORTEST_ARGS = 4000
"""Characters of the first program of a pod, at most (`cloud.pod.program.boot_program`)."""

_CLAIM_KEYS = (
    Field("claimName", "str", "Name of the claim."),
    Field("path", "str", "Where jobs see the volume, absolute."),
    Field("readOnly", "bool", "Jobs cannot write on it.", default=False),
)
_CLAIM = '{ claimName = "my-pvc", path = "/pvc", readOnly = false }'


@dataclass(frozen=True, slots=True, kw_only=True)
class DgxCloudTarget(CloudTarget):
    """A run:ai workload beyond what every plan says. Required keys a profile lacks are empty. Holds no secret.

    NeMo-Run's executor writes the client secret into its job files unless the experiment is made with
    `serialize_metadata_for_scripts=False`.

    Args:
        pvcs: as written, each with `path` and a name of the claim.
        secret_vars: variable → `credential/key`.
        max_args_chars: characters of a command, or of a variable's value.
    """

    spec_variables, spec_lists, secret_example = VARIABLES, LISTS, "my-credential/{name}"
    nemo_run_executor, nemo_run_exports = "DGXCloudExecutor", True
    mounts_key, mount_example = "pvcs", '{ claimName = "my-pvc", path = "{path}", readOnly = false }'

    base_url: str = text_argument("run:ai API, such as https://example.com/api/v1.", required=True, topic=PLACE)
    kube_apiserver_url: str = text_argument(
        "Kubernetes API server of the cluster; with it, logs are read from the pods while they are there.",
        never_sent="the job's log is read there",
        topic=PLACE,
    )
    client_id: str = text_argument(
        "Client id of the API.", required=True, aliases=("app_id",), never_sent="nemotron logs in with it", topic=PLACE
    )
    client_secret: ClassVar[Field] = Field(
        "client_secret",
        "str",
        'Client secret of the API; best "${oc.env:NAME}".',
        required=True,
        aliases=("app_secret",),
        nemo_run="client_secret",
        secret=True,
        topic=PLACE,
    )
    project_name: str = text_argument("run:ai project.", required=True, topic=PLACE)
    pvc_nemo_run_dir: str = text_argument(
        "Directory for jobs, outputs and caches, on one of pvcs that may be written.", required=True, topic=FILES
    )
    pvcs: tuple[dict[str, Any], ...] = argument(
        "list[table]",
        'Volumes of the workload: { claimName, path, readOnly }, or the names of the run:ai API ("name").',
        default=[],
        inner=_CLAIM_KEYS,
        more=True,
        topic=FILES,
    )
    distributed_framework: str = argument(
        "str", "Framework of workloads with several nodes.", default="PyTorch", topic=COMMAND
    )
    launched_from_cluster: bool = argument(
        "bool",
        "nemotron itself runs in the cluster and sees the volume at pvc_nemo_run_dir.",
        default=False,
        never_sent=NEMO_RUN_ALONE,
        topic=CODE,
    )
    max_args_chars: int = argument(
        "positive",
        "Longest command, or value of a variable, that run:ai takes, in characters (4000 or more); longer ones travel "
        "in pieces.",
        default=9500,
        aliases=("dgxcloud_max_args_chars",),
        nemo_run="MAX_ARGS_CHARS",
        never_sent="it decides how the job's files travel, which a plan leaves open",
    )
    mounts: ClassVar[Field] = adopt(
        "mounts", help="Not used: what a workload sees are its pvcs.", never_sent="a warning says that it is not used"
    )
    retries: int = key(replace(RETRIES, nemo_run=SAME_NAME))
    secret_vars: dict[str, str] = plain(  # noqa: RUF009 (a field)
        "table[str]",
        "Variable of the job = credential and key that run:ai keeps, such as my-credential/TOKEN.",
        topic=COMMAND,
        verbatim=True,
        keeps_secrets=True,
    )

    def request(self, plan: Plan) -> CreateRequest:
        """As `CloudTarget.request`."""
        return make_request(self, plan)

    def gpus(self, resources: Resources) -> int | None:
        """As `Target.gpus`: what the spec asks for, `custom_spec` included; a part of a device is one."""
        spec = self.merged(target_spec(self, resources.nodes, resources.gpus_per_node)).spec
        pods = (count(spec.get("numWorkers")) or 0) + 1
        each = gpus_asked(table(spec.get("compute")))
        return None if each is None else pods * each

    def spec_mounts(self) -> tuple[StorageMount, ...]:
        """As `CloudTarget.spec_mounts`."""
        return mounts_of(self.merged(target_spec(self)).spec)


FIELDS: tuple[Field, ...] = cloud_keys(DgxCloudTarget)


def make_target(request: TargetRequest) -> DgxCloudTarget:
    """The DGX Cloud part of a plan.

    Raises:
        UserError: values run:ai or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    target = make_cloud_target("dgxcloud", DgxCloudTarget, env, _problems(env))
    if target.launched_from_cluster:  # the claim is seen there at the path that pods see
        target = replace(target, run_dir_here=target.run_dir_here or target.pvc_nemo_run_dir)
    lost = _why_lost(target)
    return replace(target, shared=not lost, unfilled=(*_unfilled(env, lost),), warnings=(*_warnings(env, target),))


def claim_name(claim: Mapping[str, Any]) -> str:
    """The name of a claim's volume, whichever spelling the profile has."""
    return str(claim.get("claimName") or claim.get("name") or "")


def claim_of(pvcs: Any, folder: str) -> Mapping[str, Any] | None:
    """The claim a directory of the job lies on: the innermost one, None where it lies on none."""
    path = posixpath.normpath(folder)
    found = [claim for claim in pvcs or () if below(path, posixpath.normpath(str(claim["path"])))]
    return max(found, key=lambda claim: len(posixpath.normpath(str(claim["path"]))), default=None)


def _problems(env: Mapping[str, Any]) -> Iterator[UserError]:
    for number, claim in enumerate(env.get("pvcs") or ()):
        if not str(claim.get("path") or "").startswith("/") or not claim_name(claim):
            what = f"pvcs[{number}] needs claimName and an absolute path: {as_toml(claim)}"
            yield UserError(what, remedy=f"such as {_CLAIM}", key="pvcs")
    for name, reference in (env.get("secret_vars") or {}).items():
        if str(reference).count("/") != 1 or not all(str(reference).split("/")):
            what = f"secret_vars: {name} = {str(reference)!r} does not say which key of which credential is meant"
            yield UserError(what, remedy=f'such as {{ {name} = "my-credential/{name}" }}', key="secret_vars")
    length = env.get("max_args_chars") or 0
    if 0 < length < _SHORTEST_ARGS:
        what = f"max_args_chars: {length} characters do not hold what a pod begins with"
        yield UserError(what, remedy=f"{_SHORTEST_ARGS} or more, as far as run:ai takes them", key="max_args_chars")


def _warnings(env: Mapping[str, Any], target: DgxCloudTarget) -> Iterator[str]:
    if env.get("mounts"):
        yield "mounts are not used: DGX Cloud mounts volume claims only, see pvcs"
    spec = target_spec(target, nodes_of(env), env.get("gpus_per_node") or 0)
    yield from (f"custom_spec.{key} takes the place of what nemotron sets" for key in target.merged(spec).replaced)
    yield from (f"custom_spec.{key}: {why}" for key, why in _ODD.items() if key in target.custom_spec)


def _unfilled(env: Mapping[str, Any], lost: str) -> Iterator[Unfilled]:
    if lost and env.get("pvc_nemo_run_dir"):
        yield Unfilled(lost, key="pvc_nemo_run_dir")
    for name in ("base_url", "kube_apiserver_url"):
        url = str(env.get(name) or "")
        # Not what is still to be filled in, such as YOUR-URL or <url>.
        if url[:1].islower() or url[:1].isdecimal() or "://" in url:
            try:
                require_encryption(name, url)
            except UserError as error:
                yield Unfilled(f"{error.what}; fix: {error.remedy}", key=name)
    for name in _without_reference(env):
        yield Unfilled(_astray(name))


def _astray(name: str) -> str:
    return (
        f"secret {name} cannot travel to run:ai, which would show it: make a credential there (Credentials, "
        f'generic secret) with the key {name}, and set secret_vars = {{ {name} = "my-credential/{name}" }}'
    )


def require_encryption(key: str, url: str) -> None:
    """Refuses an address of a profile to which the secret and tokens would travel in clear. As `require_tls`."""
    require_tls(key, url, "the application's secret and its tokens", example="https://example.com/api/v1")


def _without_reference(env: Mapping[str, Any]) -> list[str]:
    """Secrets the job is to have, and run:ai is not said to keep. A workload's own variables are shown to everyone."""
    kept = env.get("secret_vars") or {}
    variables = (env.get("env_vars") or {}).items()  # a plan has hidden the secrets among them
    listed = [*(env.get("secrets") or ()), *(k for k, v in variables if v == HIDDEN or is_secret_variable(k, v))]
    if env.get("inputs") or env.get("outputs"):
        listed += lacking(kept)
    return [name for name in dict.fromkeys(listed) if name not in kept]


def without_a_way(plan: Plan) -> list[str]:
    """What must be mended before a plan can be submitted: secrets that have no way to run:ai."""
    from nemo_runspec.backends.cloud.code import transports

    astray = "a secret among the arguments after -- cannot travel to run:ai, which would show it: keep it there as a "
    mend = "credential, name it in secret_vars, and let the script read the variable instead"
    keys = lacking(target_of(plan, DgxCloudTarget).secret_vars) if uses_bucket(plan) else []
    return [
        *transports.lacking(plan),
        *([astray + mend] if plan.launch.secret_args else []),
        *(f"artifacts in a bucket: {_astray(name)}" for name in keys),
    ]


def _why_lost(target: DgxCloudTarget) -> str:
    """Why the directory for jobs does not outlive a job's pods, '' where it does."""
    folder = posixpath.normpath(target.pvc_nemo_run_dir or "/")
    if not (why := target.why_lost(folder)):
        return ""
    storage = target.storage("")
    mount, claim = storage.mount_of(folder), claim_of(target.pvcs, folder)
    if mount is None:
        roots = ", ".join(posixpath.normpath(each.target) for each in storage.mounts)
        return f"pvc_nemo_run_dir {folder!r} {why} ({roots or 'there are none'}): add {_CLAIM}"
    if mount.lost == READ_ONLY and claim is not None:
        return f"pvc_nemo_run_dir {folder!r} is on claim {claim_name(claim)}, which is readOnly: use one to be written"
    return f"pvc_nemo_run_dir {folder!r} {why}: use a claim to be written"
