"""Keeps secrets out of what is shown and kept: by exact value, and by an exact list of names.

Names are never matched by a part of them, so that `tokenizer`, `max_tokens` and `calculate_per_token_loss` stay
readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

HIDDEN = "******"
"""What stands where a secret was."""

SHORTEST = 4
"""Values shorter than this many characters cannot be told from ordinary text and are not looked for."""

SECRET_NAMES = frozenset({
    "access_key", "access_token", "accesskey", "anthropic_api_key", "api_key", "api_token", "apikey", "app_secret",
    "auth_token", "aws_secret_access_key", "aws_session_token", "azure_client_secret",
    "azure_storage_key", "bearer_token", "client_secret", "comet_api_key", "dgx_client_secret", "docker_password",
    "gh_token", "git_token", "github_token", "gitlab_token", "google_api_key", "hf_hub_token", "hf_token",
    "hugging_face_hub_token", "huggingface_token", "huggingfacehub_api_token", "identity_token", "lepton_api_token",
    "lepton_auth_token", "lepton_token", "lepton_workspace_token", "mlflow_tracking_password",
    "mlflow_tracking_token", "neptune_api_token", "netrc_password", "ngc_api_key", "ngc_cli_api_key", "ngc_key",
    "nvidia_api_key", "openai_api_key", "passphrase", "passwd", "password", "private_key", "refresh_token",
    "registry_password", "registry_token", "s3_secret_key", "secret_access_key", "secret_key",
    "wandb_api_key", "wandb_key",
})  # fmt: skip
"""Names of variables and keys that hold a secret, in lower case with underscores."""

_ASSIGNMENT = re.compile(r"(?P<head>(?:--|\++|~)?(?P<name>[\w.\-]+)=)(?P<value>.*)", re.DOTALL)
_OPTION = re.compile(r"--(?P<name>[\w.\-]+)")


def is_secret_name(name: str) -> bool:
    """True where a variable or key of that name holds a secret, whatever the case, `-` for `_`."""
    return name.lower().replace("-", "_") in SECRET_NAMES


class Redactor:
    """Puts `HIDDEN` where one of the values is, also where it is written URL-quoted or as a JSON string.

    Args:
        values: the secrets; those shorter than `SHORTEST` are left out.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        forms = {form for value in values if len(value) >= SHORTEST for form in _forms(value)}
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        # Undecodable bytes of a stream are kept as surrogates, which "surrogateescape" turns into the same bytes again.
        raw = [form.encode("utf-8", "surrogateescape") for form in ordered]
        self._bytes = re.compile(b"|".join(map(re.escape, raw))) if raw else None

    def redact(self, text: str) -> str:
        """The text without the secrets."""
        return self._pattern.sub(HIDDEN, text) if self._pattern else text

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for bytes of any encoding."""
        return self._bytes.sub(HIDDEN.encode(), data) if self._bytes else data


class LineFilter:
    """Redacts a stream of bytes that comes in pieces of any size, and gives it on in whole lines.

    A secret that is cut by the border of two pieces is found; one that itself holds line breaks is found only where
    its lines stand in one piece of the stream, so each of its longer lines is hidden by itself as well.
    """

    LONGEST = 1 << 20
    """Bytes kept of a line without an end; a longer one is given on in pieces, which overlap what is searched."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        values = [value for value in values if len(value) >= SHORTEST]
        lines = [line for value in values if "\n" in value for line in value.splitlines() if len(line) >= SHORTEST]
        self._redactor = Redactor([*values, *lines])
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Takes a piece; returns what can be shown: whole lines, with their ends."""
        self._held += data
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > self.LONGEST:
            return self._release_most()
        whole, self._held = self._held[:end], self._held[end:]
        return self._redactor.redact_bytes(whole)

    def close(self) -> bytes:
        """The rest: a last line without an end."""
        rest, self._held = self._held, b""
        return self._redactor.redact_bytes(rest)

    def _release_most(self) -> bytes:
        # What was hidden stays hidden: the held half is cut from the redacted bytes.
        clean = self._redactor.redact_bytes(self._held)
        middle = len(clean) // 2
        shown, self._held = clean[:middle], clean[middle:]
        return shown


def redact_argv(argv: Sequence[str], values: Iterable[str] = ()) -> list[str]:
    """A command line to keep: known values hidden, and what is given to a secret's name (`NAME=x`, `--name x`)."""
    redactor = Redactor([*values, *_given_secrets(argv)])
    shown, hide_next = [], False
    for word in argv:
        match = _ASSIGNMENT.fullmatch(word)
        if hide_next:
            shown.append(HIDDEN)
        elif match and is_secret_name(match["name"].rsplit(".", 1)[-1]):
            shown.append(match["head"] + HIDDEN)
        else:
            shown.append(redactor.redact(word))
        option = _OPTION.fullmatch(word)
        hide_next = not hide_next and bool(option and is_secret_name(option["name"]))
    return shown


def argv_redactor(argv: Sequence[str]) -> Redactor:
    """A redactor of the secrets that stand on a command line, for messages that repeat parts of it."""
    return Redactor(_given_secrets(argv))


def _given_secrets(argv: Sequence[str]) -> list[str]:
    found = []
    for word, after in zip(argv, [*argv, ""][1:], strict=True):
        match, option = _ASSIGNMENT.fullmatch(word), _OPTION.fullmatch(word)
        if match and is_secret_name(match["name"].rsplit(".", 1)[-1]):
            found += [match["value"], match["value"].strip("'\"")]
        elif option and is_secret_name(option["name"]):
            found.append(after)
    return found


def _forms(value: str) -> set[str]:
    """The ways a value may be written: as it is, in a URL, in JSON with and without \\u escapes."""
    plain = value.encode("utf-8", "surrogateescape")
    forms = {value, quote(plain, safe=""), quote(plain), quote_plus(plain)}
    forms |= {json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}
    forms |= {re.sub(r"%[0-9A-F]{2}", lambda match: match[0].lower(), form) for form in tuple(forms) if "%" in form}
    return {form for form in forms if len(form) >= SHORTEST}
