"""What the NeMo-Run executors of all backends have in common: how it is imported, packagers, the environment.

Facts about NeMo-Run in this module were seen in 0.11.1.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_runspec import paths
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Package, Plan


def import_nemo_run(home: str | None = None) -> Any:
    """NeMo-Run, imported (about three seconds).

    It runs `git rev-parse` for its own version and reads `NEMORUN_HOME` once, both while it is imported; the second
    is set here unless the user did. It must not hold `/nemo_run`, which NeMo-Run replaces in jobs without a container.

    Args:
        home: what `NEMORUN_HOME` should be; by default a folder of nemotron's own.
    """
    os.environ.setdefault("NO_VCS_VERSION", "1")
    os.environ.setdefault("NEMORUN_HOME", home or str(paths.home() / "experiments"))
    import nemo_run

    return nemo_run


def make_packager(package: Package) -> Any:
    """The NeMo-Run packager of a plan's code package.

    Raises:
        UserError: options that packager does not have, or without those it needs.
    """
    options = {key.removeprefix("packager_"): value for key, value in package.options.items()}
    return _packager(package.kind, options, Path(package.root or "."), "packager")


def plain_environment(plan: Plan) -> dict[str, str]:
    """The plan's variables for executors that hand them over as data. Secrets are not among them."""
    return {variable.name: variable.value for variable in plan.env}


def shell_environment(plan: Plan) -> dict[str, str]:
    """The plan's variables for executors that write `export NAME=value`: quoted, because NeMo-Run quotes nothing.

    Raises:
        UserError: a name that NeMo-Run would change, as it writes all names in capitals.
    """
    for variable in plan.env:
        if variable.name != variable.name.upper():
            raise UserError(
                f"NeMo-Run would export the variable {variable.name} as {variable.name.upper()}",
                where=variable.source,
                remedy="set it in the script, or let nemotron run the script",
            )
    return {variable.name: shlex.quote(variable.value) for variable in plan.env}


def need(secrets: Mapping[str, str] | None, plan: Plan, key: str) -> str:
    """A credential of the profile, which is no part of a plan.

    Raises:
        UserError: it was not given.
    """
    value = (secrets or {}).get(key)
    if not value:
        raise UserError(
            f"executor '{plan.executor}' needs {key}, whose value no plan holds",
            where=plan.env_file,
            remedy=f'set {key} = "${{oc.env:…}}" in the profile',
        )
    return value


def _packager(kind: str, options: Mapping[str, Any], root: Path, key: str) -> Any:
    makers = {"none": _no_packager, "git": _git_packager, "pattern": _pattern_packager, "hybrid": _hybrid_packager}
    if kind not in makers:
        raise UserError(f"{key} must be one of {', '.join(makers)}, not {kind!r}")
    return makers[kind](options, root, key)


def _no_packager(options: Mapping[str, Any], root: Path, key: str) -> Any:
    from nemo_run import Packager

    return Packager()


def _git_packager(options: Mapping[str, Any], root: Path, key: str) -> Any:
    from nemo_run import GitArchivePackager

    patterns, folders = _patterns(options, root, key) if options.get("include_pattern") else ("", "")
    return GitArchivePackager(
        basepath=str(root),
        subpath=str(options.get("subpath") or ""),
        include_submodules=bool(options.get("include_submodules", True)),
        include_pattern=patterns,
        include_pattern_relative_path=folders,
    )


def _pattern_packager(options: Mapping[str, Any], root: Path, key: str) -> Any:
    from nemo_run import PatternPackager

    if not options.get("include_pattern"):
        raise UserError(
            f'{key} = "pattern" needs packager_include_pattern', remedy='packager_include_pattern = "src/*.py"'
        )
    patterns, folders = _patterns(options, root, key)
    return PatternPackager(include_pattern=patterns, relative_path=folders)


def _hybrid_packager(options: Mapping[str, Any], root: Path, key: str) -> Any:
    from nemo_run import HybridPackager

    parts = options.get("sub_packagers") or {}
    if not parts or not all(isinstance(part, dict) for part in parts.values()):
        raise UserError(
            f'{key} = "hybrid" needs packager_sub_packagers, a table of tables',
            remedy='[my-profile.packager_sub_packagers] code = { packager = "git", subpath = "src" }',
        )
    made = {
        folder: _packager(
            str(part.get("packager", "pattern")),
            {name.removeprefix("packager_"): value for name, value in part.items()},
            root,
            f"packager_sub_packagers.{folder}.packager",
        )
        for folder, part in parts.items()
    }
    return HybridPackager(sub_packagers=made, extract_at_root=bool(options.get("extract_at_root")))


def _patterns(options: Mapping[str, Any], root: Path, key: str) -> tuple[list[str], list[str]]:
    """Patterns and their folders as lists of one length and absolute, as NeMo-Run's `find` and `tar` want them."""
    patterns = _listed(options["include_pattern"])
    folders = _listed(options.get("relative_path") or ".")
    if len(folders) == 1:
        folders = folders * len(patterns)
    if len(folders) != len(patterns):
        raise UserError(
            f"{key}: {len(patterns)} patterns but {len(folders)} folders they are relative to",
            remedy="give packager_relative_path once, or once for each packager_include_pattern",
        )
    absolute = [os.path.normpath(root / folder) for folder in folders]
    return [str(Path(folder) / pattern) for pattern, folder in zip(patterns, absolute, strict=True)], absolute


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value]
