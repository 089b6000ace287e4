"""Raises the limit on open files of a job's processes to what their node allows."""

import resource

_MOST = 1 << 20
"""Some engines allow a billion, and programs that close whatever they might have open would take minutes for that."""


class OpenFiles:
    """The soft limit on open files, raised to the hard one for this process and all that it starts.

    Attributes:
        before: what it was. `now`: what it is. Each -1 for none.
    """

    def __init__(self) -> None:
        self.before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.now = self.before
        wanted = _MOST if most == resource.RLIM_INFINITY else min(most, _MOST)
        if self.before == resource.RLIM_INFINITY or wanted <= self.before:
            return
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
        except (OSError, ValueError):
            return  # a sandbox that allows nobody to
        self.now = wanted

    @property
    def words(self) -> str:
        """What was changed, '' for nothing."""
        if self.now == self.before:
            return ""
        return "each process may have %d files open (%d before)" % (self.now, self.before)
