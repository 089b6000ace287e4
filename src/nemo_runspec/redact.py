"""Keeps secrets out of what is shown and kept: known values in all their forms, and what a text calls a secret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

from nemo_runspec import forms
from nemo_runspec.secret_names import holds_secret, is_secret_option

HIDDEN = forms.HIDDEN.decode()
"""What stands where a secret was."""

_WORTH = (
    "://", "token", "key", "secret", "pass", "pw", "cred", "auth", "bearer", "signature", "sig=", "jwt", "cookie",
    "connection", "webhook",
)  # fmt: skip
_WORTH_AT_END = re.compile(r"pat\b|sas\b")
"""Text without any of this, in small letters, names no secret: most text is looked at no further."""

_GIVEN = r"""\\*(?:"(?P<a>[^"\\\n]+)|'(?P<b>[^'\\\n]+)|(?P<c>[^\s&;,"'<>(){}\[\]|\\`#]+))"""
_NAME = r"(?P<name>[A-Za-z_][\w.\-]*)"
# What is given is looked ahead at: it may hold names itself, as the parameters of a URL.
_NAMED = (
    re.compile(rf"(?:(?P<option>(?<![\w\-])--?)|(?<![\w.\-])){_NAME}(?=={_GIVEN})"),  # NAME=value
    re.compile(rf"(?P<option>(?<![\w\-])--){_NAME}(?=[ ]+(?!-){_GIVEN})"),  # --NAME value
)
_LOGIN = re.compile(r"""://(?:[^\s/:@"'<>?#]*:)(?P<value>[^\s/"'<>?#]+)@|://(?P<alone>[^\s/:@"'<>?#]{20,})@""")
"""`://user:password@`; of a name alone a long one, as tokens are given to git."""

_LOGIN_OF_WORD = re.compile(r"://[^\s/:@]*:(?![0-9]+/)(?P<value>\S+)@")
"""The same in a word of a command line, where a password may hold what ends a URL in other text."""

_BEARER = re.compile(r"(?:Authorization:\s*\w+|\bBearer)\s+(?P<value>[\w.~+/=\-]{8,})", re.IGNORECASE)
_PARAMETERS = frozenset({"sig", "signature", "key", "auth", "token"})
"""Names of parameters of a URL that hold a secret, and are words like any other elsewhere."""

_PAIR = re.compile(rf"[{{,]\s*{_NAME}:\s*{_GIVEN}")
"""`{NAME: value}`, as Hydra takes it. Not looked for in other text, where such tables hold references too."""

_ASSIGNMENT = re.compile(r"(?P<head>(?:--|\++|~)?(?P<name>[\w.\-]+)=)(?P<value>.*)", re.DOTALL)
_OPTION = re.compile(r"--(?P<name>[\w.\-]+)")


class Redactor:
    """Puts `HIDDEN` where one of the values is, in any of the forms that `forms.forms` knows.

    Args:
        values: the secrets; weak ones (`is_weak`) are left out.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        # Undecodable bytes of a stream are kept as surrogates, which "surrogateescape" turns into the same bytes again.
        self._forms = forms.hidden_forms([value.encode("utf-8", "surrogateescape") for value in values])

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(re.escape(form.decode("utf-8", "surrogateescape")) for form in self._forms))

    def redact(self, text: str) -> str:
        """The text without the secrets."""
        return self._pattern.sub(HIDDEN, text) if self._forms else text

    def redact_bytes(self, data: bytes) -> bytes:
        """The same for bytes of any encoding."""
        return forms.hide(data, self._forms)

    def without_begun(self, data: bytes) -> bytes:
        """The data without its end, where that may be the beginning of a secret whose rest is to come."""
        return forms.without_begun(data, self._forms)


@lru_cache(maxsize=256)
def redactor_of(values: tuple[str, ...]) -> Redactor:
    """One that is kept: the plans of a sweep have the same secrets, and their forms take a while to make."""
    return Redactor(values)


def is_weak(value: str) -> bool:
    """True for a value that cannot be told from ordinary text: under six characters, a common word, a small number."""
    return forms.is_weak(value.encode("utf-8", "surrogateescape"))


class LineFilter:
    """Redacts a stream of bytes that comes in pieces of any size, and gives it on in whole lines.

    A secret that is cut by the border of two pieces is found; one that itself holds line breaks is found only where
    its lines stand in one piece of the stream, so each of its longer lines is hidden by itself as well.
    """

    LONGEST = 1 << 20
    """Bytes kept of a line without an end; a longer one is given on in pieces, which overlap what is searched."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._redactor = Redactor(values)
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Takes a piece; returns what can be shown: whole lines, with their ends."""
        self._held += data
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > self.LONGEST:
            return self._release_most()
        whole, self._held = self._held[:end], self._held[end:]
        return self._redactor.redact_bytes(whole)

    def without_begun(self, line: bytes) -> bytes:
        """What can be shown of a line that is not whole yet and was given on."""
        return self._redactor.without_begun(line)

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


def mask(text: str) -> str:
    """A text to be shown: without what itself says is a secret: `://user:password@`, `NAME=value`, `--token value`,
    `Authorization: Bearer value`, the signature of a URL. A reference such as `$HF_TOKEN` stays.
    """
    return without(text, secrets_in(text))


def secrets_in(text: str) -> list[tuple[int, int]]:
    """Where in a text secrets stand, as the text itself says: first and last place (exclusive), in their order."""
    small = text.lower().replace("\u017f", "s")  # which is one of the capitals of s to those who look for names
    if not any(word in small for word in _WORTH) and not _WORTH_AT_END.search(small):
        return []
    found = [m.span("value") if m["value"] else m.span("alone") for m in _LOGIN.finditer(text)]
    found += [m.span("value") for m in _BEARER.finditer(text)]
    found += [m.span(str(m.lastgroup)) for named in _NAMED for m in named.finditer(text) if _is_named_secret(text, m)]
    return _apart(span for span in found if _is_literal(text[slice(*span)]))


def is_secret_variable(name: str, value: object) -> bool:
    """True where a variable of an environment is a secret: by its name, or as an address with a password in it."""
    return holds_secret(name, value) or any(_is_literal(m["value"] or m["alone"]) for m in _LOGIN.finditer(str(value)))


def redact_argv(argv: Sequence[str], values: Iterable[str] = ()) -> list[str]:
    """A command line to keep: known values hidden, and all that is given to a secret's name (`NAME=x`, `--name x`)."""
    known, given = redactor_of(tuple(values)), Redactor(_given_secrets(argv))
    words = (without(word, spans) for word, spans in zip(argv, secrets_of(argv), strict=True))
    return [known.redact(given.redact(word)) for word in words]


def secrets_of(argv: Sequence[str]) -> list[list[tuple[int, int]]]:
    """For each word of a command line, where in it secrets stand: first and last place (exclusive)."""
    found = []
    for before, word in zip(["", *argv], argv, strict=False):
        match, option = _ASSIGNMENT.fullmatch(word), _OPTION.fullmatch(before)
        if option and _is_given(option["name"], word, option=True) and not word.startswith("--"):
            found.append([(0, len(word))])
        elif match and _is_given(match["name"].rsplit(".", 1)[-1], match["value"], option=word.startswith("--")):
            found.append([match.span("value")])
        else:
            found.append(_apart((*secrets_in(word), *_in_words(word))))
    return found


def argv_redactor(argv: Sequence[str]) -> Redactor:
    """A redactor of the secrets that stand on a command line, for messages that repeat parts of it."""
    return Redactor(_given_secrets(argv))


def _in_words(word: str) -> list[tuple[int, int]]:
    """What is looked for in words of a command line only."""
    logins = [m.span("value") for m in _LOGIN_OF_WORD.finditer(word) if _is_literal(m["value"])]
    pairs = ((m, str(m.lastgroup)) for m in _PAIR.finditer(word))
    return logins + [m.span(g) for m, g in pairs if _is_literal(m[g]) and holds_secret(m["name"], m[g])]


def _given_secrets(argv: Sequence[str]) -> list[str]:
    found = [word[slice(*span)] for word, spans in zip(argv, secrets_of(argv), strict=True) for span in spans]
    return [text for value in found for text in (value, value.strip("'\""))]


def _is_given(name: str, value: str, *, option: bool) -> bool:
    """True if what is given to a key, or to an option, is a secret."""
    return holds_secret("TOKEN" if option and is_secret_option(name) else name, value)


def _is_named_secret(text: str, match: re.Match[str]) -> bool:
    name, option = match["name"].rsplit(".", 1)[-1], bool(match["option"])
    parameter = (
        text[max(0, match.start("name") - 1) : match.start("name")] in ("?", "&") and name.lower() in _PARAMETERS
    )
    return parameter or _is_given(name, match[str(match.lastgroup)], option=option)


def _is_literal(value: str) -> bool:
    """False for a reference to a variable or an argument, and for what is hidden already."""
    return not value.startswith(("$", "%")) and value.strip("*.…") != "" and value != "(secret)"


def _apart(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places in their order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """The text with `HIDDEN` in these places."""
    for start, end in sorted(spans, reverse=True):
        text = text[:start] + HIDDEN + text[end:]
    return text
