"""Lays the scores of a chain's models side by side: `report.txt`, `chain.png` and `results.json`."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
WIDEST = 6
"""Scores that stand side by side; of more, each has a line, and the stages stand side by side."""
PANELS, PANELS_IN_A_ROW = 12, 4
NO_SCORES = ("_stderr", "count", "sample_len")
"""Numbers that lm-eval writes beside scores, by what is in their names."""


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
        SettingsError: there is nothing to be told, or a folder holds no results; then nothing is written.
    """
    found = {stage.name: _scores(stage, stage.results) for stage in settings.stages if stage.results is not None}
    if not found:
        raise SettingsError("stages: none of them has results")
    if not _columns(found):
        folders = ", ".join(str(stage.results) for stage in settings.stages if stage.results is not None)
        raise SettingsError(f"stages: no task has a score in {folders}")
    settings.output_dir.mkdir(parents=True, exist_ok=True)
    text = "\n".join(table(found)) + "\n"
    write_text_atomic(settings.output_dir / "report.txt", text)
    _draw(found, settings.output_dir / "chain.png")
    write_text_atomic(settings.output_dir / "results.json", json.dumps({"results": found}, indent=2) + "\n")
    print(f"{text}wrote {settings.output_dir / 'report.txt'}, chain.png, results.json", flush=True)


def table(found: dict[str, Scores]) -> list[str]:
    """The scores, a line for each stage (of many scores: for each score); what no stage has is left out."""
    columns = [*_columns(found), *([TIME] if any(TIME in scores for scores in found.values()) else [])]
    rows = [["stage", *columns]]
    rows += [[stage, *(_shown(name, scores.get(name)) for name in columns)] for stage, scores in found.items()]
    if len(columns) > WIDEST:
        rows = [list(row) for row in zip(*rows, strict=True)]
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
        scores = {name: value for task, held in tasks.items() for name, value in _told(task, held)}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"stages.{stage.name}: {folder} holds no results.json with results: {error}") from error
    seconds = seconds_of(stage.model) if stage.model else None
    return scores if seconds is None else {**scores, TIME: seconds}


def _told(task: str, held: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The scores of a task: those of `COLUMNS` under their names there, of any other under the task's and its own.

    A task is as lm-eval has it, or as NeMo Evaluator's `results.yml`, where scores lie deeper.
    """
    own = {name: metric for name, (its_task, metric) in COLUMNS.items() if its_task == task and metric in held}
    if own:
        yield from ((name, float(held[metric])) for name, metric in own.items())
        return
    for metric, value in held.items():
        if _is_number(value) and not any(word in metric for word in NO_SCORES):
            yield f"{task} {metric.removesuffix(',none')}", float(value)
    found = dict(_deeper(held.get("results", {})))
    yield from ((f"{task} {name}" if name not in task else task, value) for name, value in found.items())


def _deeper(held: object) -> Iterator[tuple[str, float]]:
    """What stands as `scores: {NAME: {value: …}}`, in tasks, groups and metrics."""
    if not isinstance(held, dict):
        return
    scores = held.get("scores")
    for name, score in scores.items() if isinstance(scores, dict) else ():
        if isinstance(score, dict) and _is_number(score.get("value")):
            yield str(name), float(score["value"])
    for key, each in held.items():
        if key != "scores":
            yield from _deeper(each)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _columns(found: dict[str, Scores]) -> list[str]:
    """The names of all scores but the time: those of `COLUMNS` first, then others as they were found."""
    named = dict.fromkeys(name for scores in found.values() for name in scores if name != TIME)
    return [*(name for name in COLUMNS if name in named), *(name for name in named if name not in COLUMNS)]


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if name == TIME else f"{value:.3f}" if value < 100 else f"{value:.0f}"


def _draw(found: dict[str, Scores], path: Path) -> None:
    """Write a PNG with a panel for each column, of many for the first ones; the file appears whole."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = _columns(found)[:PANELS]
    wide = min(len(columns), PANELS_IN_A_ROW)
    high = -(-len(columns) // wide)
    figure, panels = pyplot.subplots(high, wide, figsize=(3.6 * wide, 3.4 * high), layout="constrained", squeeze=False)
    for panel in panels.flat[len(columns) :]:
        panel.set_axis_off()
    for panel, name in zip(panels.flat, columns, strict=False):
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
