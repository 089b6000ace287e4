"""What a DGX Cloud profile may say, and the target a plan gets from it. Pure: run:ai is not asked for anything.

The arguments of NeMo-Run's `DGXCloudExecutor` named here are those of 0.11.1.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.backends.base import TargetRequest
from nemo_runspec.backends.checks import below, control_characters, flags, raise_problems, tables, texts
from nemo_runspec.errors import UserError
from nemo_runspec.field import Field
from nemo_runspec.profiles.common import adopt

FIELDS: tuple[Field, ...] = (
    Field("base_url", "str", "run:ai API, such as https://example.com/api/v1.", required=True, nemo_run="base_url"),
    Field(
        "kube_apiserver_url",
        "str",
        "Kubernetes API server of the cluster. NeMo-Run 0.11.1 asks for it and does not use it.",
        required=True,
        nemo_run="kube_apiserver_url",
    ),
    Field("client_id", "str", "Client id of the API.", required=True, aliases=("app_id",), nemo_run="client_id"),
    Field(
        "client_secret",
        "str",
        'Client secret of the API; best "${oc.env:NAME}".',
        required=True,
        aliases=("app_secret",),
        nemo_run="client_secret",
        secret=True,
    ),
    Field("project_name", "str", "run:ai project.", required=True, nemo_run="project_name"),
    adopt("container_image", required=True, nemo_run="container_image"),
    Field(
        "pvc_nemo_run_dir",
        "str",
        "Directory for jobs, outputs and caches, on one of pvcs.",
        required=True,
        nemo_run="pvc_nemo_run_dir",
    ),
    Field(
        "pvcs",
        "list[table]",
        'Volumes of the workload: { claimName, path, readOnly }, or the names of the run:ai API ("name").',
        default=[],
        nemo_run="pvcs",
    ),
    adopt("nodes", nemo_run="nodes"),
    adopt("gpus_per_node", nemo_run="gpus_per_node"),
    adopt("nproc_per_node", nemo_run="nprocs_per_node"),
    Field(
        "distributed_framework",
        "str",
        "Framework of workloads with several nodes.",
        default="PyTorch",
        nemo_run="distributed_framework",
    ),
    Field(
        "custom_spec", "table", "Further keys of the workload's spec; they win over all others.", nemo_run="custom_spec"
    ),
    Field(
        "launched_from_cluster",
        "bool",
        "nemotron itself runs in the cluster and sees the volume at pvc_nemo_run_dir.",
        default=False,
        nemo_run="launched_from_cluster",
    ),
    Field(
        "retries",
        "count",
        "TORCHX_MAX_RETRIES in the job; run:ai itself retries nothing for it.",
        default=0,
        nemo_run="retries",
    ),
    Field(
        "max_args_chars",
        "positive",
        "Longest command run:ai takes, in characters; longer ones travel in pieces.",
        default=9500,
        aliases=("dgxcloud_max_args_chars",),
        nemo_run="MAX_ARGS_CHARS",
    ),
    adopt("packager", nemo_run="packager"),
)

EXCLUDED: Mapping[str, str] = {
    "env_vars": "the job script exports them: NeMo-Run writes all names in capitals and quotes no value",
    "launcher": "the job script holds the launcher's command line",
    "experiment_id": "NeMo-Run's experiments set it",
    "job_dir": "NeMo-Run's experiments set it",
}
"""Arguments of NeMo-Run's executor that no profile key fills, and why."""

_TEXTS = ("base_url", "kube_apiserver_url", "client_id", "project_name", "container_image", "pvc_nemo_run_dir")


_CLAIM = '{ claimName = "my-pvc", path = "/pvc", readOnly = false }'


@dataclass(frozen=True, slots=True)
class DgxCloudTarget:
    """A run:ai workload beyond what every plan says. Required keys a profile lacks are empty. Holds no secret.

    Args:
        pvcs: as written, each with `path` and a name of the claim.
        max_args_chars: characters of a command.
        unfilled: what must be mended before a submission.
    """

    base_url: str
    kube_apiserver_url: str
    client_id: str
    project_name: str
    container_image: str
    pvc_nemo_run_dir: str
    pvcs: tuple[dict[str, Any], ...] = ()
    distributed_framework: str = "PyTorch"
    custom_spec: dict[str, Any] = field(default_factory=dict)
    launched_from_cluster: bool = False
    retries: int = 0
    max_args_chars: int = 9500
    warnings: tuple[str, ...] = ()
    unfilled: tuple[str, ...] = ()


def make_target(request: TargetRequest) -> DgxCloudTarget:
    """The DGX Cloud part of a plan.

    Raises:
        UserError: values run:ai or NeMo-Run would misread, all of them at once.
    """
    env = request.env
    problems = [*control_characters(env, _TEXTS), *_volume_problems(env)]
    raise_problems("dgxcloud", problems)
    return DgxCloudTarget(
        pvcs=tuple(dict(claim) for claim in env.get("pvcs") or ()),
        distributed_framework=env.get("distributed_framework") or "PyTorch",
        **tables(env, "custom_spec"),
        **flags(env, "launched_from_cluster"),
        retries=env.get("retries") or 0,
        max_args_chars=env.get("max_args_chars") or 9500,
        warnings=_warnings(env),
        unfilled=_unfilled(env),
        **texts(env, *_TEXTS, unset=""),
    )


def _volume_problems(env: Mapping[str, Any]) -> list[UserError]:
    problems = []
    claims = list(env.get("pvcs") or ())
    for number, claim in enumerate(claims):
        if not str(claim.get("path") or "").startswith("/") or not (claim.get("claimName") or claim.get("name")):
            problems.append(
                UserError(f"pvcs[{number}] needs claimName and an absolute path: {claim!r}", remedy=f"such as {_CLAIM}")
            )
    return problems


def _warnings(env: Mapping[str, Any]) -> tuple[str, ...]:
    return ("mounts are not used: DGX Cloud mounts volume claims only, see pvcs",) if env.get("mounts") else ()


def _unfilled(env: Mapping[str, Any]) -> tuple[str, ...]:
    """The directory for jobs must lie on a claim: NeMo-Run 0.11.1 asserts it, and anything else would be lost."""
    if not env.get("pvc_nemo_run_dir"):
        return ()
    folder = posixpath.normpath(env["pvc_nemo_run_dir"])
    roots = [posixpath.normpath(str(claim["path"])) for claim in env.get("pvcs") or ()]
    if any(below(folder, root) for root in roots):
        return ()
    return (f"pvc_nemo_run_dir {folder!r} is on none of pvcs ({', '.join(roots) or 'there are none'}): add {_CLAIM}",)
