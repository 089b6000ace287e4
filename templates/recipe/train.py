# /// script
# requires-python = ">=3.9"
# dependencies = []
#
# [tool.runspec]
# schema = "1"
# name = "@NAME@"
# description = "Fits a line to noisy points."
# kind = "train"
# @IMAGE@
#
# [tool.runspec.run]
# launch = "direct"
# cmd = "python3 {script} --config {config}"
#
# [[tool.runspec.parameters]]
# name = "steps"
# description = "Steps of gradient descent."
# ///
"""A recipe to begin with: it reads its config, tells its loss step by step, and leaves a result.

This config is one level deep, so that any Python reads it. Once yours is deeper, add "pyyaml" to the dependencies.
"""

import argparse
import json
import os
import random
from pathlib import Path


def main() -> None:
    """Reads the config, fits, and writes what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    config = read_config(parser.parse_args().config)
    result = fit(config["steps"], config["lr"], config["seed"])
    folder = Path(config["output_dir"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(result) + "\n")
    print(f"y = {result['slope']:.2f} x + {result['offset']:.2f}, loss {result['loss']:.4f}: {folder}/result.json")


def fit(steps: int, lr: float, seed: int) -> dict:
    """Gradient descent, a line of metrics for every step."""
    random.seed(seed)
    points = [(x, 3 * x + 1 + random.gauss(0, 0.1)) for x in (n / 50 for n in range(100))]
    slope = offset = loss = 0.0
    with Path(os.environ.get("NEMOTRON_METRICS_FILE", os.devnull)).open("a") as metrics:
        for step in range(1, steps + 1):
            errors = [(x, slope * x + offset - y) for x, y in points]
            loss = sum(error * error for _, error in errors) / len(errors)
            slope -= lr * 2 * sum(x * error for x, error in errors) / len(errors)
            offset -= lr * 2 * sum(error for _, error in errors) / len(errors)
            print(json.dumps({"step": step, "total_steps": steps, "loss": loss}), file=metrics, flush=True)
    return {"slope": slope, "offset": offset, "loss": loss}


def read_config(path: Path) -> dict:
    """`key: value` lines: numbers as numbers, all else as text."""
    config = {}
    for line in path.read_text().splitlines():
        key, _, value = line.partition(": ")
        try:
            config[key] = json.loads(value)
        except ValueError:
            config[key] = value.strip("'\"")
    return config


if __name__ == "__main__":
    main()
