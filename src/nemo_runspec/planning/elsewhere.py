"""Paths of this machine in a job that runs on another one: they are said, as they mean nothing there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nemo_runspec.paths import user_home
from nemo_runspec.profiles.fieldset import fields_of
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Source


def paths_of_here(
    run: Mapping[str, Any], config: Mapping[str, Any], sources: Mapping[str, Source], folder: Path
) -> Iterator[str]:
    """A warning for every value of a job elsewhere that lies in the folder of the call, or in the home of its user.

    Args:
        folder: the working directory of the call.
    """
    of_here = fields_of(run["env"]["executor"]).where(lambda key: key.of_here)
    places = [place for place in (folder, user_home()) if len(place.parts) > 1]
    for path, value in (*flatten(run, "run.").items(), *flatten(config).items()):
        if path.startswith("run.env.") and path.split(".")[2] in of_here:
            continue
        for text in value if isinstance(value, (list, tuple)) else (value,):
            place = _below(text, places)
            if place is not None:
                source = sources.get(path)
                where = f" ({source.label()})" if source else ""
                yield f"{path} = {text}{where} lies in {place} of this machine; the job runs on another"
                break


def _below(text: Any, places: list[Path]) -> Path | None:
    if not isinstance(text, str) or not text.startswith("/"):
        return None
    return next((place for place in places if text == str(place) or text.startswith(f"{place}/")), None)
