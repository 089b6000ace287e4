"""Trains the tiny model: step by step, over one process or several, to the end or to a clean stop."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import torch
from transformers import NemotronHForCausalLM

from nano3.metrics import MetricsLog, Progress
from nano3.settings import SettingsError

from . import checkpoint, ranks, sharding
from .export import export
from .flops import Gauge
from .model import described_kernels, learning_rate, make_optimizer
from .settings import RunSettings
from .task import Task

STOPPED_BY_SIGNAL = 128 + signal.SIGTERM
GIB = 1 << 30
Settings = TypeVar("Settings", bound=RunSettings)


def train(settings: Settings, make_task: Callable[[Settings], Task]) -> int:
    """Train and return the exit status: 0 done, 1 the validation loss is too high, 143 stopped by SIGTERM."""
    together = ranks.join(settings.train.threads)
    try:
        status = Trainer(settings, make_task(settings), together).run()
        together.wait()  # gloo ends a process whose peer has left while it still talks to it
        return status
    finally:
        ranks.leave()


@dataclass
class Trainer:
    """One run of one process. `step` counts finished steps; `history` holds the run's records from its first step."""

    settings: RunSettings
    task: Task
    ranks: ranks.Ranks
    step: int = 0
    history: list[dict[str, float | int]] = field(default_factory=list)
    _is_stopping: bool = False

    def __post_init__(self) -> None:
        train = self.settings.train
        self.model: NemotronHForCausalLM = self.task.make_model().to(self.ranks.device)
        self.gauge = Gauge.of(self.model, self.task.tokens_per_sequence, self.settings.logger, self.ranks)
        self.trained = sharding.spread(self.model, train, self.ranks)
        self.optimizer = make_optimizer(self.model, self.settings.optimizer)
        self.progress = Progress(train.train_iters)
        self.metrics = MetricsLog(self.settings.output_dir)
        self._resume()

    def run(self) -> int:
        """Train until the last step, the next exit interval or SIGTERM."""
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        self._introduce()
        train, saved = self.settings.train, self.step
        if self.task.looks_first and self.step == 0:
            self._validate()
        measured_at, measured_from = time.monotonic(), self.step
        while self.step < train.train_iters:
            loss, grad_norm, must_stop = self._train_step()
            if self._is_due(self.settings.logger.log_interval):
                elapsed, steps = time.monotonic() - measured_at, self.step - measured_from
                self._log_step(loss, grad_norm, steps / elapsed)
                measured_at, measured_from = time.monotonic(), self.step
            if must_stop:
                self._save()
                self._say(f"stopped by a signal after step {self.step}; resume with checkpoint.load")
                return STOPPED_BY_SIGNAL
            if self.step % train.eval_interval == 0 and self.step < train.train_iters:
                self._validate()
                measured_at, measured_from = time.monotonic(), self.step
            if self._is_due(self.settings.checkpoint.save_interval):
                self._save()
                saved, measured_at, measured_from = self.step, time.monotonic(), self.step
            if train.exit_interval and self.step % train.exit_interval == 0:
                break
        if saved != self.step:
            self._save()
        return self._finish()

    def _is_due(self, interval: int) -> bool:
        return self.step % interval == 0 or self.step == self.settings.train.train_iters

    def _introduce(self) -> None:
        parameters, where = sum(parameter.numel() for parameter in self.model.parameters()), self.ranks.device.type
        self._say(
            f"{parameters:,} parameters, layers {self.model.config.hybrid_override_pattern}, "
            f"{self.ranks.world_size} process(es) on {where} with {torch.get_num_threads()} thread(s), "
            f"{self.task.described}"
        )
        if self.settings.logger.mfu:
            self._say(self.gauge.described)
        if where == "cuda":
            self._say(described_kernels())

    def _train_step(self) -> tuple[float, float, bool]:
        """One step; returns the loss over all processes, the gradient's norm and whether any process must stop."""
        settings = self.settings
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.step, settings)
        self.trained.train()
        # DistributedDataParallel takes the mean of the gradients, whatever each process has had to do.
        local = 0.0
        for part in self.ranks.parts(settings.train.accumulate):
            loss = self.task.training_loss(self.trained, self.step, part) * self.ranks.world_size
            loss.backward()  # type: ignore[no-untyped-call]
            local += loss.item()
        norm = sharding.whole(torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.optimizer.clip_grad))
        total, stops = self.ranks.sum([local, float(self._is_stopping)])
        mean = total / self.ranks.world_size
        if not math.isfinite(mean):
            raise FloatingPointError(f"the loss of step {self.step + 1} is {mean}")
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        return mean, norm.item(), stops > 0

    @torch.no_grad()
    def _validate(self) -> float:
        self.model.eval()
        loss_sum, tokens = 0.0, 0
        with sharding.gathered(self.model):
            for batch_loss, batch_tokens in self.task.validation_losses(self.model, self.ranks):
                loss_sum += batch_loss
                tokens += batch_tokens
        loss_sum, token_sum = self.ranks.sum([loss_sum, float(tokens)])
        loss = loss_sum / token_sum
        self._record({"step": self.step, "val_loss": loss})
        self._say(f"step {self.step}/{self.settings.train.train_iters}  validation loss {loss:.4f}")
        return loss

    def _log_step(self, loss: float, grad_norm: float, steps_per_second: float) -> None:
        settings, tokens = self.settings, self.task.tokens_per_step
        record: dict[str, float | int] = {
            "step": self.step,
            "total_steps": settings.train.train_iters,
            "loss": loss,
            "lr": learning_rate(self.step - 1, settings),
            "grad_norm": grad_norm,
            "tokens_per_second": round(tokens * steps_per_second, 1),
        }
        if (mfu := self.gauge.mfu(tokens * steps_per_second)) is not None:
            record["mfu"] = mfu
        self._record(record)
        if self.ranks.is_first:
            self.progress.show(self.step, loss, tokens * steps_per_second, mfu)

    def _finish(self) -> int:
        """Validate, plot, export, and say how the loss lies to what it is held against."""
        loss, output = self._validate(), self.settings.output_dir
        weights, _ = sharding.state_of(self.model, self.optimizer)
        if self.ranks.is_first:
            from .plot import draw_losses  # matplotlib: not for the other processes, nor before a mistake is told

            yardsticks = self.task.yardsticks(self.history)
            draw_losses(self.history, yardsticks, self.task.title, output / "loss.png")
            export(self.model, weights, self.task.export_files, output / "hf")
            self._say(f"wrote {output / 'hf'}, {output / 'loss.png'}, {self.metrics.path}")
            compared = [
                f"{'below' if loss < value else 'NOT below'} the {name} {value:.4f}"
                for name, value in yardsticks.items()
            ]
            self._say(f"step {self.step}: validation loss {loss:.4f}, {', '.join(compared)} (nats per token)")
        if self.ranks.device.type == "cuda":
            held = torch.cuda.max_memory_reserved() / GIB
            self._say(f"at most {held:.1f} GiB of the GPU's memory were held")
        self.ranks.wait()
        is_done = self.step >= self.settings.train.train_iters
        return int(is_done and loss >= self.task.must_be_below)

    def _save(self) -> None:
        weights, optimizer = sharding.state_of(self.model, self.optimizer)
        if self.ranks.is_first:
            state: checkpoint.State = {
                "step": self.step,
                "model": weights,
                "optimizer": optimizer,
                "rng": torch.get_rng_state(),
                "history": self.history,
            }
            kept = self.settings.checkpoint.most_recent_k
            checkpoint.save(self.settings.checkpoint.save, self.step, state, kept)
        self.ranks.wait()

    def _resume(self) -> None:
        found = find_resume_point(self.settings)
        if found is None:
            return
        state = checkpoint.load(found)
        sharding.give_state(self.model, self.optimizer, state["model"], state["optimizer"])
        torch.set_rng_state(state["rng"])
        self.step, self.history = state["step"], state["history"]
        self._say(f"resumed after step {self.step} from {found}")

    def _record(self, record: dict[str, float | int]) -> None:
        if self.ranks.is_first:
            self.history.append(record)
            self.metrics.write(record)

    def _say(self, text: str) -> None:
        if self.ranks.is_first:
            self.progress.say(text)

    def _ask_to_stop(self, *_: object) -> None:
        self._is_stopping = True


def find_resume_point(settings: RunSettings) -> Path | None:
    """The checkpoint to go on from, if any.

    Raises:
        SettingsError: `checkpoint.load` names another place than `checkpoint.save`, and nothing whole is there.
    """
    load, save = settings.checkpoint.load, settings.checkpoint.save
    if load is None:
        return None
    found = checkpoint.newest(load)
    if found is None and load != save:
        raise SettingsError(f"checkpoint.load {load} holds no whole checkpoint")
    return found
