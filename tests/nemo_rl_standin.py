"""A stand-in for NeMo-RL: a script that reads its configuration with OmegaConf, and says what it was told."""

from __future__ import annotations

import json
from pathlib import Path

GRPO = ("nemo_rl", "grpo")
NAMED = ("script_path=examples/run_grpo.py", "config_path=examples/configs/grpo.yaml")

SCRIPT = """\
import argparse, json, os
from omegaconf import OmegaConf

parser = argparse.ArgumentParser()
parser.add_argument("--config")
given, overrides = parser.parse_known_args()
read = OmegaConf.merge(OmegaConf.load(given.config), OmegaConf.from_dotlist(overrides))
told = {"config": OmegaConf.to_container(read), "at": os.getcwd(), "token": bool(os.environ.get("HF_TOKEN"))}
print("told " + json.dumps(told))
raise SystemExit(read.ends_with)
"""
CONFIG = """\
cluster: {num_nodes: 1, gpus_per_node: 8}
checkpointing: {enabled: true, checkpoint_dir: results/grpo}
grpo: {max_num_steps: 500}
ends_with: 0
"""


def nemo_rl(folder: Path, script: str = SCRIPT) -> Path:
    """A folder in the place of NeMo-RL's source."""
    files = {
        "pyproject.toml": '[project]\nname = "nemo-rl"\nversion = "0"\n',
        "examples/run_grpo.py": script,
        "examples/configs/grpo.yaml": CONFIG,
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def told(text: str) -> dict[str, object]:
    """What the script says that it was told."""
    (line,) = [line.partition("told ")[2] for line in text.splitlines() if "told {" in line]
    return json.loads(line)
