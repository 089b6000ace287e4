"""Who we are to Lepton: variables of the environment, else the login file of Lepton's own client."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from nemo_runspec.errors import UserError
from nemo_runspec.paths import user_home
from nemo_runspec.regular import read_regular
from nemo_runspec.transport.loopback import require_tls
from nemo_runspec.transport.reading import table

GATEWAY = "https://gateway.dgxc-lepton.nvidia.com/api/v2/workspaces"
TOKENS = ("LEPTON_WORKSPACE_TOKEN", "LEPTON_AUTH_TOKEN")
_SET = "export LEPTON_WORKSPACE_ID=… and LEPTON_WORKSPACE_TOKEN=…, or log in with: lep workspace login"


@dataclass(frozen=True, slots=True)
class LeptonLogin:
    """A workspace and its token. `source`: where the token was found, for a person. `origin`: a header, '' for none."""

    workspace: str
    url: str
    token: str = field(repr=False)
    origin: str = ""
    source: str = ""


def find_login(handle: Mapping[str, Any] | None = None) -> LeptonLogin:
    """The login for a job's workspace, or for the one that is current.

    The order is that of Lepton's own client: `LEPTON_WORKSPACE_ID` (`id` or `id:token`), `LEPTON_WORKSPACE_TOKEN` or
    `LEPTON_AUTH_TOKEN`, `LEPTON_WORKSPACE_URL`, each before what `workspace_info.yaml` says.

    Raises:
        UserError: there is none, or not for the workspace of the job; or it would travel in clear.
    """
    named, _, inline = os.environ.get("LEPTON_WORKSPACE_ID", "").strip().partition(":")
    record = _record()
    wanted = str((handle or {}).get("workspace") or "")
    workspace = wanted or named or str(record.get("current_workspace") or "")
    if not workspace:
        raise UserError("no Lepton workspace is named", remedy=_SET)
    stored = table(table(record.get("workspaces")).get(workspace))
    ours = workspace == named or not named
    token, source = _token(workspace, inline if workspace == named else "", stored, ours=ours)
    if not token:
        raise UserError(f"no token for the Lepton workspace '{workspace}'", where=str(record_file()), remedy=_SET)
    url = str((handle or {}).get("url") or "") or (os.environ.get("LEPTON_WORKSPACE_URL", "").strip() if ours else "")
    url = (url or str(stored.get("url") or "") or f"{GATEWAY}/{workspace}").rstrip("/")
    require_tls("LEPTON_WORKSPACE_URL", url, "the workspace's token", example=f"{GATEWAY}/{workspace}")
    return LeptonLogin(workspace, url, token, _origin(url, stored), source)


def record_file() -> Path:
    """The login file of Lepton's own client."""
    folder = os.environ.get("LEPTON_CACHE_DIR")
    return (Path(folder) if folder else user_home() / ".cache" / "lepton") / "workspace_info.yaml"


def _token(workspace: str, inline: str, stored: Mapping[str, Any], *, ours: bool) -> tuple[str, str]:
    """The token, and where it was found. `ours`: the variables of the environment are of this workspace."""
    variables = {"LEPTON_WORKSPACE_ID": inline, **{name: os.environ.get(name, "").strip() for name in TOKENS if ours}}
    for source, token in variables.items():
        if token:
            return token, source
    return str(stored.get("auth_token") or ""), f"{record_file()} ({workspace})"


def _origin(url: str, stored: Mapping[str, Any]) -> str:
    named = os.environ.get("LEPTON_WORKSPACE_ORIGIN_URL") or stored.get("workspace_origin_url")
    host = urlsplit(url).netloc
    return str(named or (f"{urlsplit(url).scheme}://{host}" if "dgxc" in host else ""))


def _record() -> Mapping[str, Any]:
    """The login file's content; empty where there is none. Raises `UserError` where it cannot be read."""
    file = record_file()
    try:
        return table(_parsed(read_regular(file, follow=True).decode("utf-8")))
    except FileNotFoundError:
        return {}
    except OSError as error:
        why = error.strerror
    except ValueError as error:
        why = str(error)
    raise UserError(f"Lepton's login file cannot be read: {why}", where=str(file), remedy=_SET)


def _parsed(text: str) -> Any:
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        raise ValueError("it is no YAML") from None
