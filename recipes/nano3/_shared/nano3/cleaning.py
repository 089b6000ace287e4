"""Makes the text of a row clean, or says why there is none. What it changes beside the ends must be asked for."""

from __future__ import annotations

import json
import unicodedata

EMPTY, NOT_TEXT, NOT_UNICODE = "empty", "not text", "not Unicode"
"""Why a row has no text: null or blank; an object, a list, true or false; half a surrogate pair, or bytes that are no
UTF-8.
"""

FORMS = ("NFC", "NFKC")
CONTROL = {code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\t\n\r"}
"""The control characters (Unicode's category Cc) but tab and the ends of lines, as `str.translate` takes them."""


def text_of(value: object, form: str | None = None, without_control: bool = False) -> tuple[str, str]:
    """The text and '', or '' and why there is none.

    Args:
        value: of a row's field; a number is its digits.
        form: of Unicode's normal forms, one of `FORMS`; None leaves characters as they are.
        without_control: leave `CONTROL` out.
    """
    if value is None:
        return "", EMPTY
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return "", NOT_TEXT
    text = str(value)
    if not (text.isascii() or is_unicode(text)):
        return "", NOT_UNICODE
    if form is not None:
        text = unicodedata.normalize(form, text)
    if without_control:
        text = text.translate(CONTROL)
    text = text.strip()
    return text, "" if text else EMPTY


def is_unicode(value: object) -> bool:
    """Whether all text in a value of JSON can be written: it has no half of a surrogate pair."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
