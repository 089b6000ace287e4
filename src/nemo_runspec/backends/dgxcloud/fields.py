"""What a DGX Cloud profile may say, and the target a plan gets from it. Pure: run:ai is not asked for anything.

The arguments of NeMo-Run's `DGXCloudExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import raise_problems
from nemo_runspec.backends.cloud.fields import (
    NEMO_RUN_ALONE,
    CloudTarget,
    argument,
    cloud_keys,
    cloud_problems,
    cloud_values,
    plain,
    plain_secrets,
    text,
)
from nemo_runspec.backends.dgxcloud.spec import OWN_VARIABLES, VARIABLES, base_spec, merge, mounts_of
from nemo_runspec.errors import Unfilled, UserError
from nemo_runspec.field import SAME_NAME, Field
from nemo_runspec.paths import below
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.storage import READ_ONLY, Storage
from nemo_runspec.profiles.common import adopt
from nemo_runspec.redact import HIDDEN, is_secret_variable
from nemo_runspec.s3_names import lacking
from nemo_runspec.toml import as_toml
from nemo_runspec.transport.loopback import require_tls

_ADDRESSES = ("base_url", "kube_apiserver_url")

_ODD: Mapping[str, str] = {
    "schedulerName": "run:ai's API (2.24) has no such key and may refuse the workload",
    "minReplicas": "it makes the workload elastic, whose pods are not told who they are",
    "maxReplicas": "it makes the workload elastic, whose pods are not told who they are",
}
"""Keys of custom_spec that are worth a word."""

_SHORTEST_ARGS = 4000
"""Characters of the first program of a pod, at most (`cloud.pod.program.boot_program`)."""

_CLAIM = '{ claimName = "my-pvc", path = "/pvc", readOnly = false }'


@dataclass(frozen=True, slots=True, kw_only=True)
class DgxCloudTarget(CloudTarget):
    """A run:ai workload beyond what every plan says. Required keys a profile lacks are empty. Holds no secret.

    Args:
        pvcs: as written, each with `path` and a name of the claim.
        secret_vars: variable → `credential/key`.
        max_args_chars: characters of a command, or of a variable's value.
    """

    base_url: str = text("run:ai API, such as https://example.com/api/v1.", required=True, nemo_run=SAME_NAME)
    kube_apiserver_url: str = text(
        "Kubernetes API server of the cluster; with it, logs are read from the pods while they are there.",
        nemo_run=SAME_NAME,
        never_sent="the job's log is read there",
    )
    client_id: str = text(
        "Client id of the API.",
        required=True,
        aliases=("app_id",),
        nemo_run=SAME_NAME,
        never_sent="nemotron logs in with it",
    )
    client_secret: ClassVar[Field] = Field(
        "client_secret",
        "str",
        'Client secret of the API; best "${oc.env:NAME}".',
        required=True,
        aliases=("app_secret",),
        nemo_run="client_secret",
        secret=True,
    )
    project_name: str = text("run:ai project.", required=True, nemo_run=SAME_NAME)
    pvc_nemo_run_dir: str = text(
        "Directory for jobs, outputs and caches, on one of pvcs that may be written.",
        required=True,
        nemo_run=SAME_NAME,
    )
    pvcs: tuple[dict[str, Any], ...] = argument(
        "list[table]",
        'Volumes of the workload: { claimName, path, readOnly }, or the names of the run:ai API ("name").',
        default=[],
    )
    distributed_framework: str = argument("str", "Framework of workloads with several nodes.", default="PyTorch")
    custom_spec: dict[str, Any] = argument(  # noqa: RUF009 (a field)
        "table",
        "Further keys of the workload's spec; they win over all others, and a warning names what they replace.",
    )
    launched_from_cluster: bool = argument(
        "bool",
        "nemotron itself runs in the cluster and sees the volume at pvc_nemo_run_dir.",
        default=False,
        never_sent=NEMO_RUN_ALONE,
    )
    pre_launch_commands: tuple[str, ...] = plain(
        "list[str]", "Shell commands that every pod runs before the job; one that fails ends it.", default=[]
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
    retries: int = argument(
        "count", "How often a job that was evicted, or whose node was at fault, is submitted again.", default=0
    )
    secret_vars: dict[str, str] = plain(  # noqa: RUF009 (a field)
        "table[str]", "Variable of the job = credential and key that run:ai keeps, such as my-credential/TOKEN."
    )

    def storage(self, job_dir: str) -> Storage:
        """As `Target.storage`: the storage of the workload's spec, that of `custom_spec` among it."""
        spec = base_spec(image="", nodes=1, gpus=0, pvcs=self.pvcs, framework="", variables=[])
        return Storage(
            mounts_of(merge(spec, self.custom_spec).spec),
            key="pvcs",
            example='{ claimName = "my-pvc", path = "{path}", readOnly = false }',
            uploaded=self.outputs,
            fetched=tuple(self.inputs),
        )


FIELDS: tuple[Field, ...] = cloud_keys(DgxCloudTarget)


def make_target(request: TargetRequest) -> DgxCloudTarget:
    """The DGX Cloud part of a plan.

    Raises:
        UserError: values run:ai or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    problems = [*_volume_problems(env), *cloud_problems(DgxCloudTarget, env)]
    problems += [*_references(env), *_argument_problems(env)]
    problems += plain_secrets(env.get("custom_spec") or {}, VARIABLES, "my-credential/{name}")
    raise_problems("dgxcloud", problems)
    target = DgxCloudTarget(**{**cloud_values(DgxCloudTarget, env), "run_dir_here": _run_dir_here(env)})
    astray = _astray(target)
    return replace(target, shared=not astray, unfilled=_unfilled(env, astray), warnings=_warnings(env, target))


def claim_name(claim: Mapping[str, Any]) -> str:
    """The name of a claim's volume, whichever spelling the profile has."""
    return str(claim.get("claimName") or claim.get("name") or "")


def claim_of(pvcs: Any, folder: str) -> Mapping[str, Any] | None:
    """The claim a directory of the job lies on: the innermost one, None where it lies on none."""
    path = posixpath.normpath(folder)
    found = [claim for claim in pvcs or () if below(path, posixpath.normpath(str(claim["path"])))]
    return max(found, key=lambda claim: len(posixpath.normpath(str(claim["path"]))), default=None)


def _run_dir_here(env: Mapping[str, Any]) -> str:
    """In the cluster the claim is seen at the path that pods see."""
    inside = env.get("pvc_nemo_run_dir") if env.get("launched_from_cluster") else ""
    return str(env.get("run_dir_here") or inside or "")


def _volume_problems(env: Mapping[str, Any]) -> list[UserError]:
    problems = []
    for number, claim in enumerate(env.get("pvcs") or ()):
        if not str(claim.get("path") or "").startswith("/") or not claim_name(claim):
            problems.append(
                UserError(
                    f"pvcs[{number}] needs claimName and an absolute path: {as_toml(claim)}",
                    remedy=f"such as {_CLAIM}",
                    key="pvcs",
                )
            )
    return problems


def _argument_problems(env: Mapping[str, Any]) -> list[UserError]:
    length = env.get("max_args_chars") or 0
    if not 0 < length < _SHORTEST_ARGS:
        return []
    what = f"max_args_chars: {length} characters do not hold what a pod begins with"
    return [UserError(what, remedy=f"{_SHORTEST_ARGS} or more, as far as run:ai takes them", key="max_args_chars")]


def _references(env: Mapping[str, Any]) -> list[UserError]:
    """run:ai keeps credentials of several keys: a variable needs both names."""
    return [
        UserError(
            f"secret_vars: {name} = {str(reference)!r} does not say which key of which credential is meant",
            remedy=f'such as {{ {name} = "my-credential/{name}" }}',
            key="secret_vars",
        )
        for name, reference in (env.get("secret_vars") or {}).items()
        if str(reference).count("/") != 1 or not all(str(reference).split("/"))
    ]


def _warnings(env: Mapping[str, Any], target: DgxCloudTarget) -> tuple[str, ...]:
    found = ["mounts are not used: DGX Cloud mounts volume claims only, see pvcs"] if env.get("mounts") else []
    found += [f"custom_spec.{key} takes the place of what nemotron sets" for key in _replaced(env, target)]
    found += [f"custom_spec.{key}: {why}" for key, why in _ODD.items() if key in target.custom_spec]
    return tuple(found)


def _replaced(env: Mapping[str, Any], target: DgxCloudTarget) -> tuple[str, ...]:
    spec = base_spec(
        image=target.container_image,
        nodes=env.get("nodes") or 1,
        gpus=env.get("gpus_per_node") or 0,
        pvcs=target.pvcs,
        framework=target.distributed_framework,
        variables=[{"name": name} for name in (*OWN_VARIABLES, *target.secret_vars)],
    )
    return merge(spec, target.custom_spec).replaced


def _unfilled(env: Mapping[str, Any], astray: str) -> tuple[Unfilled, ...]:
    lines = [Unfilled(astray, key="pvc_nemo_run_dir")] if astray and env.get("pvc_nemo_run_dir") else []
    lines += [Unfilled(line, key=key) for key in _ADDRESSES if (line := _no_address(key, str(env.get(key) or "")))]
    return (*lines, *(Unfilled(_not_kept(name)) for name in _without_reference(env)))


def _no_address(key: str, url: str) -> str:
    """Why nothing would be sent to an address, as one line; '' for a good one, or one that is still to be filled in."""
    if not url[:1].islower() and not url[:1].isdecimal():  # such as YOUR-URL or <url>, which is said as what it is
        return ""
    try:
        require_encryption(key, url)
    except UserError as error:
        return f"{error.what}; fix: {error.remedy}"
    return ""


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
    """What must be mended before a plan can be submitted: a secret among the arguments has no way to run:ai."""
    from nemo_runspec.backends.cloud.code import transports

    astray = "a secret among the arguments after -- cannot travel to run:ai, which would show it: keep it there as a "
    mend = "credential, name it in secret_vars, and let the script read the variable instead"
    return [*transports.lacking(plan), *([astray + mend] if plan.launch.secret_args else [])]


def _not_kept(name: str) -> str:
    return (
        f"secret {name} cannot travel to run:ai, which would show it: make a credential there (Credentials, generic "
        f'secret) with the key {name}, and set secret_vars = {{ {name} = "my-credential/{name}" }}'
    )


def _astray(target: DgxCloudTarget) -> str:
    """Why the directory for jobs does not outlive a job's pods, '' where it does."""
    folder = posixpath.normpath(target.pvc_nemo_run_dir or "/")
    storage = replace(target, outputs=()).storage("")
    why, mount = storage.why_lost(folder), storage.mount_of(folder)
    if not why:
        return ""
    if mount is None:
        roots = ", ".join(posixpath.normpath(each.target) for each in storage.mounts)
        return f"pvc_nemo_run_dir {folder!r} {why} ({roots or 'there are none'}): add {_CLAIM}"
    claim = claim_of(target.pvcs, folder)
    if mount.lost == READ_ONLY and claim is not None:
        return f"pvc_nemo_run_dir {folder!r} is on claim {claim_name(claim)}, which is readOnly: use one to be written"
    return f"pvc_nemo_run_dir {folder!r} {why}: use a claim to be written"
