"""Measures a tiny model: exact match of its answers, and its perplexity on text and on the right answers."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import NemotronHForCausalLM, PreTrainedTokenizerFast

from nano3.files import write_text_atomic
from nano3.metrics import MetricsLog
from nano3.packed import Conversation
from nano3.settings import SettingsError
from nano3.tokens import load_tokenizer

from . import ranks
from .conversations import NOT_COUNTED, make_batch
from .data import read_corpus, validation_batches
from .model import load_model

PLAIN = "Question: {}\nAnswer:"
"""How a model is asked that knows no chat: as in the text that it was pretrained on."""

RESULTS = "results.json"
Scores = dict[str, float]


@dataclass(frozen=True)
class EvalSettings:
    """All of `tiny.yaml` but its `run:` section.

    `text_dir` is prepared pretraining text, whose validation split is read; null leaves it out. `earlier` holds folders
    of results by the names of their stages, which are shown beside these.
    """

    output_dir: Path
    model_dir: Path
    questions: Path
    text_dir: Path | None = None
    earlier: dict[str, Any] = field(default_factory=dict)
    max_new_tokens: int = 8
    batch_size: int = 64
    seq_length: int = 128
    threads: int = 1


@dataclass(frozen=True)
class Question:
    """What is asked, as tokens, and the one right answer, as text and as tokens.

    The answer's tokens are the same in every form of asking, so that perplexities of models that are asked in different
    ones can be compared: what ends an answer, which the forms have of their own, is not among them.
    """

    prompt: list[int]
    answer: str
    answer_ids: list[int]


def measure(settings: EvalSettings) -> int:
    """Measure, write `results.json`, and show it beside earlier ones; always 0."""
    torch.set_num_threads(settings.threads)
    earlier = {name: _earlier(name, folder) for name, folder in settings.earlier.items()}
    device = ranks.choose_device(torch.cuda.device_count())
    model = load_model(settings.model_dir / "hf").eval().to(device)
    tokenizer = load_tokenizer(str(settings.model_dir / "hf"))
    questions = read_questions(settings.questions, tokenizer)
    with torch.no_grad():
        answers = [text for part in _parts(questions, settings) for text in generate(model, tokenizer, part, settings)]
        results = {"questions": answered(model, questions, answers, settings)}
        if settings.text_dir is not None:
            results["text"] = read_through(model, settings.text_dir, settings)
    _write(settings, tokenizer, questions, answers, results)
    _show({**earlier, "this model": results})
    print(f"wrote {settings.output_dir / RESULTS}")
    return 0


def read_questions(file: Path, tokenizer: PreTrainedTokenizerFast) -> list[Question]:
    """The questions of a JSON-lines file, the shortest first, in the words of the chat template where there is one.

    Raises:
        SettingsError: the file is not there or empty, or a line has no prompt and answer.
    """
    try:
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        asked = [(str(row["prompt"]), str(row["answer"])) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"questions {file}: no JSON lines with prompt and answer: {error}") from error
    if not asked:
        raise SettingsError(f"questions {file}: the file is empty")
    ask = _in_chat if tokenizer.chat_template else _plainly
    return sorted((ask(tokenizer, prompt, answer) for prompt, answer in asked), key=lambda each: len(each.prompt))


def generate(
    model: NemotronHForCausalLM, tokenizer: PreTrainedTokenizerFast, questions: Sequence[Question], limits: EvalSettings
) -> list[str]:
    """What the model answers to prompts of one length: the likeliest token each time, up to an end or a new line."""
    ids = torch.tensor([question.prompt for question in questions], device=model.device)
    for _ in range(limits.max_new_tokens):
        following = model(input_ids=ids, use_cache=False).logits[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, following], dim=1)
    return [_said(tokenizer, row) for row in ids[:, len(questions[0].prompt) :].tolist()]


def answered(
    model: NemotronHForCausalLM, questions: Sequence[Question], answers: Sequence[str], limits: EvalSettings
) -> Scores:
    """The share of right answers, and the perplexity of the answers that would have been right."""
    right = [float(said == question.answer) for said, question in zip(answers, questions, strict=True)]
    losses: list[float] = []
    for start in range(0, len(questions), limits.batch_size):
        part = questions[start : start + limits.batch_size]
        batch = make_batch([Conversation(*_told(question)) for question in part])
        losses += _losses(model, batch.ids, batch.labels)
    return {**_mean("exact_match", right), **_perplexity(losses), "count": len(questions)}


def read_through(model: NemotronHForCausalLM, folder: Path, limits: EvalSettings) -> Scores:
    """The perplexity of the validation split of prepared text."""
    losses: list[float] = []
    alone = ranks.Ranks(0, 1)
    for rows in validation_batches(read_corpus(folder).valid, limits.batch_size, limits.seq_length, None, alone):
        losses += _losses(model, rows[:, :-1], rows[:, 1:])
    if not losses:
        raise SettingsError(f"the validation text in {folder} is shorter than seq_length={limits.seq_length}")
    return {**_perplexity(losses), "count": len(losses)}


def _in_chat(tokenizer: PreTrainedTokenizerFast, prompt: str, answer: str) -> Question:
    asked = [{"role": "user", "content": prompt}]
    before = tokenizer.apply_chat_template(asked, add_generation_prompt=True, return_dict=True)["input_ids"]
    return Question(before, answer, _ids_of(tokenizer, answer))


def _plainly(tokenizer: PreTrainedTokenizerFast, prompt: str, answer: str) -> Question:
    return Question(tokenizer(PLAIN.format(prompt))["input_ids"], answer, _ids_of(tokenizer, answer))


def _ids_of(tokenizer: PreTrainedTokenizerFast, answer: str) -> list[int]:
    found: list[int] = tokenizer(f" {answer}")["input_ids"]
    return found


def _parts(questions: Sequence[Question], limits: EvalSettings) -> Iterator[list[Question]]:
    """Questions of one length together, so that none needs padding, in their order."""
    for _, same in itertools.groupby(questions, key=lambda each: len(each.prompt)):
        while part := list(itertools.islice(same, limits.batch_size)):
            yield part


def _said(tokenizer: PreTrainedTokenizerFast, ids: list[int]) -> str:
    if tokenizer.eos_token_id in ids:
        ids = ids[: ids.index(tokenizer.eos_token_id)]
    return str(tokenizer.decode(ids)).strip().partition("\n")[0]


def _told(question: Question) -> tuple[list[int], list[int]]:
    """The tokens of a question and its answer, and a mask of the tokens before each of the answer's."""
    ids = question.prompt + question.answer_ids
    first = len(question.prompt) - 1
    return ids, [int(first <= place < len(ids) - 1) for place in range(len(ids))]


def _losses(model: NemotronHForCausalLM, ids: torch.Tensor, labels: torch.Tensor) -> list[float]:
    """The loss of every token that counts, in nats."""
    ids, labels = ids.to(model.device), labels.to(model.device)
    logits = model(input_ids=ids, use_cache=False).logits.flatten(0, 1)
    every = torch.nn.functional.cross_entropy(logits, labels.flatten(), ignore_index=NOT_COUNTED, reduction="none")
    found: list[float] = every[labels.flatten() != NOT_COUNTED].tolist()
    return found


def _mean(name: str, values: Sequence[float]) -> Scores:
    """A mean and its standard error, under lm-eval's names."""
    mean, error = _mean_and_error(values)
    return {f"{name},none": mean, f"{name}_stderr,none": error}


def _perplexity(losses: Sequence[float]) -> Scores:
    """The exponential of the mean loss; its error is the mean's, to first order."""
    mean, error = _mean_and_error(losses)
    return {"perplexity,none": math.exp(mean), "perplexity_stderr,none": math.exp(mean) * error}


def _mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / max(1, count - 1)
    return mean, math.sqrt(variance / count)


def _earlier(name: str, folder: object) -> dict[str, Scores]:
    try:
        found: dict[str, Scores] = json.loads((Path(str(folder)) / RESULTS).read_text(encoding="utf-8"))["results"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(f"earlier.{name}: {folder} holds no {RESULTS}: {error}") from error
    return found


def _write(
    settings: EvalSettings,
    tokenizer: PreTrainedTokenizerFast,
    questions: Sequence[Question],
    answers: Sequence[str],
    results: dict[str, Scores],
) -> None:
    output = settings.output_dir
    output.mkdir(parents=True, exist_ok=True)
    samples = [
        {"prompt": tokenizer.decode(question.prompt), "answer": question.answer, "said": said}
        for question, said in zip(questions, answers, strict=True)
    ]
    write_text_atomic(output / "samples_questions.jsonl", "".join(json.dumps(sample) + "\n" for sample in samples))
    asked = "chat" if tokenizer.chat_template else "plain"
    content = {"results": results, "model": str(settings.model_dir), "asked": asked}
    write_text_atomic(output / RESULTS, json.dumps(content, indent=2) + "\n")
    metrics = {"step": 1, "exact_match": results["questions"]["exact_match,none"]}
    MetricsLog(output).write(metrics)


COLUMNS: list[tuple[str, Callable[[dict[str, Scores]], str]]] = [
    ("exact match", lambda results: _cell(results, "questions", "exact_match")),
    ("perplexity of answers", lambda results: _cell(results, "questions", "perplexity")),
    ("perplexity of text", lambda results: _cell(results, "text", "perplexity")),
]


def _show(rows: dict[str, dict[str, Scores]]) -> None:
    """A table of what every stage has reached."""
    width = max(map(len, rows))
    print("  ".join([" " * width, *(f"{name:>21}" for name, _ in COLUMNS)]))
    for name, results in rows.items():
        print("  ".join([f"{name:<{width}}", *(f"{cell(results):>21}" for _, cell in COLUMNS)]))


def _cell(results: dict[str, Scores], task: str, metric: str) -> str:
    scores = results.get(task, {})
    if f"{metric},none" not in scores:
        return "-"
    return f"{scores[f'{metric},none']:.3f} ± {scores[f'{metric}_stderr,none']:.3f}"
