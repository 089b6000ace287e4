"""The image that a job has built, as the job itself has written it down (`backends/docker/image.py`).

`name` is the image with its tag, `id` the engine's own, `digest` what its registry has it as (`NAME@sha256:…`, nothing
before it is there), `bases` what it was built from: `named`, `id` and `digests` of each.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_runspec.regular import read_json

FILE = "image"
"""Its record among those of the job, in `status/`."""
_TEXTS = ("name", "id", "digest", "recipe", "platform")


def image_in(folder: Path) -> dict[str, Any]:
    """The image of a job whose directory is on this machine; empty where it has told of none."""
    try:
        found = read_json(folder / "status" / FILE)
        bases = [_base(each) for each in found.get("bases", ())]
        return {**{key: str(found[key]) for key in _TEXTS if found.get(key)}, "bases": bases}
    except (OSError, ValueError, AttributeError, TypeError, LookupError):
        return {}


def _base(table: Any) -> dict[str, Any]:
    return {"named": str(table["named"]), "id": str(table["id"]), "digests": [str(one) for one in table["digests"]]}
