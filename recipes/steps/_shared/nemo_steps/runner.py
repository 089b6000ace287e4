"""Starts a step: reads `--config FILE`, calls the step, and turns a mistake in the configuration into exit code 2."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from pathlib import Path

from nemo_steps.config import Config, ConfigError, read


def start(description: str, step: Callable[[Config], None], *, alone: bool = True) -> int:
    """Run a step on the configuration that the command line names.

    Args:
        description: what `--help` says.
        step: called with the configuration, without its `run` section.
        alone: whether the step works in one process. Several would each do all of it, and write into one folder.

    Returns:
        0, or 2 for a configuration that its author must mend. Any other failure is an exception that ends the process.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", required=True, type=Path, help="plain YAML, every interpolation resolved")
    try:
        if alone:
            _refuse_others()
        step(read(parser.parse_args().config))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        gc.freeze()  # Python looks through everything as it ends, several times
    return 0


def _refuse_others() -> None:
    count = int(os.environ.get("WORLD_SIZE") or 1)
    if count > 1:
        advice = "run.env.nodes=1 run.env.nproc_per_node=1"
        raise ConfigError(f"this step works in one process, and the job has {count}: {advice}")
