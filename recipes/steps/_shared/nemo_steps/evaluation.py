"""Runs benchmarks with lm-eval 0.4.13, or through nemo-evaluator-launcher 0.2.6, and writes `results.json`."""

from __future__ import annotations

import copy
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nemo_steps import files, metrics
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

LM_EVAL_KEYS = ("output_dir", "through", "tasks", "fewshot", "limit", "batch_size", "model", "endpoint")
ENDPOINT_KINDS = {
    "chat": ("local-chat-completions", "/chat/completions"),
    "completions": ("local-completions", "/completions"),
}
"""Kind of endpoint → lm-eval's model for it, and what comes after the server's address."""

ENDED = {"success", "failed", "killed", "error", "not_found"}
POLL_SECONDS = 10.0
UNKNOWN_POLLS = 30
"""So often in a row nothing may be known of any benchmark; then it is not waited for any longer."""

NO_RESULT = 65
"""The exit status of a run that has measured nothing, as it is that of a job whose output is not whole."""


def with_lm_eval(config: Config) -> None:
    """Measure a checkpoint, or what a server offers, in this process.

    Raises:
        ConfigError: neither a model nor an endpoint is named, or both are.
    """
    import lm_eval

    only(config, "", LM_EVAL_KEYS)
    output = output_folder(config)
    tasks = [_task(task) for task in need(config, "tasks", list)]
    model, arguments, options = _model(config)
    found = lm_eval.simple_evaluate(
        model=model,
        model_args=arguments,
        tasks=tasks,
        num_fewshot=find(config, "fewshot", int),
        limit=find(config, "limit", float),
        batch_size=find(config, "batch_size", int) or 1,
        bootstrap_iters=1000,
        **options,
    )
    if not found:
        return  # another process of the job writes
    for task, samples in (found.pop("samples", None) or {}).items():
        files.write_rows(output / f"samples_{task}.jsonl", json.loads(json.dumps(samples, default=str)))
    _write(output, found)


def with_launcher(config: Config) -> None:
    """Measure what a server offers, or what the launcher deploys, each benchmark in a container of its own.

    Args:
        config: `launcher` holds the launcher's own sections (execution, deployment, target, evaluation); with
            `dry_run`, it only writes the scripts that it would run.

    Raises:
        RuntimeError: a benchmark has not ended well, or has left no results.
        SystemExit: the run was a dry one.
    """
    from nemo_evaluator_launcher.api import functional
    from nemo_evaluator_launcher.api.types import RunConfig

    only(config, "", ("output_dir", "through", "launcher", "checkpoint", "dry_run"))
    output = output_folder(config)
    settings = RunConfig.from_hydra(config=str(_launcher_file(config, output)))
    is_dry = bool(find(config, "dry_run", bool))
    invocation = functional.run_eval(settings, dry_run=is_dry)
    if is_dry:
        print(f"no result: {output}/launcher has the scripts that would be run")
        raise SystemExit(NO_RESULT)
    states = _wait(functional.get_status, invocation) if invocation else {}
    made = sorted((output / "launcher").rglob("results.yml"))
    _write(output, {"results": {file.parent.parent.name: _yaml(file) for file in made}, "states": states})
    if wrong := failure(states, len(made)):
        raise RuntimeError(f"{wrong}; see {output}/launcher")


def failure(states: Mapping[str, str], results: int) -> str:
    """What is wrong with a run, by the states of its benchmarks and how many have left results; '' for nothing."""
    if wrong := {job: state for job, state in states.items() if state != "success"}:
        return f"{len(wrong)} of {len(states)} benchmarks have not ended well: {wrong}"
    if not states:
        return "nothing is known of any benchmark"
    return f"{results} of {len(states)} benchmarks have left results" if results < len(states) else ""


def _model(config: Config) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """lm-eval's name of the model, what it is made with, and how it is asked."""
    only(config, "model", ("path", "name", "dtype", "device", "chat_template"))
    only(config, "endpoint", ("url", "model", "kind", "tokenizer", "concurrent", "key_variable"))
    path, url = find(config, "model.path", str), find(config, "endpoint.url", str)
    named = str(files.find(path)) if path else find(config, "model.name", str)
    if bool(named) == bool(url):
        raise ConfigError("name either a model (model.path or model.name) or an endpoint (endpoint.url)")
    if url:
        return _endpoint(config, url)
    arguments = {"pretrained": named, "dtype": find(config, "model.dtype", str) or "auto"}
    has_template = bool(find(config, "model.chat_template", bool))
    return "hf", arguments, {"device": find(config, "model.device", str), "apply_chat_template": has_template}


def _endpoint(config: Config, url: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    kind = find(config, "endpoint.kind", str) or "chat"
    if kind not in ENDPOINT_KINDS:
        raise ConfigError(f"endpoint.kind must be one of {', '.join(ENDPOINT_KINDS)}, not {kind!r}")
    model, ending = ENDPOINT_KINDS[kind]
    if variable := find(config, "endpoint.key_variable", str):
        os.environ["OPENAI_API_KEY"] = os.environ.get(variable, "")
    arguments: dict[str, Any] = {
        "model": need(config, "endpoint.model", str),
        "base_url": url.rstrip("/") + ending,
        "num_concurrent": find(config, "endpoint.concurrent", int) or 1,
        "tokenized_requests": False,
        "tokenizer_backend": "huggingface" if find(config, "endpoint.tokenizer", str) else None,
    }
    if tokenizer := find(config, "endpoint.tokenizer", str):
        arguments["tokenizer"] = str(files.find(tokenizer)) if tokenizer.startswith(files.BUNDLE) else tokenizer
    return model, arguments, {"apply_chat_template": kind == "chat"}


def _task(task: object) -> object:
    """A task as lm-eval takes it: a name, or a table of its own keys, whose data may travel with the job."""
    if not isinstance(task, dict):
        return task
    made = copy.deepcopy(task)
    options = made.get("dataset_kwargs", {})
    if isinstance(options.get("data_files"), str):
        options["data_files"] = str(files.find(options["data_files"]))
    return made


def _wait(status: Any, invocation: str) -> dict[str, str]:
    """The state of every benchmark, when all have ended, or when for long nothing was known of any of them."""
    unknown = 0
    while True:
        states = {str(job["job_id"]): str(job["status"]) for job in status([invocation])}
        ended = sum(state in ENDED for state in states.values())
        metrics.append(step=ended, total_steps=len(states))
        unknown = 0 if set(states.values()) - {"unknown"} else unknown + 1
        if (states and ended == len(states)) or unknown >= UNKNOWN_POLLS:
            return states
        time.sleep(POLL_SECONDS)


def _launcher_file(config: Config, output: Path) -> Path:
    """The launcher's configuration file: its own groups by their `type`, with the sections laid over them.

    Raises:
        ConfigError: a checkpoint is named, and nothing that serves it.
    """
    import yaml

    own = copy.deepcopy(need(config, "launcher", dict))
    if checkpoint := find(config, "checkpoint.megatron", str) or find(config, "checkpoint.hf", str):
        if need(own, "deployment.type", str) == "none":
            raise ConfigError("launcher.deployment.type is none: name what serves the checkpoint, such as vllm")
        own["deployment"]["checkpoint_path"] = str(files.find(checkpoint))
    groups = [{group: own[group].pop("type")} for group in ("execution", "deployment")]
    own["execution"]["output_dir"] = str(output / "launcher")
    file = output / "launcher.yaml"
    file.write_text(yaml.safe_dump({"defaults": [*groups, "_self_"], **own}, sort_keys=False), encoding="utf-8")
    return file


def _yaml(file: Path) -> Any:
    import yaml

    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _write(output: Path, found: dict[str, Any]) -> None:
    (output / "results.json").write_text(json.dumps(found, indent=2, default=str) + "\n", encoding="utf-8")
    for task, scores in found["results"].items():
        shown = {key.partition(",")[0]: value for key, value in scores.items() if isinstance(value, float)}
        print(f"{task}: " + ", ".join(f"{name} {value:.4f}" for name, value in shown.items()))
    print(f"wrote {output / 'results.json'}")
