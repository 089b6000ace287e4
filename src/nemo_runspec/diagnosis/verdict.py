"""Why a job failed, in a form that can be shown, written down and acted upon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nemo_runspec.diagnosis.kinds import Fault, kind_of


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job failed, for a person.

    Args:
        kind: a word, such as `out of memory`, `time limit`, `user code`; '' where nothing is known.
        what: one line.
        evidence: the line of a log, or of the platform, that shows it.
        remedy: what to do.
        platform: what the platform itself makes of it, shown beside: `name` of the platform, and as far as it says so
            `err_class` (such as ERR_PROGRAM), `suggestion` (what to do), `log_streams` (lines of logs, in any shape).
        nodes: the machines that are at fault, as far as they are known.
    """

    kind: str
    what: str
    evidence: str = ""
    remedy: str = ""
    platform: Mapping[str, Any] = field(default_factory=dict)
    nodes: Sequence[str] = ()

    def _repr_html_(self) -> str:
        from nemo_runspec.html import facts_table

        facts = {"what": self.what, "evidence": self.evidence, "remedy": self.remedy, "nodes": ", ".join(self.nodes)}
        return facts_table(self.kind or "not known", facts.items())

    @property
    def fault(self) -> Fault:
        """Whose fault it is."""
        return kind_of(self.kind).fault

    @property
    def retry(self) -> bool:
        """True if another attempt may succeed though nothing was changed."""
        return kind_of(self.kind).retry
