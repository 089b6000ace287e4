"""Puts a job's files on the cluster: whole or not at all, in three round trips at most, a package only once.

In the job's directory, in the order written: the job script (`scripts/`), the batch script, `train.yaml`, `job.yaml`,
`bundle/`, `secrets.env` (0600), `code/`. All of it is made beside the directory, which then gets its name: a directory
that is there is complete.
"""

from __future__ import annotations

import io
import shlex
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.backends.base import Rendering
from nemo_runspec.backends.slurm.cluster.answer import PRELUDE, Section, read_sections
from nemo_runspec.backends.slurm.places import HOME
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import BundleFile, Plan
from nemo_runspec.planning.rename import replace_text
from nemo_runspec.transport.base import Done, Host

_UPLOAD_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known of a login node. `home`, `user`: of whoever jobs are submitted as. `node`: its host name."""

    home: str
    user: str
    node: str


@dataclass(frozen=True, slots=True)
class Found:
    """What lies there already. `package`: the code package; `job`: the whole job directory."""

    cluster: Cluster
    package: bool
    job: bool


@dataclass(frozen=True)
class Cargo:
    """What travels.

    Args:
        texts: path below the job directory → text, the rendered scripts among them.
        bundle: files of the recipe with their contents.
        secrets: by variable.
        archive: the code package as a file of this machine; `digest`: its name there. None and '' without one.
    """

    texts: Mapping[str, str]
    bundle: Mapping[BundleFile, bytes]
    secrets: Mapping[str, str]
    archive: Path | None = None
    digest: str = ""
