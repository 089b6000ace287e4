"""The views of a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from nemo_runspec.errors import UserError


class View(Enum):
    """One of its views, by the option that asks for it; the page needs none."""

    PAGE = ""
    FULL = "--full"
    SCRIPT = "--script"
    JSON = "--json"
    CONFIG = "--cfg"


def check_views(asked: Sequence[View], dry_run: bool) -> View:
    """The view that is asked for. `--cfg` does nothing but show, and needs no other word for it.

    Raises:
        UserError: there are several, or something is to be done besides.
    """
    options = [view.value for view in asked]
    if len(options) > 1:
        raise UserError(f"{' and '.join(options)} exclude each other", remedy="keep one; --json holds everything")
    view = next(iter(asked), View.PAGE)
    if view not in (View.PAGE, View.CONFIG, View.JSON) and not dry_run:
        raise UserError(f"{view.value} belongs to --dry-run here", remedy="add --dry-run")
    return view
