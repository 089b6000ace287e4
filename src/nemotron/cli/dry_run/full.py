"""All of a plan and of what would be sent: every value with its whole source, every text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from nemo_runspec.backends.base import Rendering
from nemo_runspec.plans.model import Plan
from nemo_runspec.profiles.layers import flatten
from nemo_runspec.source import Layer, Source
from nemotron.cli.dry_run import facts, files
from nemotron.cli.dry_run.page import no_renderer
from nemotron.cli.dry_run.rows import PageRow, aligned, labelled
from nemotron.cli.text import paint

_NOT_CHOICES = frozenset({"warnings", "unfilled"})
_EMPTY: tuple[Any, ...] = (None, "", False, 0, (), [], {})


def full(plan: Plan, rendering: Rendering | None, *, saved_to: str | None = None) -> str:
    """Everything. `saved_to`: the file that the caller writes the plan to."""
    sections = [
        facts.title(plan),
        facts.problems(plan),
        _section("run", _run(plan)),
        _section(f"chosen for {plan.executor}", _chosen(plan)),
        _section("config", labelled(flatten(plan.config), plan.sources)),
        _section("environment", _environment(plan)),
        _section("inputs and outputs", _artifacts(plan)),
        facts.build(plan),
        facts.travel(plan),
        facts.cost(plan),
        _texts(plan, rendering),
        [facts.nothing(plan, saved_to)],
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def _section(name: str, rows: list[PageRow]) -> list[str]:
    return [paint(name, "bold"), *aligned(rows)] if rows else []


def _run(plan: Plan) -> list[PageRow]:
    values = flatten(plan.run, "run.")
    return labelled({k: v for k, v in values.items() if not _unset(v, plan.sources.get(k))}, plan.sources)


def _chosen(plan: Plan) -> list[PageRow]:
    """What the backend made of the run section: the partition for this mode, the image, the mounts."""
    return [PageRow(k, v) for k, v in asdict(plan.target).items() if k not in _NOT_CHOICES and v not in _EMPTY]


def _environment(plan: Plan) -> list[PageRow]:
    rows = [PageRow(v.name, v.value, v.source) for v in plan.env]
    return rows + [
        PageRow(s.name, "(secret)", f"{s.origin}: {s.detail}" if s.detail else s.origin) for s in plan.secrets
    ]


def _artifacts(plan: Plan) -> list[PageRow]:
    rows = [PageRow(f"reads {a.name}", a.path or "not named", facts.artifact_note(plan, a)) for a in plan.consumes]
    return rows + [PageRow(f"writes {a.name}", facts.written_to(a), a.type) for a in plan.produces]


def _texts(plan: Plan, rendering: Rendering | None) -> list[str]:
    if rendering is None:
        return no_renderer(plan)
    lines: list[str] = []
    for file in rendering.files:
        lines += [*files.whole(file, rendering), ""]
    if rendering.programs:
        lines += [*files.programs_named(rendering.programs), ""]
    lines += files.started_with(rendering)
    if rendering.holes:
        lines += [
            "",
            "holes, filled when it is submitted; --resolve asks its platform now:",
            *(f"  {hole}" for hole in rendering.holes),
        ]
    return lines


def _unset(value: Any, source: Source | None) -> bool:
    return value in _EMPTY and (source is None or source.layer in (Layer.DEFAULT, Layer.AUTO))
