"""Lines of text, as files, TOML, git and logs have them."""

MYPY = False
if MYPY:
    pass


def text_lines(text: str) -> "list[str]":
    """The lines, each ended by a line feed or by a carriage return and one; a last one may have no end.

    `str.splitlines` also cuts at what a line may hold: a lone carriage return, U+0085, U+2028, and five others.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines
