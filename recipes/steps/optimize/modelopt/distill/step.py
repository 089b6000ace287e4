# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "accelerate==1.15.0",
#   "jinja2==3.1.6",
#   "nvidia-modelopt==0.47.0",
#   "pyyaml==6.0.3",
#   "requests==2.34.2",
#   "torch==2.13.0",
#   "transformers==5.23.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/optimize/modelopt/distill"
# description = "Train a small model to answer as a larger one does, with Model Optimizer."
# kind = "train"
# tags = ["modelopt", "distill"]
# image = "nvcr.io/nvidia/nemo:26.04"
# download = "about 1.1 GB with the CPU build of torch; several GB with the CUDA build"
#
# [tool.runspec.run]
# launch = "torchrun"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 8
#
# [[tool.runspec.consumes]]
# name = "teacher"
# type = "checkpoint_hf"
# description = "The model to learn from."
#
# [[tool.runspec.consumes]]
# name = "student"
# type = "checkpoint_hf"
# description = "The model that learns; a smaller one of the same kind is made where none is given."
# required = false
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "training_jsonl"
# description = "Text or conversations to learn on; the examples that travel, where none is given."
# required = false
#
# [[tool.runspec.produces]]
# name = "model"
# type = "checkpoint_hf"
# description = "The student after training, with its tokenizer, as transformers loads it."
#
# [[tool.runspec.parameters]]
# name = "train.max_steps"
# description = "How many optimizer steps."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "train.learning_rate"
# description = "The highest learning rate."
# type = "float"
# min = 0
#
# [[tool.runspec.parameters]]
# name = "student.layers"
# description = "How many of the teacher's layers a student has that is not named."
# type = "int"
# min = 1
#
# [[tool.runspec.parameters]]
# name = "loss.temperature"
# description = "Softens both models' distributions."
# type = "float"
# min = 0
#
# [[tool.runspec.errors]]
# pattern = "must have one vocabulary"
# cause = "Student and teacher have different tokenizers."
# remedy = "a student of the teacher's family; or student.layers and no student.path"
# ///
"""Trains a student on a teacher's distribution with Model Optimizer's trainer; what it writes is a plain checkpoint."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "_shared"))

from nemo_steps import causal, metrics, models, runner, tokens
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

KEYS = ("output_dir", "teacher", "student", "data", "tokens", "dtype", "loss", "train")


def main(config: Config) -> None:
    """Load the two models, train the student, and write it with its tokenizer."""
    from modelopt.torch.distill.plugins.huggingface import DistillArgsWithTeacherModel
    from transformers import TrainingArguments

    only(config, "", KEYS)
    only(config, "loss", ("temperature",))
    output, dtype = output_folder(config), need(config, "dtype", str)
    teacher, tokenizer = causal.load(models.base(config, "teacher"), dtype, "cpu")
    student = student_of(config, teacher, dtype)
    if student.config.vocab_size != teacher.config.vocab_size:
        sizes = f"{student.config.vocab_size} and {teacher.config.vocab_size}"
        raise ConfigError(f"student and teacher must have one vocabulary; theirs have {sizes} tokens")
    rows = causal.batches(tokenizer, need(config, "data", str), tokens=need(config, "tokens", int))
    wanted = {**need(config, "train", dict), "output_dir": str(output / "training"), "report_to": []}
    arguments = TrainingArguments(**wanted, remove_unused_columns=False)
    trainer = trainer_class()(
        model=student,
        args=arguments,
        train_dataset=[{"input_ids": ids} for ids in rows],
        data_collator=causal.Collator(tokenizer),
        distill_args=DistillArgsWithTeacherModel(
            teacher_model=teacher, temperature=need(config, "loss.temperature", float)
        ),
        callbacks=[tell(arguments.max_steps)],
    )
    trainer.train()
    trainer.save_model(str(output))
    if trainer.is_world_process_zero():
        tokens.save(tokenizer, output)
        counts = [sum(parameter.numel() for parameter in model.parameters()) for model in (teacher, student)]
        print(f"wrote {output}: a student of {counts[1]} parameters, of a teacher of {counts[0]}")


def student_of(config: Config, teacher: Any, dtype: str) -> Any:
    """The student that is named; without one, the teacher with every so-manieth of its layers.

    Raises:
        ConfigError: `student.layers` is not below the teacher's number.
    """
    only(config, "student", ("path", "name", "layers"))
    if find(config, "student.path", str) or find(config, "student.name", str):
        named = {key: value for key, value in config["student"].items() if key != "layers"}
        return causal.load(models.base({"student": named}, "student"), dtype, "cpu")[0]
    layers, all_layers = need(config, "student.layers", int), teacher.config.num_hidden_layers
    if not 0 < layers < all_layers:
        raise ConfigError(f"student.layers must be from 1 to {all_layers - 1}, since the teacher has {all_layers}")
    return causal.with_layers(teacher, [place * all_layers // layers for place in range(layers)])


def trainer_class() -> Any:
    """Model Optimizer's trainer. Version 0.47 wraps a teacher in DDP, which refuses what never learns."""
    from modelopt.torch.distill.plugins.huggingface import KDTrainer

    class Trainer(KDTrainer):  # type: ignore[misc]
        """A trainer whose teacher is only moved to its device where it need not be sharded."""

        def _prepare_model(self, model: Any) -> Any:
            if self.is_fsdp_enabled or self.is_deepspeed_enabled:
                return super()._prepare_model(model)
            return model.to(self.accelerator.device).eval()

    return Trainer


def tell(total: int) -> Any:
    """A callback that passes on what the trainer logs."""
    from transformers import TrainerCallback

    class Tell(TrainerCallback):  # type: ignore[misc]
        """Appends the loss to the job's metrics."""

        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
            """Called by the trainer, in every process."""
            if logs and "loss" in logs and state.is_world_process_zero:
                metrics.append(step=state.global_step, total_steps=total, loss=float(logs["loss"]))

    return Tell()


if __name__ == "__main__":
    sys.exit(runner.start("Distill a model into a smaller one.", main, alone=False))
