"""The context in which a plan is made: the folder that all paths of its package are relative to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from nemo_runspec.plans.model import Bundle


@dataclass(frozen=True, slots=True)
class ProjectContext:
    """The place where a plan is made.

    Args:
        folder: the working directory of the call.
        env_file, config: what the plan is made of. They are read here, so what they say now holds, committed or not.
        bundle: what travels in any case, as it is now.
    """

    folder: Path
    env_file: Path | None = None
    config: Path | None = None
    bundle: Bundle = field(default_factory=Bundle)

    def project_root(self, repository: Path | None) -> Path:
        """The repository around the working directory, else the folder of the `env.toml` above it, else itself."""
        if repository is not None:
            return repository
        folder = self.folder.absolute()
        project = self.env_file.absolute().parent if self.env_file else folder
        # One that NEMOTRON_ENV_FILE names may lie anywhere, and says nothing of where the project is then.
        return project if folder.is_relative_to(project) else folder
