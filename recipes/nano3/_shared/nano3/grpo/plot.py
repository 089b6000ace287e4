"""Draws the rewards of a run: of each step's answers, and on held-out questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

from nano3.metrics import Record

matplotlib.use("Agg")

from matplotlib import pyplot

_CURVES = (
    ("reward", "training, drawn answers", "-", 0.6),
    ("val_reward", "held out, drawn answers", "o-", 1.0),
    ("val_exact_match", "held out, likeliest answers", "s--", 1.0),
)


def draw_rewards(history: Sequence[Record], path: Path) -> None:
    """Write a PNG; the file appears whole."""
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for key, label, style, alpha in _CURVES:
        points = [(record["step"], record[key]) for record in history if key in record]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=label, linewidth=1.4, markersize=4, alpha=alpha)
    axes.set(xlabel="step", ylabel="mean reward", title="nano3 reinforcement learning (GRPO)", ylim=(0, 1))
    axes.grid(alpha=0.25)
    axes.legend(loc="lower right", frameon=False)
    temporary = path.with_name(f".partial-{path.name}")
    figure.savefig(temporary, dpi=130, format="png")
    pyplot.close(figure)
    temporary.replace(path)
