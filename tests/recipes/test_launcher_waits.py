"""How a run of NeMo Evaluator's launcher ends, in nano3's glue and in that of steps; the launcher is a stand-in."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from nano3 import launcher
from support import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "recipes" / "steps" / "_shared"))

from nemo_steps import evaluation

SECTIONS = {"execution": {"type": "local"}, "deployment": {"type": "none"}}
Ended = tuple[int, str]


def by_nano3(output: Path, dry_run: bool) -> Ended:
    """The exit status and what was said, of the recipe."""
    return launcher.evaluate(launcher.LauncherSettings(output, SECTIONS, dry_run)), ""


def by_steps(output: Path, dry_run: bool) -> Ended:
    """The same of the step, whose exceptions end its process with 1."""
    try:
        evaluation.with_launcher({"output_dir": str(output), "launcher": SECTIONS, "dry_run": dry_run})
    except SystemExit as ended:
        return int(str(ended.code)), ""
    except RuntimeError as error:
        return 1, str(error)
    return 0, ""


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[dict[str, Any]]]:
    """What the launcher says of its run, poll by poll; the last of it again and again."""
    answers: list[list[dict[str, Any]]] = []
    functional = SimpleNamespace(
        run_eval=lambda config, dry_run: None if dry_run else "abc",
        get_status=lambda ids: answers.pop(0) if len(answers) > 1 else answers[0],
    )
    config = SimpleNamespace(RunConfig=SimpleNamespace(from_hydra=lambda config: config))
    for name, content in {
        "nemo_evaluator_launcher": {}, "nemo_evaluator_launcher.api": {"functional": functional},
        "nemo_evaluator_launcher.api.types": vars(config),
    }.items():  # fmt: skip
        module = types.ModuleType(name)
        module.__dict__.update(content)
        monkeypatch.setitem(sys.modules, name, module)
    for each in (launcher, evaluation):
        monkeypatch.setattr(each, "POLL_SECONDS", 0.0)
    monkeypatch.delenv("NEMOTRON_METRICS_FILE", raising=False)
    return answers


def job(number: int, status: str) -> dict[str, Any]:
    return {"job_id": f"abc.{number}", "status": status}


def leave(output: Path, *tasks: str) -> None:
    """The results of benchmarks where the launcher leaves them."""
    for task in tasks:
        file = output / "launcher" / "today-abc" / task / "artifacts" / "results.yml"
        file.parent.mkdir(parents=True)
        file.write_text("{score: 0.5}")


GLUE = pytest.mark.parametrize("run", [by_nano3, by_steps])


@GLUE
def test_a_dry_run_is_no_result(said, tmp_path, run: Callable[[Path, bool], Ended]):
    assert run(tmp_path / "out", True)[0] == launcher.NO_RESULT == evaluation.NO_RESULT == 65
    assert not (tmp_path / "out" / "results.json").exists()


@GLUE
def test_what_is_measured_is_success(said, tmp_path, run: Callable[[Path, bool], Ended]):
    said += [[], [job(0, "running"), job(1, "pending")], [job(0, "success"), job(1, "success")]]
    leave(tmp_path / "out", "ifeval", "gsm8k")
    assert run(tmp_path / "out", False) == (0, "")
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["results"].keys() == {"ifeval", "gsm8k"}


@GLUE
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ([job(0, "success"), job(1, "success")], "1 of 2 benchmarks have left results"),
        ([job(0, "success"), job(1, "killed")], "1 of 2 benchmarks have not ended well"),
        ([], "nothing is known of any benchmark"),
        ([job(0, "unknown"), job(1, "unknown")], "2 of 2 benchmarks have not ended well"),
        ([{"job_id": None, "status": "not_found"}], "1 of 1 benchmarks have not ended well"),
    ],
)
def test_what_is_not_whole_is_no_success(said, tmp_path, capsys, run: Callable[[Path, bool], Ended], answer, words):
    said.append(answer)
    leave(tmp_path / "out", "ifeval")
    code, error = run(tmp_path / "out", False)
    assert code == 1
    assert words in error + capsys.readouterr().out


def test_both_name_what_is_wrong_in_the_same_words():
    for states, results in (({}, 0), ({"a": "success"}, 0), ({"a": "success"}, 1), ({"a": "failed"}, 1)):
        assert launcher.failure(states, results) == evaluation.failure(states, results)


@pytest.mark.parametrize("recipe", ["nano3/eval", "ultra3/eval", "steps/eval/model_eval"])
def test_the_key_of_the_server_goes_with_the_job(nemotron, recipe):
    words = recipe.split("/") if not recipe.startswith("steps") else ["steps", "run", "eval/model_eval"]
    plan = nemotron(*words, "--dry-run", "--json").json["plan"]
    assert plan["run"]["env"]["secrets"] == ["NGC_API_KEY"]
    other = "launcher.target.api_endpoint.api_key_name=MY_API_KEY"
    assert nemotron(*words, other, "--dry-run", "--json").json["plan"]["run"]["env"]["secrets"] == ["MY_API_KEY"]
