"""The store of artifacts that is meant where no profile is named. Apart, as listing it takes nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.artifacts.local_store import LocalStorage
from nemo_runspec.artifacts.registry import ArtifactStorage
from nemo_runspec.artifacts.store import BUCKETS, refuse_address
from nemo_runspec.paths import expand_user, run_dir
from nemo_runspec.profiles.load import env_file_in_force
from nemo_runspec.profiles.profile import system_section


def storage_at(root: str | None) -> ArtifactStorage:
    """The store of that folder or URL, by default what `[artifacts]` says, else that of jobs of this machine.

    Raises:
        UserError: the env file's section is not as it should be; or W&B, which it names, cannot be asked.
    """
    file = env_file_in_force()
    section = system_section(file, "artifacts") if file else {}
    named = root or str(section.get("root") or "")
    if file is None or root or section.get("backend") != "wandb":
        return _store_at(named, section)
    from nemo_runspec.remote.wandb_store import known_at

    return known_at(section, system_section(file, "wandb"), lambda: _store_at(named, section))


def _store_at(named: str, section: Mapping[str, Any]) -> ArtifactStorage:
    refuse_address(named)
    if named.startswith(BUCKETS):
        from nemo_runspec.remote.bucket_store import BucketStorage

        return BucketStorage(named, str(section.get("endpoint") or ""), str(section.get("region") or ""))
    return LocalStorage(str(expand_user(named, "root").absolute()) if named else f"{run_dir()}/artifacts")
