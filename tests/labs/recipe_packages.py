"""What `nano3/pretrain` and its data preparation need, as a folder for `PYTHONPATH` of a Python 3.11: that of images.

Tests that run the recipe without a container use the same folder, where their Python is of that version too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from labs.cache import CACHE
from nemo_runspec.uv_process import uv_environment

PYTHON = "/usr/bin/python3"
"""That of the labs' containers: they see this machine's programs."""
_NOT_IMPORTED = r"(.*/tests?/|transformers/models/(?!auto/|nemotron_h/)\w+/|ray/(rllib|tune|llm)/)"
"""More than half of what is installed: models of others, tests, parts of Ray."""
_NANO3 = Path(__file__).resolve().parents[2] / "recipes" / "nano3"
_SCRIPTS = (_NANO3 / "pretrain" / "train.py", *sorted((_NANO3 / "data" / "prep").glob("*/data_prep.py")))


def recipe_packages() -> Path:
    """The folder; made once, kept in the tests' cache.

    Containers cannot write into it, so it is compiled beforehand, by the Python that they have: else each process of
    each job compiles torch and transformers for itself, which is half of what a short training takes.
    """
    header = "".join(script.read_text(encoding="utf-8").partition("# [tool.runspec]")[0] for script in _SCRIPTS)
    made = CACHE / f"compiled-packages-{hashlib.sha256(header.encode()).hexdigest()[:12]}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "container-packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (made / "done").exists():
            uv = Path(sys.executable).with_name("uv")
            environment = uv_environment(os.environ)
            build_of_torch = [] if "UV_FIND_LINKS" in environment else ["--torch-backend=cpu"]
            words = ["pip", "install", "--quiet", "--python-version=3.11", f"--target={made}", *build_of_torch]
            wanted = [word for script in _SCRIPTS for word in ("--requirements", str(script))]
            subprocess.run([uv, *words, *wanted], env=environment, check=True)
            # Files that no Python of this version can read fail, as they do in any installation; nothing imports them.
            subprocess.run(
                [PYTHON, "-m", "compileall", "-qq", "-j", "0", "-x", f"{re.escape(str(made))}/{_NOT_IMPORTED}", made],
                check=False,
            )
            (made / "done").touch()
    return made


def linked(source: Path, target: Path) -> Path:
    """The same files in another folder, such as a volume of a lab: as links to them where the file system has those."""
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except shutil.Error:
        shutil.copytree(source, target, dirs_exist_ok=True)
    return target
