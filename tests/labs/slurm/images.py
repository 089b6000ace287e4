"""Container images of a lab: folders that the SPANK plugin (`pyxis/`) makes a root file system from.

An image has this machine's `/usr` and `/etc` below its own files, and nothing else of this machine: what a job needs
from elsewhere must be mounted, as on a real cluster.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

_FOLDERS = ("root", "home", "tmp", "var/tmp", "run", "proc", "sys", "dev", "opt", "mnt", "usr", "etc", "workspace")
_LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64", "lib32": "usr/lib32"}
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LAB_IMAGE": "yes"}
"""What every image sets; a variable of the job's with the same name loses, unless --container-env names it."""


def make_image(
    folder: Path, files: Mapping[str, str] | None = None, environment: Mapping[str, str] | None = None
) -> Path:
    """Makes an image.

    Args:
        folder: where; it must not exist, and its name may end in `.sqsh`.
        files: path in the image → text; executable where the text begins with `#!`.
        environment: what the image sets, besides `ENVIRONMENT`.
    """
    root = folder / "root"
    for name in _FOLDERS:
        (root / name).mkdir(parents=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    for name in ("usr", "etc"):
        (folder / name).mkdir()
    (folder / "usr" / "bin").mkdir()
    (folder / "usr" / "bin" / "python").symlink_to("python3")
    everything = {**ENVIRONMENT, **(environment or {})}
    (folder / "environment").write_text("".join(f"{name}={value}\n" for name, value in everything.items()))
    for path, text in (files or {}).items():
        _write(folder, path.lstrip("/"), text)
    return folder


def compile_plugin(target: Path) -> Path:
    """Compiles the plugin in `pyxis/` (some 0.3 s).

    Raises:
        subprocess.CalledProcessError: it does not compile, or gcc or libslurm-dev is missing.
    """
    sources = sorted((Path(__file__).parent / "pyxis").glob("*.c"))
    flags = ["-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC", "-Wl,-Bsymbolic"]
    subprocess.run(["gcc", *flags, "-o", target, *sources], check=True)
    return target


def _write(folder: Path, path: str, text: str) -> None:
    top = folder if path.startswith(("usr/", "etc/")) else folder / "root"
    file = top / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755 if text.startswith("#!") else 0o644)
