"""Lines of the supervisor in a job's log."""

import os


def say(text: str, log: int = 2) -> None:
    """Says a line of nemotron's own, in one write. A log that cannot be written costs the line."""
    try:
        os.write(log, ("nemotron: %s\n" % text).encode("utf-8", "surrogateescape"))
    except OSError:
        return
