"""Which names are those of secrets: variables of an environment, keys of a config, options of a command line.

One rule for all of them. A name is compared by its words (`apiKey`, `api-key` and `API_KEY` are the same) and by how it
ends: `HF_TOKEN` is a secret, `HF_TOKEN_PATH` is not. What language models call tokens (`eos_token`, `max_tokens`,
`tokenizer`) stays readable.
"""

from __future__ import annotations

import re
from typing import Any

_ANYWHERE = (
    "access_key", "access_keys", "account_key", "api_key", "api_keys", "app_key", "application_key", "auth_config",
    "auth_key", "authorization", "client_key_data", "connection_string", "credential", "credentials", "deploy_key",
    "encryption_key", "license_key", "master_key", "openai_key", "passphrase", "passwd", "password", "passwords",
    "private_key", "secret", "secret_key", "secret_key_base", "service_account_key", "session_key", "shared_key",
    "signing_key", "ssh_key", "storage_key", "subscription_key", "token", "webhook_url",
)  # fmt: skip
"""How names of secrets end, in whole words, whatever their case."""

_VARIABLES = ("auth", "cookie", "jwt", "key", "pass", "pat", "pw", "pwd", "sas")
"""How those of variables (in capitals) end besides: in lower case these are words like any other (`forward_pass`)."""

_GLUED = re.compile(
    r"(?:password|passwd|passphrase|apikey|secretkey|accesskey|privatekey|apitoken|authtoken|accesstoken|hftoken|"
    r"clientsecret|sshpass|dbpass|userpass)$"
)
"""The same written as one word: `PGPASSWORD`, `apikey`."""

SECRET_NAMES = frozenset({
    "kaggle_key", "ngc_key", "redis_auth", "slack_webhook", "wandb_key", "x_amz_signature", "x_goog_signature",
})  # fmt: skip
"""Names that no ending tells."""

_READABLE = frozenset({"image_pull_secret", "pull_secret", "token"})
"""Names of other things. `token` alone is a word of language models; the variable TOKEN is not."""

_TOKENS = frozenset({
    "audio", "bos", "cls", "eod", "eos", "eot", "image", "mask", "max", "min", "num", "pad", "per", "sep", "special",
    "unk", "video", "vision",
})  # fmt: skip
"""Words before `token` that make it one of a language model's, in any name."""

_TOKENS_OF_CONFIGS = frozenset({
    "action", "added", "answer", "aux", "bad", "begin", "blank", "boa", "boi", "bov", "byte", "call", "char", "class",
    "code", "context", "current", "delimiter", "document", "draft", "drop", "dummy", "each", "end", "eoa", "eoh", "eoi",
    "eom", "eov", "extra", "fake", "fim", "first", "frame", "generated", "good", "header", "im", "img", "initializer",
    "input", "instance", "instruction", "is", "label", "lang", "language", "last", "latent", "line", "location",
    "lookahead", "mem", "memory", "meta", "middle", "multi", "n", "new", "newline", "next", "no", "number", "object",
    "of", "oov", "output", "padding", "patch", "pause", "pixel", "placeholder", "point", "prefix", "previous", "prompt",
    "question", "reasoning", "ref", "region", "register", "response", "reward", "sample", "separator", "single", "sot",
    "space", "speaker", "speech", "start", "state", "step", "stop", "sub", "suffix", "summary", "target", "task",
    "text", "think", "thinking", "time", "timestamp", "to", "tool", "trigger", "turn", "unknown", "visual", "word",
    "yes",
})  # fmt: skip
"""The same in names that are not in capitals: keys of configs and options."""

_OTHER_KEYS = frozenset({
    "cache", "column", "data", "dict", "foreign", "group", "host", "image", "index", "json", "label", "object",
    "partition", "primary", "public", "s3", "sort", "text",
})  # fmt: skip
"""Words before `KEY` that make a variable's name that of another kind of key."""

_SWITCHES = frozenset({"", "none", "null", "true", "false", "yes", "no", "on", "off", "0", "1", "******"})
"""What may stand under a secret's name instead of one: `HF_HUB_DISABLE_IMPLICIT_TOKEN=1`."""
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_COUNTED = re.compile(r"_+[0-9]+$")
_SPECIAL = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\{[^{}]*\}|\$\{?\w+\}?|\$\{oc\.env:\w+(?:,(?:'')?)?\}")


def is_secret_name(name: str) -> bool:
    """True where a variable, a key or an option of that name holds a secret."""
    in_capitals = name == name.upper()
    plain = _COUNTED.sub("", _HUMPS.sub("_", name).lower().replace("-", "_").replace(" ", "_")).strip("_")
    if plain in _READABLE:
        return in_capitals and plain == "token"
    if plain in SECRET_NAMES or _GLUED.search(plain):
        return True
    before, ending = _ending(plain, _ANYWHERE)
    if ending == "token":
        return not (before in _TOKENS or (not in_capitals and before in _TOKENS_OF_CONFIGS))
    if ending or not in_capitals:
        return bool(ending)
    before, ending = _ending(plain, _VARIABLES)
    return bool(ending and before) and not (ending == "key" and before in _OTHER_KEYS)


def is_secret_option(name: str) -> bool:
    """The same of an option of a command line, `--NAME VALUE`, where `token` alone is a credential too."""
    return name == "token" or is_secret_name(name)


def holds_secret(name: str, value: Any) -> bool:
    """True where what stands under that name is one: neither empty, nor a switch, nor a special token (`<pad>`),
    nor a reference to a variable."""
    if isinstance(value, float) or str(value).lower() in _SWITCHES or not is_secret_name(name):
        return False
    return not _SPECIAL.fullmatch(str(value))


def _ending(plain: str, endings: tuple[str, ...]) -> tuple[str, str]:
    """The word before the ending that the name has, and that ending; two empty texts where it has none of them."""
    for ending in endings:
        if plain == ending or plain.endswith(f"_{ending}"):
            return plain.removesuffix(ending).rstrip("_").rpartition("_")[2], ending
    return "", ""
