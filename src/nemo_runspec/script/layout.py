"""The layout of a job's directory: the same names on every backend."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JobLayout:
    """Paths inside one job directory, as the job itself sees them.

    Args:
        root: the job directory: a host path for local jobs, `/nemo_run` where NeMo-Run mounts it.
    """

    root: str

    @property
    def job_script(self) -> str:
        """The script every node runs."""
        return f"{self.root}/job.sh"

    @property
    def bundle(self) -> str:
        """The recipe's own files."""
        return f"{self.root}/bundle"

    @property
    def code(self) -> str:
        """What the packager made of the user's repository."""
        return f"{self.root}/code"

    @property
    def config(self) -> str:
        """The composed configuration the script reads."""
        return f"{self.root}/train.yaml"

    @property
    def secrets(self) -> str:
        """A 0600 file of exports, read once and removed; absent where secrets travel in the environment."""
        return f"{self.root}/secrets.env"

    @property
    def status(self) -> str:
        """Exit markers: one file per node and one per rank."""
        return f"{self.root}/status"

    @property
    def logs(self) -> str:
        """Log files."""
        return f"{self.root}/logs"

    @property
    def metrics(self) -> str:
        """JSON lines the recipe appends: step, total_steps, loss, val_loss, tokens_per_second."""
        return f"{self.root}/metrics.jsonl"
