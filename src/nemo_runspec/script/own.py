"""Where a script of the user's own lies inside the code package."""

from __future__ import annotations

import os
from pathlib import Path

from nemo_runspec.packaging.places import places_in_package
from nemo_runspec.planning.model import Package


def folders_in_package(package: Package, script: str) -> tuple[str, ...]:
    """The folder of a script, as paths inside the package; none where what is packaged does not reach it."""
    return places_in_package(package, Path(os.path.realpath(script)).parent)
