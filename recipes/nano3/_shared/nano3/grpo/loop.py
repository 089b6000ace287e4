"""The loop of GRPO: draw answers, learn from them, hand on the weights; measured on held-out questions on the way."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import ray
import torch

from nano3.files import publish_folder, staging
from nano3.metrics import MetricsLog
from nano3.tiny import checkpoint
from nano3.tiny.ranks import choose_device

from .actors import LearnerActor, RolloutActor
from .plot import draw_rewards
from .policy import Rollout, check_model
from .settings import RlSettings
from .shares import gpu_share
from .task import Question, questions_of_step, read_questions

STOPPED_BY_SIGNAL = 128 + signal.SIGTERM


def train(settings: RlSettings) -> int:
    """Trains; the exit status: 0 done, 143 stopped by SIGTERM."""
    questions = {split: read_questions(settings.data_dir, split) for split in ("train", "valid")}
    shared = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}  # where actors find this package
    check_model(settings.model_dir)
    choose_device(torch.cuda.device_count())  # actors could not say so well that there is none
    ray.init(runtime_env={"env_vars": shared}, logging_level="WARNING")  # the cluster of the job, by RAY_ADDRESS
    try:
        return Trainer(settings, questions["train"], questions["valid"]).run()
    finally:
        ray.shutdown()


class Trainer:
    """One run. `step` counts finished steps; `history` holds the run's records from its first step."""

    def __init__(self, settings: RlSettings, questions: Sequence[Question], held_out: Sequence[Question]) -> None:
        self.settings, self.questions, self.held_out = settings, questions, held_out
        share = gpu_share(ray.cluster_resources().get("GPU", 0), 1 + settings.generation.workers)
        rollout, learner = (ray.remote(num_cpus=0, num_gpus=share)(kind) for kind in (RolloutActor, LearnerActor))
        self.learner: Any = learner.remote(settings)
        self.workers: list[Any] = [rollout.remote(settings) for _ in range(settings.generation.workers)]
        self.metrics = MetricsLog(settings.output_dir)
        self.step, self.history, self._is_stopping = 0, list[dict[str, float]](), False
        self._resume()

    def run(self) -> int:
        """Trains until the last step or SIGTERM."""
        signal.signal(signal.SIGTERM, self._ask_to_stop)
        grpo, saving = self.settings.grpo, self.settings.checkpointing
        self._hand_on()
        if self.step == 0:
            self._validate()
        saved = self.step
        while self.step < grpo.max_num_steps and not self._is_stopping:
            self._step()
            is_last = self.step == grpo.max_num_steps
            if is_last or self.step % grpo.val_period == 0:
                self._validate()
            if is_last or self._is_stopping or self.step % saving.save_period == 0:
                self._save()
                saved = self.step
        if self._is_stopping and self.step < grpo.max_num_steps:
            if saved != self.step:
                self._save()
            print(f"stopped by a signal after step {self.step}; the same command goes on from there", flush=True)
            return STOPPED_BY_SIGNAL
        self._finish()
        return 0

    def _step(self) -> None:
        grpo, began = self.settings.grpo, time.monotonic()
        asked = questions_of_step(self.questions, self.step, grpo.num_prompts_per_step, grpo.seed)
        parts = self._rolled_out(asked, grpo.num_generations_per_prompt, seed=self._seed(self.step + 1))
        drawn = time.monotonic()
        said: dict[str, float] = ray.get(self.learner.learn.remote(self.step, parts))
        self.step += 1
        self._hand_on()
        took = {"rollout_seconds": drawn - began, "learn_seconds": time.monotonic() - drawn}
        rate = said.pop("tokens") / max(1e-6, sum(took.values()))
        timed = {**{name: round(value, 3) for name, value in took.items()}, "tokens_per_second": round(rate, 1)}
        self._record({"total_steps": grpo.max_num_steps, **said, **timed})
        if self.step % 5 == 0 or self.step == grpo.max_num_steps:
            print(
                f"step {self.step}/{grpo.max_num_steps}  reward {said['reward']:.3f}  "
                f"useful {said['useful']:.2f}  clipped {said['clipped']:.3f}  "
                f"{sum(took.values()):.2f} s  {rate:,.0f} tokens/s",
                flush=True,
            )

    def _rolled_out(
        self, questions: Sequence[Question], count: int, seed: int | None
    ) -> list[tuple[Rollout, list[float]]]:
        """Answers of all actors; each has its share of the questions, one after another, and a seed of its own."""
        size = -(-len(questions) // len(self.workers))
        shares = [questions[start : start + size] for start in range(0, len(questions), size)]
        waiting = [
            worker.roll_out.remote(share, count, None if seed is None else seed + place)
            for place, (worker, share) in enumerate(zip(self.workers, shares, strict=False))
        ]
        return list(ray.get(waiting))

    def _validate(self) -> None:
        """The mean reward on held-out questions: of drawn answers, as training has it, and of the likeliest."""
        drawn, likeliest = (
            [value for _, values in self._rolled_out(self.held_out, count, seed) for value in values]
            for count, seed in ((4, self._seed(0)), (1, None))
        )
        record = {"val_reward": sum(drawn) / len(drawn), "val_exact_match": sum(likeliest) / len(likeliest)}
        self._record(record)
        print(
            f"step {self.step}/{self.settings.grpo.max_num_steps}  held-out reward {record['val_reward']:.3f}  "
            f"exact match of the likeliest answers {record['val_exact_match']:.3f}",
            flush=True,
        )

    def _seed(self, step: int) -> int:
        """A seed for the drawing of a step, which is the same in a run that was resumed."""
        return (self.settings.grpo.seed * 1_000_003 + step) * 1009

    def _hand_on(self) -> None:
        """The learner's weights, put into the object store once, for every actor."""
        weights = self.learner.weights.remote()
        ray.get([worker.take.remote(weights) for worker in self.workers])

    def _record(self, values: dict[str, float]) -> None:
        record = {"step": self.step, **values}
        self.history.append(record)
        self.metrics.write(record)

    def _save(self) -> None:
        state = {**ray.get(self.learner.state.remote()), "step": self.step, "history": self.history}
        saving = self.settings.checkpointing
        checkpoint.save(saving.checkpoint_dir, self.step, state, saving.keep_top_k)

    def _resume(self) -> None:
        newest = checkpoint.newest(self.settings.checkpointing.checkpoint_dir)
        if newest is None:
            return
        state = checkpoint.load(newest)
        ray.get(self.learner.restore.remote({key: state[key] for key in ("model", "optimizer")}))
        self.step, self.history = state["step"], state["history"]
        print(f"resumed from {newest}, after step {self.step}", flush=True)

    def _finish(self) -> None:
        output = self.settings.output_dir
        with staging(output, "hf") as built:
            ray.get(self.learner.save_model.remote(str(built / "hf")))
            publish_folder(built / "hf", output / "hf")
        draw_rewards(self.history, output / "reward.png")
        measured = [record["val_reward"] for record in self.history if "val_reward" in record]
        print(f"held-out reward {measured[0]:.3f} → {measured[-1]:.3f} ({measured[-1] - measured[0]:+.3f})")
        print(f"wrote {output / 'hf'}, {output / 'reward.png'}, {self.metrics.path}", flush=True)

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self._is_stopping = True
