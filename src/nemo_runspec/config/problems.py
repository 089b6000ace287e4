"""Turns complaints of Hydra, OmegaConf and YAML into errors of the user's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nemo_runspec.config.cycles import circle_of
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.lines import text_lines
from nemo_runspec.source import display_path

if TYPE_CHECKING:
    from hydra.errors import MissingConfigException

    from nemo_runspec.config.yaml_file import YamlChoice

_RAISED = re.compile(r"\w+ raised while resolving interpolation: (?P<said>.+)")


def shown(choice: YamlChoice) -> str:
    """The file of a config, for a message."""
    return display_path(choice.file)


def missing_config(choice: YamlChoice, error: MissingConfigException) -> UserError:
    """A config that is not there: the one that was asked for, or one that its `defaults` name."""
    folder = choice.folder
    names = sorted(f.stem for f in folder.glob("*.yaml"))
    missing = str(error.missing_cfg_file or choice.name)
    if missing.removesuffix(".yaml") == choice.name:
        remedy = did_you_mean(choice.name, names)
        have = f"configs: {', '.join(names)}" if names else "the folder has no .yaml files"
        return UserError(
            f"no config '{choice.name}' in {display_path(folder)}", remedy=f"{remedy}  ({have})" if remedy else have
        )
    return UserError(f"config '{choice.name}' asks for '{missing}', which is not there", where=shown(choice))


def yaml_error(choice: YamlChoice, error: BaseException) -> UserError:
    """A file that cannot be read as YAML, with the line; or `defaults` without an end."""
    if isinstance(error, RecursionError):
        circle = circle_of(choice.name, (choice.folder, *choice.search))
        way = " -> ".join(circle) or "they are nested too deeply"
        return UserError(f"the defaults of config '{choice.name}' lead back to themselves: {way}", where=shown(choice))
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return UserError(f"cannot read config '{choice.name}': {message(error)}", where=shown(choice))
    file = display_path(Path(mark.name)) if Path(mark.name).is_file() else shown(choice)
    return UserError(f"not valid YAML: {getattr(error, 'problem', None) or error}", where=f"{file}:{mark.line + 1}")


def causes_of(error: BaseException) -> Iterator[BaseException]:
    """An error, and what caused it: OmegaConf wraps what a resolver raises once for each value on the way."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def message(error: BaseException) -> str:
    """The first line of what an error says, or of its cause; its kind where none says anything."""
    cause: BaseException | None = error
    if any(isinstance(each, RecursionError) for each in causes_of(error)):
        return "it is nested too deeply, or refers to itself"
    text = str(error)
    while not text and cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
        text = str(cause)
    lines = [row.strip() for row in text_lines(text) if row.strip()]
    return _RAISED.sub(_plainly, lines[0]) if lines else type(error).__name__


def _plainly(raised: re.Match[str]) -> str:
    """What a resolver said, without OmegaConf's words for how; a `KeyError` quotes what it says."""
    said = raised.group("said")
    return said[1:-1] if len(said) > 1 and said[0] == said[-1] and said[0] in "'\"" else said
