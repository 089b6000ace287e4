"""What a login node is asked before a job: one script, one answer."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from nemo_runspec.backends.slurm.cluster.answer import FIELD, PRELUDE, Section, read_sections
from nemo_runspec.backends.slurm.places import HOME, run_dir
from nemo_runspec.backends.slurm.preflight.draft import Draft, drafts_of
from nemo_runspec.backends.slurm.preflight.registry import ACCEPT, Image, image_of
from nemo_runspec.backends.slurm.words import shell_word

NEEDED = (
    "bash", "tar", "gzip", "timeout", "stat", "sed", "grep", "awk", "tail", "head", "find", "mv", "mkdir", "rm", "id",
)  # fmt: skip
"""Programs that our scripts use on a login node. Nothing of ours uses rsync, git or python there."""

SLURM = ("sbatch", "squeue", "scancel", "sinfo", "scontrol")
"""Slurm's, without which no job is submitted and followed there. `srun` runs in the job."""

USEFUL = ("sacct", "sacctmgr", "srun", "flock", "curl", "enroot", "quota", "lfs", "python")

SECONDS = 10
"""Each question's own limit, in seconds."""

TIMEOUT = 180.0


@dataclass(frozen=True)
class Asked:
    """What is asked of a login node.

    Args:
        folder: `remote_job_dir`; may begin with the hole `HOME`.
        image: the profile's, None without one. `mounts`: sources as the profile writes them.
    """

    folder: str
    drafts: tuple[Draft, ...]
    mounts: tuple[str, ...] = ()
    image: Image | None = None
    account: str = ""
    qos: str = ""

    def script(self, name: str = "ask.sh", *more: str) -> str:
        """A script of this folder with all it needs. `more`: further lines before it."""
        return f"{PRELUDE}\n{self.text(name, *more)}"

    def text(self, name: str, *more: str) -> str:
        """The same without the prelude."""
        return "\n".join((*self._settings(), *more, _program("functions.sh"), _program(name)))

    def _settings(self) -> Iterable[str]:
        drafts = [word for d in self.drafts for word in (d.role, d.script, d.unbilled)]
        image = self.image
        words = {
            "seconds": str(SECONDS),
            "field": FIELD,
            "folder": self.folder,
            "image_path": shell_word(image.path) if image and image.path else "",
            "registry": image.url if image else "",
            "scope": image.scope if image else "",
            "accept": ACCEPT,
            "account": self.account,
            "qos": self.qos,
        }
        yield from (f"{name}={shlex.quote(value)}" for name, value in words.items())
        yield f'folder=${{folder//{HOME}/"$HOME"}}'
        yield f"tools=({shlex.join((*NEEDED, *SLURM, *USEFUL))})"
        yield f"drafts=({shlex.join(drafts)})"
        sources = shlex.join(map(shell_word, self.mounts))
        yield f"sources=({sources})"
        yield f'sources=("${{sources[@]//{HOME}/$HOME}}")'


@dataclass(frozen=True)
class Answer:
    """What the login node said, by section. `began`, `ended`: seconds since 1970 when it was asked, by our clock."""

    sections: Mapping[str, Section]
    began: float = 0.0
    ended: float = 0.0
    empty: Section = field(default_factory=lambda: Section("", 1))

    def __getitem__(self, name: str) -> Section:
        """The section, an empty one with exit status 1 where nothing of it was said."""
        return self.sections.get(name, self.empty)

    def __contains__(self, name: str) -> bool:
        """True where it was asked."""
        return name in self.sections

    def row(self, name: str) -> list[str]:
        """The first row of a section."""
        return next(iter(self[name].rows), [])

    def path_of(self, tool: str) -> str:
        """Where a program is there; '' where it is not."""
        return next((row[1] for row in self["tools"].rows if row[0] == tool), "")

    def column(self, name: str, number: int) -> list[str]:
        """The values of a column, each once."""
        return list(dict.fromkeys(row[number] for row in self[name].rows if len(row) > number and row[number]))


def answer_of(text: str, began: float = 0.0, ended: float = 0.0) -> Answer:
    """An answer, out of what the script wrote."""
    return Answer({section.name: section for section in read_sections(text)}, began, ended)


def asked_of(env: Mapping[str, Any]) -> Asked:
    """What there is to ask about a profile."""
    image = env.get("container_image")
    account, qos = (str(env.get(key) or "") for key in ("account", "qos"))
    mounts = sources(env.get("mounts") or ())
    return Asked(run_dir(env), drafts_of(env), mounts, image_of(str(image)) if image else None, account, qos)


def sources(mounts: Sequence[Any]) -> tuple[str, ...]:
    """Where mounts come from, each once. What lies in the job's own directory is not there yet, nor is a clone."""
    words = [str(mount).split(":")[0] for mount in mounts if "auto_mount:" not in str(mount)]
    return tuple(dict.fromkeys(word for word in words if not re.match(r"/\$nemo_run\b", word)))


@lru_cache(maxsize=4)
def _program(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
