"""Remembers which batch scripts NeMo-Run was seen to render alike, since asking it takes two seconds of importing.

What is remembered is a digest of the whole batch script and of every argument of the executor, with the job's name and
place left out, and of the versions of NeMo-Run and of the code that renders here: whatever changes is compared anew.
"""

from __future__ import annotations

import json
import threading
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from nemo_runspec import paths
from nemo_runspec.backends.slurm.arguments import executor_arguments
from nemo_runspec.backends.slurm.render import render_sbatch
from nemo_runspec.planning.model import Plan

_KEPT = 200
"""Digests that are remembered; the oldest are forgotten."""


class Comparison:
    """One submission's comparison with NeMo-Run. The import begins at once, in a thread, where it will be needed."""

    def __init__(self, plan: Plan) -> None:
        self._thread: threading.Thread | None = None
        self._expected = digest_of(plan)
        if not _known(self._expected):
            self._thread = _begin_import(plan)

    def finish(self, plan: Plan) -> None:
        """Compares, unless this very script has been compared before.

        Args:
            plan: with its holes filled.

        Raises:
            UserError: NeMo-Run would submit something else.
        """
        digest = digest_of(plan)
        if _known(self._expected) and _known(digest):
            return
        if self._thread is not None:
            self._thread.join()
        from nemo_runspec.backends.slurm.verify import assert_same

        assert_same(plan)
        for each in {self._expected, digest}:
            _remember(each)


def digest_of(plan: Plan) -> str:
    """What tells this plan's batch script from another's, its name and place aside."""
    arguments = json.dumps(executor_arguments(plan), sort_keys=True, default=str)
    text = "\0".join((version("nemo-run"), _own_code(), arguments, render_sbatch(plan)))
    return sha256(text.replace(plan.name, "NAME").encode("utf-8", "surrogateescape")).hexdigest()


@lru_cache(maxsize=1)
def _own_code() -> str:
    """The modules that render here: a change of theirs is a reason to compare again."""
    digest = sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _folder() -> Path:
    return paths.home() / "cache" / "compared"


def _known(digest: str) -> bool:
    return (_folder() / digest).exists()


def _remember(digest: str) -> None:
    with suppress(OSError):
        paths.private_dir(_folder())
        (_folder() / digest).touch(mode=0o600)
        for old in sorted(_folder().iterdir(), key=lambda file: file.stat().st_mtime)[:-_KEPT]:
            old.unlink(missing_ok=True)


def _begin_import(plan: Plan) -> threading.Thread:
    """What the import raises is raised again by whoever needs it."""

    def load() -> None:
        from nemo_runspec.backends.nemorun import import_nemo_run

        target = plan.target
        with suppress(Exception):
            import_nemo_run(None if target.tunnel == "ssh" else target.remote_job_dir)

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    return thread
