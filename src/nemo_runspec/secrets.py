"""Finds secrets: in the environment, and in the files that `wandb login` and `hf auth login` leave. No network.

Where W&B keeps its key: `wandb/sdk/lib/wbauth/wbnetrc.py`. Where Hugging Face does: the environment variables
`HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, `HF_TOKEN_PATH`, `HF_HOME` of `huggingface_hub`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, user_home
from nemo_runspec.plans.model import SecretRef
from nemo_runspec.redact import is_secret_variable, is_weak
from nemo_runspec.regular import NotRegular, read_regular
from nemo_runspec.s3_names import KEYS, pair_in

SERVERS: Mapping[str, tuple[str, str]] = {
    "WANDB_API_KEY": ("WANDB_BASE_URL", "api.wandb.ai"),
    "HF_TOKEN": ("HF_ENDPOINT", "huggingface.co"),
}
"""Keys that belong to one server: the variable that names it, as the libraries read it, and the usual one."""


def find(name: str, variables: Mapping[str, str] | None = None) -> tuple[SecretRef, str | None]:
    """Where a secret is, and its value; the value is None and the origin `missing` where it is nowhere.

    An environment variable that is set but empty counts as not set. A login file that cannot be read or understood
    counts as absent, and the reference's `detail` says so.

    Args:
        variables: those of the job that gets it. Where one of them names another server than this machine's own
            settings do, the key in the environment is not for that server (`SERVERS`).

    Raises:
        UserError: there is a key, and it belongs to another server than the job's.
    """
    server, home = _server(name, variables or {}), _server(name, os.environ)
    if server != home and name == "WANDB_API_KEY":
        found = _in_netrc(name, server)
        if found[1]:
            return found
    reference, value = _find(name, home)
    if value and server != home:
        raise UserError(
            f"{name} is for {home}, and this job's {SERVERS[name][0]} is {server}: a key goes to its own server alone",
            where=reference.detail,
            remedy=f"if it is the key of {server}: export {SERVERS[name][0]}={(variables or {})[SERVERS[name][0]]}",
        )
    return reference, value


def _find(name: str, server: str) -> tuple[SecretRef, str | None]:
    for variable in (name, *_aliases(name)):
        value = os.environ.get(variable, "").strip()
        if value:
            return SecretRef(name, "environment", variable), value
    if name == "WANDB_API_KEY":
        return _in_netrc(name, server)
    return _in_token_file(name) if name == "HF_TOKEN" else (SecretRef(name, "missing"), None)


def _server(name: str, variables: Mapping[str, str]) -> str:
    """The host that a key is used for, as these variables name it, else this machine's own; '' for any other secret."""
    if name not in SERVERS:
        return ""
    variable, usual = SERVERS[name]
    address = variables.get(variable) or os.environ.get(variable) or ""
    try:
        return urlsplit(address).hostname or usual
    except ValueError:  # such as http://[::1
        return usual if variables is os.environ else address


def of_environment(*, weak: bool = False) -> dict[str, str]:
    """This process's own variables that hold secrets, by name: the weak ones or the others. A path is no secret."""
    found = {name: value for name, value in os.environ.items() if is_secret_variable(name, value)}
    return {name: value for name, value in found.items() if is_weak(value) is weak and not _is_path(value)}


def resolve(ref: SecretRef, known: Mapping[str, str] | None = None, variables: Mapping[str, str] | None = None) -> str:
    """The value of a reference, looked up now.

    Args:
        known: values that stand in a profile or on the command line, by name.
        variables: as in `find`.

    Raises:
        UserError: it is not there any more.
    """
    value = (known or {}).get(ref.name) or find(ref.name, variables)[1]
    if value:
        return value
    if ref.origin in ("profile", "override"):
        where = "the profile" if ref.origin == "profile" else "the command line"
        raise UserError(f"secret {ref.name} stood in {where}, which is not at hand", remedy=f"export {ref.name}=…")
    raise UserError(
        f"secret {ref.name} is no longer where it was found", where=ref.detail or None, remedy=f"export {ref.name}=…"
    )


def _is_path(value: str) -> bool:
    return value.startswith("/") and Path(value).exists()


def _aliases(name: str) -> tuple[str, ...]:
    """Other variables that may hold it. Keys for S3 are taken from one pair: half of another does not fit."""
    if name in KEYS:
        return (KEYS[name],) if KEYS[name] in pair_in(os.environ) else ()
    return _ALIASES.get(name, ())


def _in_netrc(name: str, host: str) -> tuple[SecretRef, str | None]:
    note = ""
    for file in _netrc_files():
        password, problem = _netrc_password(file, host)
        if password:
            return SecretRef(name, "netrc", f"{file} machine {host}"), password
        note = note or problem
    return SecretRef(name, "missing", note), None


def _netrc_files() -> list[Path]:
    named = os.environ.get("NETRC")
    return [expanded(named)] if named else [user_home() / ".netrc", user_home() / "_netrc"]


def _netrc_password(file: Path, host: str) -> tuple[str | None, str]:
    """The password for a host, and why there is none if the file itself is the reason."""
    from netrc import NetrcParseError, netrc

    if not file.is_file():
        return None, ""
    try:
        entry = netrc(str(file)).authenticators(host)
    except NetrcParseError as error:
        return None, f"{file}:{error.lineno or '?'} is not understood"  # its message may hold a password
    except (OSError, UnicodeDecodeError) as error:
        return None, f"{file} cannot be read ({type(error).__name__})"
    if entry and not entry[2]:
        return None, f"{file} has no password for {host}"
    return (entry[2], "") if entry else (None, "")


def _in_token_file(name: str) -> tuple[SecretRef, str | None]:
    note = ""
    for file in _token_files():
        try:
            token = read_regular(file, most=_MOST_TOKEN, follow=True).decode("utf-8").strip()
        except FileNotFoundError:
            continue
        except NotRegular as error:
            note = note or f"{file} cannot be read: {error.strerror}"
            continue
        except (OSError, UnicodeDecodeError) as error:
            note = note or f"{file} cannot be read ({type(error).__name__})"
            continue
        if token:
            return SecretRef(name, "token-file", str(file)), token
    return SecretRef(name, "missing", note), None


def _token_files() -> list[Path]:
    named = [os.environ.get("HF_TOKEN_PATH"), _below(os.environ.get("HF_HOME"), "token")]
    cache = os.environ.get("XDG_CACHE_HOME") or str(user_home() / ".cache")
    return [expanded(path) for path in (*named, f"{cache}/huggingface/token") if path]


def _below(folder: str | None, name: str) -> str | None:
    return f"{folder}/{name}" if folder else None


_MOST_TOKEN = 1 << 20
"""Bytes of a file that holds one token."""

NGC_KEYS = ("NGC_KEY", "NGC_API_KEY")
"""Variables that hold a key for NVIDIA's registry: the first that is set counts."""

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "HF_TOKEN": ("HUGGING_FACE_HUB_TOKEN",),
    NGC_KEYS[0]: NGC_KEYS[1:],
}
