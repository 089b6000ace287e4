"""What a dry run is measured against: Typer and Hydra imported, and the same YAML composed by Hydra's own API."""

from __future__ import annotations

import hydra
import typer
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from nemo_runspec.catalog import builtin_root

folder = builtin_root() / "nano3" / "pretrain" / "config"
with initialize_config_dir(config_dir=str(folder), version_base=None):
    print(OmegaConf.to_yaml(compose(config_name="tiny")))
print(typer.__version__, hydra.__version__)
