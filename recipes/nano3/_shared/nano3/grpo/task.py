"""The prompts with their answers, and the reward that can be verified: 1 where an answer is the right one, else 0."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nano3.dataset_folder import check_files
from nano3.settings import SettingsError


@dataclass(frozen=True)
class Question:
    """A prompt and its one right answer."""

    prompt: str
    answer: str


def read_questions(folder: Path, split: str) -> list[Question]:
    """The rows of a split, as data preparation has written them for NeMo-RL: `input` and `output`.

    Raises:
        SettingsError: the folder is no prepared dataset, or there are no rows, or one is no such row.
    """
    file = folder / f"{split}.jsonl"
    check_files(folder, file.name)
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
        found = [Question(str(row["input"]), str(row["output"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"data_dir {folder}: {file.name} holds no rows of input and output: {error}") from error
    if not found:
        raise SettingsError(f"data_dir {folder}: {file.name} is empty")
    return found


def reward(said: str, answer: str) -> float:
    """1 for the right answer, whatever the spaces and the case; 0 for any other."""
    return float(" ".join(said.split()).casefold() == " ".join(answer.split()).casefold())


def advantages(rewards: Sequence[float], size: int, normalize: bool) -> list[float]:
    """How much better each answer is than the mean of its group of `size`; `normalize`: in the group's deviations."""
    made: list[float] = []
    for start in range(0, len(rewards), size):
        group = rewards[start : start + size]
        mean = sum(group) / len(group)
        deviation = (sum((each - mean) ** 2 for each in group) / len(group)) ** 0.5 + 1e-6
        made += [(each - mean) / (deviation if normalize else 1.0) for each in group]
    return made


def questions_of_step(questions: Sequence[Question], step: int, count: int, seed: int) -> list[Question]:
    """The questions of `step`, counted from 0: every one once before any comes again, by the seed alone."""
    chosen: list[Question] = []
    for place in range(step * count, (step + 1) * count):
        epoch, number = divmod(place, len(questions))
        order = list(range(len(questions)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        chosen.append(questions[order[number]])
    return chosen
