"""Checks a DGX Cloud profile, or a job, before it runs: run:ai is asked; nothing is made there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from nemo_runspec.backends.cloud.api import JsonTable
from nemo_runspec.backends.cloud.preflight import checks as cloud
from nemo_runspec.backends.dgxcloud.api import RunaiApi
from nemo_runspec.backends.dgxcloud.credentials import KEY, VARIABLE, in_environment
from nemo_runspec.backends.dgxcloud.fields import DgxCloudTarget, claim_name
from nemo_runspec.backends.dgxcloud.payload import credential_of
from nemo_runspec.backends.dgxcloud.token import Token, fetch_token
from nemo_runspec.check import Check, CheckRequest, failed, ok, skipped, warning
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import Plan
from nemo_runspec.plans.target import target_of
from nemo_runspec.transport.reading import number, table, tables, text
from nemo_runspec.transport.web import Refused, Web

_KEPT = "run:ai (Credentials, Docker registry)"


def checks(question: CheckRequest) -> Iterator[Check]:
    """As `profile_checks`. About six requests."""
    own = str(question.env.get(KEY) or "")
    source, secret = ("the profile", own) if own else in_environment()
    reached, checks = partial(_reached, source=source), partial(cloud.run_checks, _CHECKS)
    connected = partial(_connected, secret=secret)
    platform = cloud.PlatformPreflight("run:ai", _KEPT, DgxCloudTarget, DgxCloudRequest, connected, reached, checks)
    yield from cloud.profile_checks(platform, "dgxcloud", question.env)


def fast_checks(api: RunaiApi, plan: Plan, project: Mapping[str, Any] | None = None) -> list[Check]:
    """What is wrong with a submission, as `submission_checks`. Two requests, and one for each address on S3.

    Args:
        project: the plan's, where it was asked for already.
    """
    need = plan.resources
    request = DgxCloudRequest(api, target_of(plan, DgxCloudTarget), need.nodes, need.gpus_per_node, project)
    checks = {name: _CHECKS[name] for name in ("room", "pvcs")}  # nobody else looks at these before a submission
    return cloud.submission_checks(plan, cloud.run_checks(checks, request, patient=True))


@dataclass(frozen=True)
class DgxCloudRequest(cloud.JobRequest[RunaiApi, DgxCloudTarget]):
    """What a job asks of run:ai. `given`: its project."""

    @cached_property
    def project(self) -> Mapping[str, Any]:
        """The project it names. Raises `UserError` where there is no such project."""
        return self.given if self.given is not None else self.api.project(self.target.project_name)

    @property
    def project_id(self) -> str:
        """Its id."""
        return text(self.project.get("id"))


def _connected(target: DgxCloudTarget, secret: str) -> RunaiApi:
    """With a new token: one that this process has may be good where the secret is not."""
    if not secret:
        raise UserError("no client secret is found here", remedy=f"set {KEY} in the profile, or export {VARIABLE}=…")
    web = Web(target.base_url, "run:ai", headers=dict, patience=cloud.PATIENCE)
    token = Token(partial(fetch_token, web, target.client_id, secret))
    return RunaiApi(target.base_url, token, target.kube_apiserver_url, patience=cloud.PATIENCE)


def _reached(request: DgxCloudRequest, source: str) -> Iterator[Check]:
    """Checks whether the API answers, the application is accepted, and sees the project."""
    target = request.target
    credentials = f"client_id {target.client_id}, client_secret of {source}"

    def refused(error: Refused) -> Check:
        if error.status not in (401, 403):
            return failed("run:ai", error.what, error.remedy or "")
        why = "is not accepted" if error.status == 401 else "may not see projects"
        return failed("credentials", f"{credentials}: {why} (HTTP {error.status}): {error.what}", error.remedy or "")

    def answered(_: object) -> Iterator[Check]:
        yield ok("run:ai", f"{target.base_url} answers")
        yield from cloud.run_check("project", _project, request)

    yield from cloud.reached("run:ai", credentials, request.api.projects, answered, refused)


def _project(request: DgxCloudRequest) -> Iterator[Check]:
    status = table(request.project.get("status"))
    phase, message = text(status.get("phase")), text(status.get("phaseMessage"))
    seen = f"{request.target.project_name} (id {request.project.get('id')})"
    if phase.lower() in ("", "ready"):
        yield ok("project", seen)
    else:
        yield warning("project", f"{seen} is {phase}{f': {message}' if message else ''}", "wait, or ask its admin")


def _room(request: DgxCloudRequest) -> Iterator[Check]:
    """What the project may use, as run:ai counts it: beyond its quota a workload waits for what others leave."""
    if request.gpus is None:
        yield skipped("room", "not known: gpus_per_node is the recipe's")
        return
    asked = request.nodes * request.gpus
    quota, limit, used = quota_of(request.project)
    if quota is None or asked == 0:
        yield skipped("room", "run:ai does not say the project's quota") if asked else ok("room", "no GPU is asked for")
        return
    seen = f"{asked} GPUs wanted; the project has {quota:g}, of which {used:g} are in use"
    if limit is not None and asked > limit:
        yield failed("room", f"{seen}, and may never have more than {limit:g}", "ask for less, or for another project")
    elif used + asked > quota:
        mend = "wait, or ask for less; retries in the profile submits a job again whose nodes were taken"
        yield warning("room", f"{seen}: the job may wait, and may lose its nodes to others", mend)
    else:
        yield ok("room", seen)


def quota_of(project: Mapping[str, Any]) -> tuple[float | None, float | None, float]:
    """GPUs, over all node pools: the project's quota, its limit (None: none), and what it uses now.

    `resources[].gpu.{deserved,limit}` (-1: none) and `status.quotaStatus.allocated.gpu` of run:ai's API, 2.24.
    """
    pools = [table(pool.get("gpu")) for pool in tables(project.get("resources"))]
    deserved = [each for pool in pools if (each := number(pool.get("deserved"))) is not None]
    limits = [number(pool.get("limit")) for pool in pools]
    bounded = [limit for limit in limits if limit is not None and limit >= 0]
    allocated = table(table(table(project.get("status")).get("quotaStatus")).get("allocated"))
    quota = sum(deserved) if deserved else None
    return quota, sum(bounded) if bounded and len(bounded) == len(limits) else None, number(allocated.get("gpu")) or 0


def _claims(request: DgxCloudRequest) -> Iterator[Check]:
    """A claim that run:ai does not know would be made anew, and empty, or keep the pods from starting."""
    named = [claim_name(claim) for claim in request.target.pvcs if not claim.get("claimInfo")]
    if not named:
        return
    there = {name for row in request.api.claims(request.project_id) for name in _names_of(row)}
    missing = [name for name in named if name not in there]
    if missing and there:
        mend = "correct pvcs; a claim that was made by hand in the cluster must be made known to run:ai (Data sources)"
        yield failed("pvcs", f"run:ai has no claim {', '.join(missing)}; it has: {', '.join(sorted(there))}", mend)
    elif missing:
        mend = "see that pvcs are right; a claim that was made by hand in the cluster is not listed"
        yield warning("pvcs", f"run:ai lists no claim {', '.join(missing)}, nor any other", mend)
    else:
        yield ok("pvcs", f"{', '.join(named)}: listed")


def _run_dir(request: DgxCloudRequest) -> Iterator[Check]:
    yield cloud.run_dir_check(request.target, "pvc_nemo_run_dir", "a claim that may be written", _on_no_claim)


def _on_no_claim(key: str, folder: str) -> Check:
    return failed(key, f"{folder} is on no claim that may be written", "put it on one of pvcs")


def _secrets(request: DgxCloudRequest) -> Iterator[Check]:
    references = request.target.secret_vars.values()
    if not references:
        return
    there = {name for row in request.api.credentials(request.project_id) for name in _names_of(row)}
    mend = "make it in run:ai (Credentials, generic secret) for the project, or correct secret_vars"
    yield cloud.names_check("secret_vars", map(credential_of, references), there, "credential of run:ai", mend)


def _cluster(request: DgxCloudRequest) -> Iterator[Check]:
    """The cluster's own API: the only way to logs of pods from outside."""
    if request.api.kube is None:
        yield skipped("cluster", "no kube_apiserver_url is set: logs come from the volume, through a helper workload")
        return
    status = table(request.project.get("status"))
    namespace = text(status.get("namespace")) or f"runai-{request.target.project_name}"
    try:
        request.api.kube_pods(namespace)
    except UserError as error:
        mend = "see kube_apiserver_url; without it logs come from the volume"
        yield warning("cluster", f"its API does not answer as it should: {error.what}", mend)
    else:
        yield ok("cluster", f"{request.target.kube_apiserver_url} shows the pods of {namespace}")


def _names_of(row: JsonTable) -> Iterator[str]:
    """The names by which an asset may be meant: its own, and its claim's."""
    for part, key in (("meta", "name"), ("spec", "claimName"), ("spec", "existingPvcName")):
        if found := text(table(row.get(part)).get(key)):
            yield found
    yield from filter(None, (text(row.get(key)) for key in ("name", "claimName")))


_CHECKS: Mapping[str, Callable[[DgxCloudRequest], Iterable[Check]]] = {
    "room": _room, "pvcs": _claims, "pvc_nemo_run_dir": _run_dir, "secret_vars": _secrets, "cluster": _cluster,
}  # fmt: skip
"""What is looked at, in the order in which it is shown."""
