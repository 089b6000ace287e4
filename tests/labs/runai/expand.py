"""What becomes of a workload's command on its way to the container: words as in a shell, `$(NAME)` as in Kubernetes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` replaced where NAME is known, `$$` by `$`; everything else stays.

    Kubernetes does this to `command`, `args` and each plain `value` of `env`, where only variables that were listed
    before are known (the reference of `EnvVar.value` in its API; `third_party/forked/golang/expansion` in its source).
    """

    def one(hit: re.Match[str]) -> str:
        if hit[1] is None:
            return "$"
        return variables.get(hit[1], hit[0])

    return _REFERENCE.sub(one, text)


def words(command: str, arguments: str) -> list[str]:
    """The container's argument list. Raises: ValueError for a quote that is not closed."""
    return [*shlex.split(command), *shlex.split(arguments)]
