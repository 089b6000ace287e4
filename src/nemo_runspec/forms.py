"""The forms in which a secret leaks: as it is, escaped for a URL, JSON, HTML, a shell or by Python's repr, base64, hex.

Also a part of the program that stands between a job's ranks and its log (jobside/output.py), where nothing of nemotron
is: it runs with Python 3.6 and imports next to nothing.
"""

import binascii

HIDDEN = b"******"
"""What stands where a secret was."""

_TELLING = 3
"""Characters of a secret that tell nothing."""

SHORTEST = 6
"""Values shorter than this many bytes cannot be told from ordinary text and are not looked for."""

COMMON = (
    "access admin administrator anonymous apikey bearer change changeit changeme cluster complete config cuda data "
    "dataset debug default defaults default_user development disabled docker dummy dummy-key empty enabled error "
    "example failed false finished float guest hidden hello hello-world info info-only job-name latest letmein local "
    "localhost master metrics minio minioadmin model models mysql nemotron none nothing null number nvidia offline "
    "online output passphrase password password1 passw0rd placeholder postgres private process project python "
    "pytorch qwerty qwerty123 rank rank0 recipe replace replaceme running secret secrets sample sample-key server "
    "shared started string success testing test-key test123 token tokens torch torchrun train training true unknown "
    "unset updated username version volume wandb warning welcome worker workspace"
)
"""Words that stand in logs for something else: hiding them would hide the log."""


def is_weak(value: bytes) -> bool:
    """True for a value that is too short, too common or too plain a number to be looked for."""
    plain = value.strip().lower()
    return len(plain) < SHORTEST or len(set(plain)) < 3 or plain.decode("latin-1") in COMMON.split() or _counts(plain)


def forms(value: bytes) -> "list[bytes]":
    """All forms of a value, none of them part of another."""
    text = value.decode("utf-8", "surrogateescape")
    found = {value, *_encoded(value), *_as_bytes(_in_urls(value))}
    found.update(_as_bytes([*_in_json(text), *_in_python(text, value), *_in_shells(text), _in_html(text)]))
    long = sorted((form for form in found if len(form) >= SHORTEST), key=len)
    return [form for n, form in enumerate(long) if not any(shorter in form for shorter in long[:n])]


def hidden_forms(values: "list[bytes]") -> "list[bytes]":
    """What must not be seen of some secrets: their forms, and each longer line of a value of several; longest first."""
    strong = [value for value in values if not is_weak(value)]
    lines = [line for value in strong if b"\n" in value for line in value.splitlines() if len(line) >= SHORTEST]
    return sorted({*lines, *(form for value in strong for form in forms(value))}, key=lambda form: (-len(form), form))


def hide(data: bytes, found: "list[bytes]") -> bytes:
    """The data without them. `replace` finds nothing at some GB/s: one pattern for all of them is ten times slower."""
    for form in found:
        data = data.replace(form, HIDDEN)
    return data


def without_begun(data: bytes, found: "list[bytes]") -> bytes:
    """The data without its end, where that may be the beginning of one whose rest is to come."""
    sizes = (size for form in found for size in range(_TELLING, len(form)) if data.endswith(form[:size]))
    return data[: len(data) - max(sizes, default=0)]


def _counts(plain: bytes) -> bool:
    return plain.isdigit() and len(plain) < 8


def _encoded(value: bytes) -> "list[bytes]":
    """In base64 wherever it begins in what is encoded, without the characters that its neighbours share; in hex."""
    found = [binascii.hexlify(value), binascii.hexlify(value).upper()]
    for before, shared in ((0, 0), (1, 2), (2, 3)):
        whole = binascii.b2a_base64(b"\0" * before + value)
        core = whole[shared : 8 * (before + len(value)) // 6]
        found += [core, core.replace(b"+", b"-").replace(b"/", b"_")]
    return found


def _in_urls(value: bytes) -> "list[str]":
    """As urllib, a form and encodeURIComponent write it, with hex digits of either case."""
    found = []
    for safe in ("_.-~", "_.-~/", "_.-~!*'()"):
        for style in ("%{:02X}", "%{:02x}"):
            whole = "".join(chr(c) if chr(c) in safe or _is_plain(c) else style.format(c) for c in value)
            found += [whole, whole.replace("%20", "+")]
    return found


def _is_plain(code: int) -> bool:
    return code < 128 and chr(code).isalnum()


def _in_json(text: str) -> "list[str]":
    """With and without \\u escapes, with `\\/`, and as JSON inside a JSON text."""
    found = ["".join(_json(c, limit) for c in text) for limit in (127, 0x110000)]
    found += [form.replace("/", "\\/") for form in found]
    return found + ["".join(_json(c, 0x110000) for c in form) for form in found]


_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def _json(char: str, limit: int) -> str:
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if 32 <= code < limit:
        return char
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _in_python(text: str, value: bytes) -> "list[str]":
    """repr() of the text and of its bytes; which quotes it escapes depends on what else stands there."""
    found = []
    for whole in (repr("'\"" + text)[4:-1], repr(b"'\"" + value)[5:-1]):
        bare = whole.replace("\\'", "'")
        found += [whole, bare, bare.replace('"', '\\"')]
    return found


def _in_shells(text: str) -> "list[str]":
    """Between single quotes, as `set -x` and shlex write it, and with a backslash before what is special."""
    bare = "".join(c if c.isalnum() or c in "_.-/:=@%+," else "\\" + c for c in text)
    return [text.replace("'", "'\\''"), text.replace("'", "'\"'\"'"), bare]


def _in_html(text: str) -> str:
    for char, name in (("&", "amp"), ("<", "lt"), (">", "gt"), ('"', "quot"), ("'", "#x27")):
        text = text.replace(char, "&" + name + ";")
    return text


def _as_bytes(texts: "list[str]") -> "list[bytes]":
    return [text.encode("utf-8", "surrogateescape") for text in texts if _can_be_bytes(text)]


def _can_be_bytes(text: str) -> bool:
    return not any(0xD800 <= ord(c) < 0xDC80 or 0xDD00 <= ord(c) < 0xE000 for c in text)
