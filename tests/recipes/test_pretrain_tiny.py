"""Tiny pretraining: it learns, it resumes to the same numbers, and one process does what two do."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from nano3.metrics import Progress
from nano3.settings import SettingsError, build
from nano3.tiny.settings import TinySettings

from .conftest import TRAIN, recipe_config, recipe_environment

CLOSE = 1e-5


def tiny_config(output: Path, data: Path, **train: Any) -> dict[str, Any]:
    config = recipe_config(TRAIN, "tiny", output_dir=output, data__path=data)
    config["train"].update(train)
    return config


def twenty_steps(output: Path, data: Path, **train: Any) -> dict[str, Any]:
    """Twenty steps with a record of each and one validation at the end."""
    settings = {"train_iters": 20, "eval_interval": 1000, "require_below_unigram": False, **train}
    return tiny_config(output, data, **settings) | {"logger": {"log_interval": 1}}


def records(folder: Path, key: str) -> dict[int, float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return {record["step"]: record[key] for record in map(json.loads, lines) if key in record}


def largest_difference(first: dict[int, float], second: dict[int, float]) -> float:
    assert first.keys() == second.keys()
    return max(abs(first[step] - second[step]) for step in first)


@pytest.fixture(scope="module")
def short_run(run_recipe, tiny_data, tmp_path_factory):
    """Forty steps of `tiny.yaml` with two processes. With one the README's command runs to its end; under torchrun it
    runs in the first commands of Docker and the clouds.
    """
    output = tmp_path_factory.mktemp("tiny")
    done = run_recipe(TRAIN, tiny_config(output, tiny_data, train_iters=40, eval_interval=20), processes=2)
    assert done.returncode == 0, done.stderr
    return output, done.stdout


@dataclass(frozen=True)
class Halves:
    """So many steps at once, and the output folders of runs that add up to as many."""

    steps: int
    once: Path
    parts: list[Path]


@pytest.fixture(scope="module")
def halves(run_recipe, tiny_data, tmp_path_factory):
    """Twenty steps of one process, ten of two: at once and in two halves; with two, the first is the run's own.

    The rate of learning rises for the first twenty steps, however many there are: they are the same ones.
    """
    base = tmp_path_factory.mktemp("halves")

    def run(name: str, processes: int, load: Path | None = None, **train: Any) -> Path:
        config = twenty_steps(base / name, tiny_data, **train)
        config["checkpoint"]["save_interval"] = 10 if processes == 1 else 5
        if load:
            config["checkpoint"]["load"] = str(load)
        done = run_recipe(TRAIN, config, processes=processes)
        assert done.returncode == 0, done.stderr
        return base / name

    first = run("first", 1, exit_interval=10)
    second = run("second", 1, load=first / "checkpoints")
    two = run("two", 2, train_iters=10)
    resumed = run("two-resumed", 2, load=two / "checkpoints" / "step_00000005", train_iters=10)
    return {1: Halves(20, run("one", 1), [first, second]), 2: Halves(10, two, [resumed])}


def entropy_of(data: Path) -> float:
    """Of the validation tokens by their frequencies alone, in nats."""
    return float(json.loads((data / "manifest.json").read_text())["valid_unigram_entropy"])


def test_validation_ends_below_what_counting_alone_would_reach(short_run, tiny_data):
    output, printed = short_run
    validation = records(output, "val_loss")
    assert list(validation) == [20, 40]
    entropy = entropy_of(tiny_data)
    assert f"validation loss {validation[40]:.4f}, below the unigram entropy {entropy:.4f}" in printed.splitlines()[-1]
    assert validation[40] < entropy


@pytest.mark.full
def test_the_short_run_knows_more_than_two_tokens_and_writes_the_text(run_recipe, tiny_data, run_code, tmp_path):
    done = run_recipe(TRAIN, tiny_config(tmp_path, tiny_data), processes=2, alone=True)
    assert done.returncode == 0, done.stderr
    validation = records(tmp_path, "val_loss")
    assert list(validation) == [50, 100, 150]
    trigram = float(done.stdout.splitlines()[-1].split("below the trigram cross-entropy ")[1].split()[0])
    assert validation[150] < trigram < entropy_of(tiny_data) / 2
    assert "more" in continued(run_code, tmp_path)[1]


def test_it_is_the_hybrid_and_well_under_a_million_parameters(short_run):
    first = short_run[1].splitlines()[0]
    assert 100_000 < int(first.split()[0].replace(",", "")) < 800_000
    assert set("ME*") <= set(first.split("layers ")[1].split(",")[0])


def test_progress_shows_loss_and_tokens_per_second(short_run):
    output, printed = short_run
    assert any(line.startswith("step 5/40  loss ") and line.endswith(" tokens/s") for line in printed.splitlines())
    record = json.loads((output / "metrics.jsonl").read_text().splitlines()[0])
    assert {"step": 5, "total_steps": 40}.items() <= record.items()
    assert {"loss", "lr", "grad_norm", "tokens_per_second"} < record.keys()


def continued(run_code: Callable[..., str], output: Path) -> tuple[str, str]:
    """The class of the model that was written, and what it writes after the beginning of a story."""
    code = (
        "import sys; from transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "model, tokenizer = (kind.from_pretrained(sys.argv[1]) for kind in (AutoModelForCausalLM, AutoTokenizer))\n"
        "ids = tokenizer('Olga has five coins. Dmitri brings', return_tensors='pt').input_ids\n"
        "print(type(model).__name__, tokenizer.decode(model.generate(ids, max_new_tokens=12, do_sample=False)[0]))\n"
    )
    kind, _, text = run_code(code, output / "hf").partition(" ")
    return kind, text.removeprefix("Olga has five coins. Dmitri brings")


def test_plot_and_checkpoint_are_written(short_run, run_code):
    output = short_run[0]
    assert (output / "loss.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert not list(output.rglob(".partial-*"))
    kind, text = continued(run_code, output)
    assert kind == "NemotronHForCausalLM"
    assert text.strip()


@pytest.mark.parametrize("processes", [1, 2])
def test_ten_steps_and_ten_more_equal_twenty(halves, run_code, processes):
    last, once, parts = halves[processes].steps, halves[processes].once, halves[processes].parts
    losses = {step: loss for part in parts for step, loss in records(part, "loss").items()}
    assert max(losses) == last
    assert largest_difference({step: records(once, "loss")[step] for step in losses}, losses) <= CLOSE
    assert abs(records(once, "val_loss")[last] - records(parts[-1], "val_loss")[last]) <= CLOSE
    code = (
        "import sys, torch\n"
        f"a, b = (torch.load(f'{{p}}/checkpoints/step_{last:08}/state.pt')['model'] for p in sys.argv[1:])\n"
        "assert a.keys() == b.keys()\n"
        "print(max((a[k] - b[k]).abs().max().item() for k in a))\n"
    )
    assert float(run_code(code, once, parts[-1])) <= CLOSE


def test_a_resumed_run_knows_its_history(halves, run_code):
    code = "import sys, torch; print([r['step'] for r in torch.load(sys.argv[1])['history'] if 'loss' in r])"
    state = halves[1].parts[-1] / "checkpoints" / "step_00000020" / "state.pt"
    assert run_code(code, state) == str(list(range(1, 21)))


def test_two_processes_train_as_one(halves):
    """Only the first steps: later a rounding error may send a token to another expert, and the runs part."""
    one, two = ({step: loss for step, loss in records(halves[n].once, "loss").items() if step <= 10} for n in (1, 2))
    assert largest_difference(one, two) <= CLOSE


def six_steps(run_recipe: Any, output: Path, data: Path, processes: int, batch: int) -> dict[int, float]:
    config = twenty_steps(output, data, train_iters=6, global_batch_size=batch)
    done = run_recipe(TRAIN, config, processes=processes if processes > 1 else None)
    assert done.returncode == 0, done.stderr
    losses = records(output, "loss")
    assert list(losses) == [1, 2, 3, 4, 5, 6]
    return losses


def test_three_processes_share_eight_sequences_unevenly(run_recipe, tiny_data, halves, tmp_path):
    one = {step: loss for step, loss in records(halves[1].once, "loss").items() if step <= 6}
    assert largest_difference(one, six_steps(run_recipe, tmp_path / "3", tiny_data, 3, 8)) <= CLOSE


def test_one_of_three_processes_has_none_of_two_sequences(run_recipe, tiny_data, tmp_path):
    one, three = (six_steps(run_recipe, tmp_path / str(n), tiny_data, n, 2) for n in (1, 3))
    assert largest_difference(one, three) <= CLOSE


def test_half_a_checkpoint_is_passed_over(halves, run_code, tmp_path):
    first, second = halves[1].parts
    for source in (first / "checkpoints" / "step_00000010", second / "checkpoints" / "step_00000020"):
        shutil.copytree(source, tmp_path / source.name)
    (tmp_path / "step_00000030").mkdir()
    (tmp_path / "step_00000030" / "state.pt").write_bytes(b"half")
    state = tmp_path / "step_00000020" / "state.pt"
    state.write_bytes(state.read_bytes()[:-1])
    code = "from pathlib import Path; from nano3.tiny.checkpoint import newest; print(newest(Path(sys.argv[1])))"
    assert run_code(code, tmp_path) == str(tmp_path / "step_00000010")
    (tmp_path / "step_00000010" / "complete.json").unlink()
    assert run_code(code, tmp_path) == "None"


OLDER = """
import sys, torch
from pathlib import Path
from nano3.tiny import checkpoint
state = checkpoint.load(Path(sys.argv[1]))
state["optimizer"]["state"] = dict(enumerate(state["optimizer"]["state"].values()))
print(checkpoint.save(Path(sys.argv[2]), state["step"], state, 1))
"""


def test_a_checkpoint_of_an_earlier_release_is_refused_in_words(halves, run_recipe, run_code, tiny_data, tmp_path):
    whole = halves[1].parts[0] / "checkpoints" / "step_00000010"
    older = run_code(OLDER, whole, tmp_path / "older")
    config = twenty_steps(tmp_path / "out", tiny_data)
    config["checkpoint"]["load"] = older
    done = run_recipe(TRAIN, config)
    assert (done.returncode, "of an earlier release" in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_sigterm_saves_and_stops(tiny_data, recipe_python, tmp_path):
    config = tiny_config(tmp_path / "out", tiny_data, train_iters=100_000)
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(config))
    followed = tmp_path / "followed.jsonl"
    job = subprocess.Popen(
        [str(recipe_python), str(TRAIN), "--config", str(tmp_path / "train.yaml")],
        env=recipe_environment(NEMOTRON_METRICS_FILE=str(followed)),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout
    try:
        for line in job.stdout:
            if line.startswith("step 5/"):
                break
        job.send_signal(signal.SIGTERM)
        rest = job.stdout.read()
        assert job.wait(timeout=120) == 128 + signal.SIGTERM
    finally:
        job.kill()
    stopped = int(rest.split("stopped by a signal after step ")[1].split(";")[0])
    assert (tmp_path / "out" / "checkpoints" / f"step_{stopped:08d}" / "complete.json").is_file()
    assert followed.read_text() == (tmp_path / "out" / "metrics.jsonl").read_text() != ""


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("model", {"hiden_size": 5}, "unknown key 'model.hiden_size'; did you mean 'hidden_size'?"),
        ("checkpoint", {"load": "/nowhere"}, "checkpoint.load /nowhere holds no whole checkpoint"),
    ],
)
def test_a_mistake_is_named(run_recipe, tiny_data, tmp_path, section, change, words):
    config = tiny_config(tmp_path / "out", tiny_data)
    config[section].update(change)
    done = run_recipe(TRAIN, config)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"train_itres": 5}, "unknown key 'train.train_itres'; did you mean 'train_iters'?"),
        ({"train_iters": "many"}, "train.train_iters must be a whole number, not 'many'"),
        ({"global_batch_size": 0}, "train.global_batch_size must be at least 1, not 0"),
    ],
)
def test_a_setting_is_checked_before_anything_is_loaded(tmp_path, change, words):
    config = tiny_config(tmp_path, tmp_path, **change)
    with pytest.raises(SettingsError) as error:
        build(TinySettings, config)
    assert str(error.value) == words


def test_progress_is_a_bar_on_a_terminal():
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    progress = Progress(40, terminal)
    progress.show(10, 3.25, 12345.6)
    progress.show(20, 3.0, 12345.6)
    progress.say("done")
    drawn = terminal.getvalue()
    assert drawn.count("\r") == 2
    assert "[██████··················] step 10/40  loss 3.2500  12,346 tokens/s" in drawn
    assert drawn.endswith("\ndone\n")


def test_a_dataset_without_its_manifest_is_refused(run_recipe, tmp_path):
    (tmp_path / "blend.json").write_text('{"train": null, "valid": null, "test": null}')
    done = run_recipe(TRAIN, recipe_config(TRAIN, "tiny", output_dir=tmp_path / "out", data__path=tmp_path))
    assert done.returncode == 2
    assert "holds no whole dataset" in done.stderr


def test_weights_that_would_not_be_honoured_are_refused(run_recipe, tiny_data, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(tiny_data, data)
    blend = json.loads((data / "blend.json").read_text())
    blend["train"] = ["0.9", blend["train"][1], "0.1", blend["train"][1]]
    (data / "blend.json").write_text(json.dumps(blend))
    done = run_recipe(TRAIN, recipe_config(TRAIN, "tiny", output_dir=tmp_path / "out", data__path=data))
    assert (done.returncode, "weights of their own" in done.stderr) == (2, True), done.stderr
