"""Trains with NeMo AutoModel: its own recipe does the work, on the sections of the configuration that are its own.

Read against nemo-automodel 0.7.0 (`recipes/llm/train_ft.py`, `components/checkpoint/checkpointing.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nemo_steps import files, metrics
from nemo_steps.config import Config, ConfigError, need, output_folder

OURS = frozenset({"output_dir", "data", "base", "tokenizer"})
"""Sections that are not AutoModel's."""

WEIGHTS = Path("model/consolidated")
ADAPTER = Path("model")


def train(config: Config, result: Path) -> None:
    """Train as the configuration says, and put what was trained into the output folder.

    Args:
        config: AutoModel's sections, and `output_dir`.
        result: which folder of the last checkpoint is what the step makes: `WEIGHTS` or `ADAPTER`.
    """
    from nemo_automodel.components.config.loader import ConfigNode

    from nemo_steps.cpu import use_cpu_where_no_gpu_is

    output = output_folder(config)
    use_cpu_where_no_gpu_is()
    recipe = _recipe()(ConfigNode({key: value for key, value in config.items() if key not in OURS}))
    recipe.setup()
    recipe.run_train_validation_loop()
    if recipe.dist_env.is_main:
        publish(Path(need(config, "checkpoint.checkpoint_dir", str)), result, output)


def publish(checkpoints: Path, result: Path, output: Path) -> None:
    """Link the files of the last checkpoint's model into the output folder; nothing is copied on one file system.

    Raises:
        ConfigError: there is no such checkpoint.
    """
    found = sorted(checkpoints.glob("epoch_*_step_*"), key=_step_of)
    folder = found[-1] / result if found else None
    if folder is None or not folder.is_dir():
        raise ConfigError(f"{checkpoints} holds no checkpoint with {result}; see checkpoint.enabled, save_consolidated")
    for file in sorted(folder.iterdir()):
        if file.is_file():
            files.link(file, output / file.name)
    print(f"wrote {output}")


def _recipe() -> Any:
    from nemo_automodel.recipes.llm.train_ft import TrainFinetuneRecipeForNextTokenPrediction

    class Recipe(TrainFinetuneRecipeForNextTokenPrediction):  # type: ignore[misc]  # AutoModel ships no types
        """AutoModel's recipe, which also tells the job's supervisor how it goes."""

        def log_train_metrics(self, log_data: Any) -> None:
            """Append the loss and the rate."""
            super().log_train_metrics(log_data)
            if self.dist_env.is_main:
                told = {"loss": log_data.metrics["loss"], "tokens_per_second": log_data.metrics["tps"]}
                metrics.append(step=log_data.step + 1, total_steps=self.step_scheduler.max_steps, **told)

        def log_val_metrics(self, val_name: str, log_data: Any, metric_logger: Any = None) -> None:
            """Append the validation loss."""
            super().log_val_metrics(val_name, log_data, metric_logger)
            if self.dist_env.is_main and log_data is not None:
                metrics.append(step=log_data.step + 1, val_loss=log_data.metrics["val_loss"])

    return Recipe


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("_")[2])
