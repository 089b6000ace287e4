"""A DGX Cloud profile: run:ai is asked for projects and volumes, where the client secret is in the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from nemo_runspec.backends.cloud.preflight.checks import PATIENCE
from nemo_runspec.backends.dgxcloud.api import RunaiApi, connect
from nemo_runspec.backends.dgxcloud.credentials import VARIABLE
from nemo_runspec.backends.dgxcloud.fields import FIELDS
from nemo_runspec.backends.setup import (
    IMAGE,
    Interview,
    Setup,
    SetupChoice,
    SetupQuestion,
    ask_image,
    best,
    helps_of,
    set_values,
)
from nemo_runspec.errors import UserError
from nemo_runspec.transport.reading import table, text


def _ask(interview: Interview) -> Mapping[str, Any]:
    url = interview.ask(SetupQuestion("base_url", "Address of the run:ai API, such as https://HOST/api/v1"))
    kube = interview.ask(
        SetupQuestion("kube_apiserver_url", "Kubernetes API server, for logs (empty: none)", needed=False)
    )
    client = interview.ask(SetupQuestion("client_id", "Client id of an application of yours"))
    variable = interview.ask(SetupQuestion("client_secret_variable", "Variable that holds its client secret", VARIABLE))
    api = _reached(interview, url, client, os.environ.get(variable, ""), variable)
    projects = tuple(SetupChoice(text(row.get("name"))) for row in _listed(interview, api.projects if api else None))
    project = interview.ask(SetupQuestion("project_name", "Project", best(projects), projects, closed=bool(projects)))
    return {
        **set_values(
            {
                "base_url": url,
                "kube_apiserver_url": kube,
                "client_id": client,
                "client_secret": f"${{oc.env:{variable},''}}" if variable else "",
                "project_name": project,
            }
        ),
        **_ask_place(interview, api, project),
        **ask_image(interview),
    }


def _reached(interview: Interview, url: str, client: str, secret: str, variable: str) -> RunaiApi | None:
    if not (url and client and secret):
        interview.say(f"run:ai was not asked: {variable} is not set" if url and client else "run:ai was not asked")
        return None
    try:
        return connect({"base_url": url, "client_id": client}, {"client_secret": secret}, patience=PATIENCE)
    except UserError as error:
        interview.say(f"run:ai was not asked: {error.what}")
        return None


def _listed(interview: Interview, ask: Any) -> Sequence[Mapping[str, Any]]:
    try:
        return list(ask()) if ask else ()
    except UserError as error:
        interview.say(f"run:ai did not say: {error.what}")
        return ()


def _ask_place(interview: Interview, api: RunaiApi | None, project: str) -> dict[str, Any]:
    """A volume claim, where it is mounted, and the directory for jobs on it."""
    rows = _listed(interview, (lambda: api.claims(text(api.project(project).get("id")))) if api and project else None)
    paths = {_claim(row): text(table(row.get("spec")).get("path")) for row in rows if not _is_read_only(row)}
    choices = tuple(SetupChoice(claim) for claim in paths if claim)
    claim = interview.ask(SetupQuestion("pvc", "Volume claim for jobs and outputs", best(choices), choices))
    place = paths.get(claim) or "/pvc"
    folder = interview.ask(
        SetupQuestion("pvc_nemo_run_dir", "Directory for jobs and outputs on it, as jobs see it", f"{place}/nemotron")
    )
    if not claim or not folder:
        return {}
    at = place if folder.startswith(f"{place}/") else "/".join(folder.split("/")[:2])
    return {"pvcs": [{"claimName": claim, "path": at}], "pvc_nemo_run_dir": folder}


def _claim(row: Mapping[str, Any]) -> str:
    return text(table(row.get("spec")).get("claimName")) or text(table(row.get("meta")).get("name"))


def _is_read_only(row: Mapping[str, Any]) -> bool:
    return bool(table(row.get("spec")).get("readOnly"))


SETUP = Setup(
    _ask,
    "DGX Cloud",
    {
        **helps_of(FIELDS, "base_url", "kube_apiserver_url", "client_id", "project_name", IMAGE),
        "client_secret_variable": f"The variable that holds its secret; by default {VARIABLE}.",
        "pvc": "Volume claim for jobs and outputs.",
        "pvc_nemo_run_dir": "Directory for jobs and outputs on it, as jobs see it.",
    },
    found=lambda: f"{VARIABLE} is set" if os.environ.get(VARIABLE) else "",
    image=True,
)
