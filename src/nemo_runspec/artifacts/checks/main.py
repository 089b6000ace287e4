"""The checkers as a program: reads what is to be looked at as JSON, writes what was found as JSON."""

import json
import sys
from importlib.util import find_spec

from nemo_runspec.artifacts.checks.binidx import exists_at
from nemo_runspec.artifacts.checks.look import Defect, Inspection, Unchecked
from nemo_runspec.artifacts.checks.table import CHECKERS, WANTED

MYPY = False
if MYPY:
    from typing import Any, Dict, List, Tuple

_MOST = 20
"""Findings per path."""


def check(path: str, checker: str, whole: bool, seconds: float) -> "Dict[str, Any]":
    """Looks at a path.

    Args:
        checker: a name of `CHECKERS`.
        whole: everything is read, however long that takes.
        seconds: how long it may take else.

    Returns: `findings`, a few of them; `more` where there were others; `notes`, what was not looked at; `unchecked`,
    why nothing can be said, '' where something can.
    """
    look = Inspection(whole, seconds)
    found, unchecked = _found(path, checker, look)
    return {
        "findings": [each.as_dict() for each in found[:_MOST]],
        "more": len(found) > _MOST,
        "notes": look.notes,
        "unchecked": unchecked,
    }


def _found(path: str, checker: str, look: Inspection) -> "Tuple[List[Defect], str]":
    """A checker's own mistake is none of the data's."""
    found: "List[Defect]" = []
    try:
        if not exists_at(path):
            return [Defect("is not there", path)], ""
        for each in CHECKERS[checker](path, look):
            found.append(each)
            if len(found) > _MOST:
                break
    except Unchecked as reason:
        return found, "" if found else str(reason)
    except KeyError as error:
        return found, "" if found else "there is no checker %s" % error
    except Exception as error:  # noqa: BLE001
        return found, "" if found else "%s: %s" % (type(error).__name__, str(error)[:300])
    return found, ""


def main() -> None:
    """Reads `{"look": [{"path", "check"}], "whole", "seconds"}` from its input; writes what `check` gives as `found`.

    With `--equipped` it ends with 3 where a package is missing that a checker would look at rows with.
    """
    del sys.path[0]  # what lies beside this program is no module
    asked = json.load(sys.stdin)
    each = asked["look"]
    wanted = {WANTED[one["check"]] for one in each if one["check"] in WANTED}
    if "--equipped" in sys.argv and not all(map(find_spec, wanted)):
        sys.exit(3)
    seconds = float(asked.get("seconds", 10)) / max(1, len(each))
    found = [check(one["path"], one["check"], bool(asked.get("whole")), seconds) for one in each]
    json.dump({"found": found}, sys.stdout)
