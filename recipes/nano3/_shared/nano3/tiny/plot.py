"""Draws the losses of a run: training, validation, and the lines that they are held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

from nano3.metrics import Record

matplotlib.use("Agg")

from matplotlib import pyplot


def draw_losses(history: Sequence[Record], yardsticks: Mapping[str, float], title: str, path: Path) -> None:
    """Write a PNG with a dashed line for each of the `yardsticks`; the file appears whole."""
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5), layout="constrained")
    for key, label, style in (("loss", "training", "-"), ("val_loss", "validation", "o-")):
        points = [(record["step"], record[key]) for record in history if key in record]
        if points:
            axes.plot(*zip(*points, strict=True), style, label=f"{label} loss", linewidth=1.4, markersize=4)
        if points and key == "val_loss":
            axes.annotate(f"{points[-1][1]:.2f}", points[-1], textcoords="offset points", xytext=(-4, 8), fontsize=9)
    for name, value in yardsticks.items():
        axes.axhline(value, color="grey", linestyle="--", linewidth=1)
        axes.annotate(
            f"{name} of the validation data: {value:.2f}",
            (0.99, value),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            xytext=(0, 4),
            ha="right",
            fontsize=8,
            color="dimgrey",
        )
    axes.set(xlabel="step", ylabel="nats per token", title=title, ylim=(0, None))
    axes.grid(alpha=0.25)
    axes.legend(loc="center right", frameon=False)
    temporary = path.with_name(f".partial-{path.name}")
    figure.savefig(temporary, dpi=130, format="png")
    pyplot.close(figure)
    temporary.replace(path)
