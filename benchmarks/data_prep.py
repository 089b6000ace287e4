# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "datasets==5.2.0",
#   "fsspec==2026.9.0",
#   "numpy==2.4.6",
#   "pandas==3.1.1",
#   "psutil",
#   "pyarrow==26.0.1",
#   "pyyaml==6.0.3",
#   "ray==2.60.0",
#   "tokenizers==0.23.3",
#   "transformers==5.23.0",
# ]
# ///
"""How fast nano3's data preparation makes tokens, against a bare loop of `tokenizers` and `map` of HF's `datasets`.

    uv run benchmarks/data_prep.py                    # prints a table, exit code 1 where an aim is missed
    uv run benchmarks/data_prep.py --memory 1 1000    # the largest process at these sizes of the input, in MB

Every round runs every case once, in a process of its own, on the same text, with one core each: `tokenizers` is told to
use no threads. The rate of a case is tokens per second of the time that its work takes, median of the rounds; imports,
and Ray's start, are not in it. The recipe's own run, with one worker and with two, is measured from its first shard to
its last.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[1] / "recipes" / "nano3"
SCRIPT = RECIPES / "data" / "prep" / "pretrain" / "data_prep.py"
sys.path.insert(0, str(RECIPES / "_shared"))
VOCABULARY = 32_000
BATCH, MAPPED = 100, 1000
"""Documents at a time: the best that was found for the loop, and the default of `map`."""
RAY = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}
"""Below `uv run` Ray would make the environment of each worker anew, from the project that this file lies in."""
AIMS = {"bare": 0.8, "datasets": 1.3, "two": 1.7}


def write_text(file: Path, megabytes: float) -> None:
    """Documents of 50 to 400 words, drawn as often as words of a language are; JSON lines."""
    chance = random.Random(1)
    parts = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "ai", "en", "or")]
    words = ["".join(chance.choices(parts, k=chance.randint(1, 4))) for _ in range(40_000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    pool = chance.choices(words, weights, k=2_000_000)
    left = megabytes * 1e6
    with file.open("w", encoding="utf-8") as stream:
        while left > 0:
            start = chance.randrange(len(pool) - 400)
            line = json.dumps({"text": " ".join(pool[start : start + chance.randint(50, 400)])}) + "\n"
            stream.write(line)
            left -= len(line)


def bare(folder: Path) -> tuple[int, float]:
    """Reads lines and tokenises them, and keeps nothing."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer" / "tokenizer.json"))
    begun, tokens, held = time.perf_counter(), 0, []
    with (folder / "text.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            held.append(json.loads(line)["text"])
            if len(held) == BATCH:
                tokens += sum(len(each.ids) for each in tokenizer.encode_batch_fast(held, add_special_tokens=False))
                held.clear()
    tokens += sum(len(each.ids) for each in tokenizer.encode_batch_fast(held, add_special_tokens=False))
    return tokens, time.perf_counter() - begun


def datasets(folder: Path) -> tuple[int, float]:
    """`load_dataset` and `map` in batches, into its cache."""
    from datasets import load_dataset
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder / "tokenizer")
    begun, cache = time.perf_counter(), str(folder / f"cache-{os.getpid()}")
    rows = load_dataset("json", data_files=str(folder / "text.jsonl"), split="train", cache_dir=cache)
    made = rows.map(
        lambda batch: {"input_ids": tokenizer(batch["text"], return_attention_mask=False)["input_ids"]},
        batched=True, batch_size=MAPPED, remove_columns=["text"], load_from_cache_file=False,
        cache_file_name=str(folder / f"made-{os.getpid()}.arrow"),
    )  # fmt: skip
    seconds = time.perf_counter() - begun
    return sum(len(each) for each in made["input_ids"]), seconds


def ours(folder: Path) -> tuple[int, float]:
    """What a task of ours does: reads, splits, tokenises and writes a shard."""
    from nano3.corpus import pieces_of
    from nano3.prepare_shard import tokenize
    from nano3.shards import plan_shards

    tokens, text = 0, folder / "text.jsonl"
    job = {
        "tokenizer": str(folder / "tokenizer" / "tokenizer.json"), "type_code": 8, "eos_token_id": 2,
        "shares": [1234, 0.01, 0.0], "rows": [["text", None]],
    }  # fmt: skip
    begun = time.perf_counter()
    for shard in plan_shards([pieces_of(text, 16_000_000)], 16_000_000):
        with tempfile.TemporaryDirectory(dir=folder) as made:
            tokens += sum(tokenize(job, shard, Path(made))["tokens"].values())
    return tokens, time.perf_counter() - begun


def whole(folder: Path, workers: int) -> tuple[int, float]:
    """The recipe, through Ray."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        config = {
            "output_dir": f"{made}/out", "datasets": [{"name": "text", "paths": [str(folder / "text.jsonl")]}],
            "tokenizer": {"path": str(folder / "tokenizer")}, "workers": workers, "shard_bytes": 4_000_000,
        }  # fmt: skip
        (Path(made) / "config.yaml").write_text(json.dumps(config))
        log = Path(made) / "metrics.jsonl"
        subprocess.run(
            [sys.executable, str(SCRIPT), "--config", f"{made}/config.yaml"],
            env={**os.environ, **RAY, "NEMOTRON_METRICS_FILE": str(log)}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        records = [json.loads(line) for line in log.read_text().splitlines()]
        first, last = records[0], records[-1]
    return last["tokens"] - first["tokens"], last["time"] - first["time"]


def pair(folder: Path) -> tuple[int, float]:
    """Two bare loops at once: what this machine's second core adds to the first, whoever uses them."""
    words = [sys.executable, __file__, "--case", "bare", "--folder", str(folder)]
    loops = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [json.loads(loop.communicate()[0].splitlines()[-1]) for loop in loops]
    return sum(tokens for tokens, _ in made), max(seconds for _, seconds in made)


CASES = {
    "bare": bare,
    "pair": pair,
    "datasets": datasets,
    "ours": ours,
    "one": lambda folder: whole(folder, 1),
    "two": lambda folder: whole(folder, 2),
}


def rate_of(case: str, folder: Path) -> float:
    """Tokens per second of a case, run once in a process of its own."""
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    words = [sys.executable, __file__, "--case", case, "--folder", str(folder)]
    done = subprocess.run(words, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    tokens, seconds = json.loads(done.stdout.splitlines()[-1])
    return float(tokens) / float(seconds)


def largest(folder: Path) -> dict[str, float]:
    """The most memory in MB that the driver, and a task of it, had to themselves during a run of the recipe."""
    import psutil

    most, over = {"driver": 0.0, "task": 0.0}, threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for process in psutil.process_iter(["cmdline"]):
                words = " ".join(process.info["cmdline"] or ())
                kind = "driver" if str(SCRIPT) in words else "task" if words.startswith("ray::shard") else ""
                try:
                    own = process.memory_full_info().uss / 1e6 if kind else 0.0
                except psutil.Error:
                    continue
                if kind:
                    most[kind] = max(most[kind], own)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        whole(folder, 2)
    finally:
        over.set()
        thread.join()
    return most


def prepared(folder: Path, megabytes: float) -> None:
    """Text, and a tokenizer that was trained on some of it."""
    from nano3.tokens import save_tokenizer, train_tokenizer

    write_text(folder / "text.jsonl", megabytes)
    with (folder / "text.jsonl").open(encoding="utf-8") as lines:
        texts = [json.loads(line)["text"] for line, _ in zip(lines, range(5000), strict=False)]
    save_tokenizer(train_tokenizer(texts, VOCABULARY), folder / "tokenizer")


def compare(megabytes: float, rounds: int) -> int:
    """Print the table; 1 where an aim is missed."""
    with tempfile.TemporaryDirectory() as top:
        prepared(Path(top), megabytes)
        runs = [{case: rate_of(case, Path(top)) for case in CASES} for _ in range(rounds)]
    rates = {case: statistics.median(run[case] for run in runs) for case in CASES}
    ratios = {"bare": rates["ours"] / rates["bare"], "datasets": rates["ours"] / rates["datasets"]}
    ratios["two"] = rates["two"] / rates["one"]
    for case, rate in rates.items():
        print(f"{case:10} {rate:12,.0f} tokens/s")
    print(f"{'limit':10} {rates['pair'] / rates['bare']:8.2f} x: two bare loops at once against one")
    for name, ratio in ratios.items():
        print(f"{name:10} {ratio:8.2f} x, aim {AIMS[name]:.2f}: {'met' if ratio >= AIMS[name] else 'MISSED'}")
    return int(any(ratio < AIMS[name] for name, ratio in ratios.items()))


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--megabytes", type=float, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", type=float, nargs="*", help="sizes of inputs in MB")
    given = parser.parse_args()
    if given.case:
        print(json.dumps(CASES[given.case](given.folder)))
        return 0
    if not given.memory:
        return compare(given.megabytes, given.rounds)
    for megabytes in given.memory:
        with tempfile.TemporaryDirectory() as top:
            prepared(Path(top), megabytes)
            found = largest(Path(top))
        print(f"{megabytes:8,.0f} MB: driver {found['driver']:,.0f} MB, a task {found['task']:,.0f} MB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
