"""Facts of a job's artifacts that its plan knows: `artifacts.json` in the job's directory, for who registers them."""

from __future__ import annotations

import json
import os
import posixpath
from typing import TYPE_CHECKING, Any

from nemo_runspec.artifacts.store import BUCKETS, LATEST, newest_inputs, versions_of
from nemo_runspec.artifacts.wandb import is_asked_by, project_of, registers

if TYPE_CHECKING:
    from nemo_runspec.plans.model import Plan

PATIENCE = "NEMOTRON_REGISTER_SECONDS"
"""Seconds that a job spends on trying to register what it has made, where the store does not take it."""

_PLACE = {"endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "region": ("AWS_REGION",)}
"""Where a bucket is, and the variables of this machine that say so: the job need not have them."""


def about_text(plan: Plan) -> str:
    """The file; '' for a job that makes no version of anything, and reads none from a bucket."""
    versions, bucket = versions_of(plan), _bucket(plan)
    if not versions and not (bucket and bucket["inputs"]):
        return ""
    made = {a.artifact: {"type": a.type, "output": a.name} for a in plan.produces if a.path in versions}
    known: dict[str, Any] = {"producer": producer_of(plan), "artifacts": made, "inputs": _inputs(plan)}
    if bucket:
        known["store"] = bucket
    if registers(plan):
        known["wandb"] = {"versions": list(versions)}
    patience = next((variable.value for variable in plan.env if variable.name == PATIENCE), "")
    if patience.isdigit():
        known["patience"] = int(patience)
    return json.dumps(known, indent=1) + "\n"


def _bucket(plan: Plan) -> dict[str, Any] | None:
    """The bucket that its artifacts are in, and what of it the job reads; None where they are in a folder."""
    section = plan.run.get("artifacts") or {}
    url = str(section.get("root") or "")
    if not url.startswith(BUCKETS):
        return None
    inputs = [
        {"input": a.name, "artifact": a.artifact, "version": a.version or LATEST, "folder": posixpath.dirname(a.path)}
        for a in plan.consumes
        if a.path and a.artifact and a.name in newest_inputs(plan)
    ]
    told = {key: [section.get(key), *(os.environ.get(name) for name in names)] for key, names in _PLACE.items()}
    words = {key: next(filter(None, values), "") for key, values in told.items()}
    return {"url": url, **{key: word for key, word in words.items() if word}, "inputs": inputs}


def producer_of(plan: Plan) -> dict[str, Any]:
    """The job that makes it, with what its code is."""
    code = {"bundle": plan.bundle.digest, "package": plan.package.digest, "commit": plan.package.commit}
    changed = bool(plan.package.included or plan.package.bundled)
    known = {
        "job": plan.name,
        "recipe": plan.recipe.path,
        "config": plan.config_name,
        "profile": plan.profile,
        "executor": plan.executor,
        "overrides": list(plan.overrides),
        "code": {key: value for key, value in code.items() if value} | ({"changed": True} if changed else {}),
    }
    return {key: value for key, value in known.items() if value}


def _inputs(plan: Plan) -> list[dict[str, str]]:
    """Each input by its name in the recipe; a path that leads to a version is followed where the job runs."""
    project = project_of(plan.run["wandb"]) if is_asked_by(plan) else ""
    return [
        {"input": a.name, "type": a.type, "path": a.path}
        | ({"wandb": f"{project}/{a.artifact}:{a.version}"} if project and a.artifact and a.version else {})
        for a in plan.consumes
        if a.path
    ]
