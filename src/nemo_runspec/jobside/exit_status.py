"""The end of a rank or a node, as a value."""

MYPY = False
if MYPY:
    from typing import Optional

UNREGISTERED = 74
"""EX_IOERR of sysexits.h: the exit code of a job whose work is done, and what it has made is not registered."""

LASTING = "lasting"
"""Where the tasks of an attempt meet: that one failed by what another attempt would only repeat."""


class Ended:
    """The end of a node's part of a job.

    Args:
        exit_code: 0 to 255.
        signal: the number of the signal that ended the command, None for none.
        rank: the rank that failed first, None where none did.
        reason: in words, '' where the exit code says all.
        code: of `REASONS` in script/markers.py, '' for none.
        blames: the node whose failure ended this one, None where it ended by itself.
        ran: whether the command has run to its end.
        follows: whether this is the end of node 0's command, of which that node itself tells the others.
    """

    def __init__(
        self,
        exit_code: int,
        signal: "Optional[int]" = None,
        rank: "Optional[int]" = None,
        reason: str = "",
        code: str = "",
        blames: "Optional[int]" = None,
        ran: bool = False,
        follows: bool = False,
    ) -> None:
        self.exit_code = exit_code
        self.signal = signal
        self.rank = rank
        self.reason = reason
        self.code = code
        self.blames = blames
        self.ran = ran
        self.follows = follows


def as_on_node_0(exit_code: int) -> Ended:
    """The end of a node that serves node 0's command, by that command's exit code."""
    if not exit_code:
        return Ended(0, ran=True)
    return Ended(exit_code, reason="the command failed on node 0", blames=0, ran=True, follows=True)
