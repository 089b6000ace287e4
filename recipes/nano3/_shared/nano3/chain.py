"""Lays the scores of a chain's models side by side: `report.txt`, `chain.png` and `results.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nano3.files import write_text_atomic
from nano3.settings import SettingsError

Scores = dict[str, float]

COLUMNS = {
    "exact match": ("questions", "exact_match,none"),
    "perplexity of answers": ("questions", "perplexity,none"),
    "perplexity of text": ("text", "perplexity,none"),
}
"""What is told of a stage → the task and the metric of its results, under lm-eval's names."""

TIME = "seconds of training"


@dataclass(frozen=True)
class Stage:
    """A model of the chain: folders of its results and of itself; None where there are none."""

    name: str
    results: Path | None = None
    model: Path | None = None


@dataclass(frozen=True)
class ReportSettings:
    """All of the configuration but its `run:` section."""

    output_dir: Path
    stages: list[Stage] = field(default_factory=list)


def write_report(settings: ReportSettings) -> None:
    """Write the report and print its table.

    Raises:
        SettingsError: there is nothing to be told, or a folder holds no results.
    """
    found = {stage.name: _scores(stage, stage.results) for stage in settings.stages if stage.results is not None}
    if not found:
        raise SettingsError("stages: none of them has results")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    text = "\n".join(table(found)) + "\n"
    write_text_atomic(settings.output_dir / "report.txt", text)
    _draw(found, settings.output_dir / "chain.png")
    write_text_atomic(settings.output_dir / "results.json", json.dumps({"results": found}, indent=2) + "\n")
    print(f"{text}wrote {settings.output_dir / 'report.txt'}, chain.png, results.json", flush=True)


def table(found: dict[str, Scores]) -> list[str]:
    """The scores, a line for each stage; columns that no stage has are left out."""
    columns = [name for name in (*COLUMNS, TIME) if any(name in scores for scores in found.values())]
    rows = [["stage", *columns]]
    rows += [[stage, *(_shown(name, scores.get(name)) for name in columns)] for stage, scores in found.items()]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lined = (
        [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))] for row in rows
    )
    return ["  ".join(cells).rstrip() for cells in lined]


def seconds_of(model: Path) -> float | None:
    """How long a model was trained: between its first and its last record; None where it has left none."""
    try:
        lines = (model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        times = [float(json.loads(line)["time"]) for line in lines]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return round(times[-1] - times[0], 1) if times else None


def _scores(stage: Stage, folder: Path) -> Scores:
    try:
        tasks: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"]
        told = {name: tasks.get(task, {}).get(metric) for name, (task, metric) in COLUMNS.items()}
        scores = {name: float(value) for name, value in told.items() if value is not None}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"stages.{stage.name}: {folder} holds no results.json with results: {error}") from error
    seconds = seconds_of(stage.model) if stage.model else None
    return scores if seconds is None else {**scores, TIME: seconds}


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if name == TIME else f"{value:.3f}" if value < 100 else f"{value:.0f}"


def _draw(found: dict[str, Scores], path: Path) -> None:
    """Write a PNG with a panel for each column; the file appears whole."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns: Sequence[str] = [name for name in COLUMNS if any(name in scores for scores in found.values())]
    figure, panels = pyplot.subplots(
        1, len(columns), figsize=(3.6 * len(columns), 3.4), layout="constrained", squeeze=False
    )
    for panel, name in zip(panels[0], columns, strict=True):
        stages = [stage for stage, scores in found.items() if name in scores]
        bars = panel.bar(stages, [found[stage][name] for stage in stages], color="#76b900", width=0.6)
        panel.bar_label(bars, [_shown(name, found[stage][name]) for stage in stages], fontsize=9, padding=2)
        panel.set(title=name, ylim=(0, 1) if name == "exact match" else None)
        panel.margins(y=0.15)
        panel.spines[["top", "right"]].set_visible(False)
    temporary = path.with_name(f".partial-{path.name}")
    figure.savefig(temporary, dpi=130, format="png")
    pyplot.close(figure)
    temporary.replace(path)
