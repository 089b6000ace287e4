"""A folder to be packaged, and what its archive holds."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

from support import git

from nemo_runspec.packaging.pack import Packed, pack, unpack
from nemo_runspec.packaging.project_context import ProjectContext
from nemo_runspec.packaging.summary import summarise_package
from nemo_runspec.plans.model import Package

ODD_NAMES = (
    "with space.txt", "qu'o\"te.txt", "new\nline.txt", "ünï.txt", "-dash.txt", "--prefix=x", "a$b`c.txt", "*?[x].txt",
)  # fmt: skip


class Packing:
    """A folder to be packaged and everything that can be asked about that."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch

    def write(self, name: str, text: str | bytes = "x") -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def git(self, *words: str) -> str:
        return git(self.folder, *words)

    def commit(self, message: str = "next") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", f"--message={message}")
        return self.git("rev-parse", "HEAD").strip()

    def plan(self, folder: Path | None = None, **options: object) -> Package:
        kind = options.pop("packager", "git")
        env = {k if k == "dirty" else f"packager_{k}": v for k, v in options.items()}
        return summarise_package({"packager": kind, **env}, "slurm", ProjectContext(folder or self.folder))

    def pack(self, **options: object) -> Packed:
        return pack(self.plan(**options), lambda line: None)

    def names(self, **options: object) -> set[str]:
        return set(self.unpacked(**options))

    def unpacked(self, **options: object) -> dict[str, str]:
        """Path → content, or `-> target`, of a package after it was packed and unpacked."""
        return self.opened(self.pack(**options))

    def opened(self, packed: Packed) -> dict[str, str]:
        assert packed.archive is not None
        folder = self.scratch / f"opened-{len(list(self.scratch.iterdir()))}"
        unpack(packed.archive, folder)
        return tree_of(folder)


def tree_of(folder: Path) -> dict[str, str]:
    """Path → content of every file, `-> target` of every link."""
    found = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"  # noqa: PTH115
        elif path.is_file():
            found[name] = path.read_bytes().decode("utf-8", "surrogateescape")
    return found


def members(archive: Path) -> set[str]:
    """Files and links of an archive."""
    with tarfile.open(archive) as tar:
        return {os.path.normpath(m.name) for m in tar if m.isfile() or m.issym()}
