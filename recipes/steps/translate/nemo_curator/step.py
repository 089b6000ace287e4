# /// script
# requires-python = ">=3.11"
# dependencies = [
#   "iso639-lang==2.6.3",
#   "nemo-curator==1.4.0",
#   "pyyaml==6.0.3",
#   "torch==2.13.0",
# ]
#
# [tool.runspec]
# schema = "1"
# name = "steps/translate/nemo_curator"
# description = "Translate documents with NeMo Curator through an OpenAI-compatible model server."
# kind = "data"
# tags = ["translate", "nemo-curator"]
# download = "about 400 MB with the CPU build of torch"
#
# [tool.runspec.run]
# launch = "direct"
#
# [tool.runspec.config]
# dir = "./config"
# default = "default"
#
# [tool.runspec.resources]
# nodes = 1
# gpus_per_node = 0
#
# [tool.runspec.env]
# RAY_ENABLE_UV_RUN_RUNTIME_ENV = "0"
#
# [[tool.runspec.consumes]]
# name = "data"
# type = "filtered_jsonl"
# description = "Documents to translate: a file with JSON lines, or a folder of them."
#
# [[tool.runspec.produces]]
# name = "translated"
# type = "translated_jsonl"
# description = "The same documents with the translation in place of the text, or beside it."
#
# [[tool.runspec.parameters]]
# name = "source_lang"
# description = "Language of the texts, an ISO 639-1 code."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "target_lang"
# description = "Language to translate into, an ISO 639-1 code."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "text_field"
# description = "The key of a row that holds the text."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "segments"
# description = "What is translated at a time: coarse (lines), or fine (sentences, which needs spaCy)."
# choices = ["coarse", "fine"]
#
# [[tool.runspec.parameters]]
# name = "output_mode"
# description = "The translation in place of the text (replaced), beside it (raw), or both with what was said of it."
# choices = ["replaced", "raw", "both"]
#
# [[tool.runspec.parameters]]
# name = "max_failed_share"
# description = "With a larger share of documents that lack a translated part the job fails."
# type = "float"
# min = 0
# max = 1
#
# [[tool.runspec.parameters]]
# name = "endpoint.url"
# description = "Address of an OpenAI-compatible server, with /v1."
# type = "str"
#
# [[tool.runspec.parameters]]
# name = "model.name"
# description = "The model, as the server names it."
# type = "str"
#
# [[tool.runspec.errors]]
# pattern = "LLM health check failed"
# cause = "The model server does not answer, or not as this model."
# remedy = "start it, and correct endpoint.url, endpoint.key_variable and model.name"
# ///
"""Translates documents with NeMo Curator's stages, which ask a served model; Ray runs them on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "_shared"))

from nemo_steps import files, metrics, runner
from nemo_steps.config import Config, ConfigError, find, need, only, output_folder

KEYS = ("output_dir", "data", "files_per_partition", "cpus", "source_lang", "target_lang", "text_field", "segments")
MORE_KEYS = ("output_mode", "max_failed_share", "endpoint", "model")
SECTIONS = {"endpoint": ("url", "key_variable"), "model": ("name", "temperature", "max_tokens", "parallel")}
NEW = "translated_text"
"""The key of a translation that stands beside its text."""
ONE_REQUEST_EACH = {"Connection": "close"}
"""NeMo Curator 1.4.0 translates every batch in an event loop of its own: a connection kept from the one before is dead,
and what is asked through it fails with 'Event loop is closed'."""


def main(config: Config) -> None:
    """Run the pipeline, and say how many documents were translated."""
    only(config, "", (*KEYS, *MORE_KEYS))
    for section, keys in SECTIONS.items():
        only(config, section, keys)
    output, sources = output_folder(config), files.row_files(need(config, "data", str))
    for old in output.glob("*.jsonl"):
        old.unlink()  # of an attempt before this one
    field = need(config, "text_field", str)
    wanted = sum(1 for row in files.read_rows(sources) if str(row.get(field) or "").strip())
    if not wanted:
        raise ConfigError(f"no row has a text under {field!r}: see text_field")
    run(list(stages(config, sources, output)), find(config, "cpus", int))
    made = sum(1 for row in files.read_rows(sorted(output.glob("*.jsonl"))) if is_translated(row))
    metrics.append(step=wanted, total_steps=wanted, translated=made)
    print(f"translated {made} of {wanted} documents")
    if wanted - made > wanted * need(config, "max_failed_share", float):
        raise RuntimeError(f"{wanted - made} of {wanted} documents were not translated whole: see the log above")
    print(f"wrote {output}")


def is_translated(row: dict[str, Any]) -> bool:
    """Whether a translation is there, all of it: a part on which the model failed is empty and has an error."""
    made = str(row.get(NEW) or row.get("translation_metadata") or "")  # the latter alone where output_mode is raw
    return bool(made.strip()) and not row.get("translation_errors")


def stages(config: Config, sources: list[Path], output: Path) -> Iterator[Any]:
    """The pipeline's stages: read, translate, write."""
    from nemo_curator.models.client import AsyncOpenAIClient
    from nemo_curator.models.client.llm_client import GenerationConfig
    from nemo_curator.stages.text.experimental.translation import TranslationStage
    from nemo_curator.stages.text.io.reader import JsonlReader
    from nemo_curator.stages.text.io.writer import JsonlWriter

    parallel = need(config, "model.parallel", int)
    url, key = need(config, "endpoint.url", str), key_of(config)
    yield JsonlReader(
        file_paths=[str(source) for source in sources], files_per_partition=need(config, "files_per_partition", int)
    )
    yield TranslationStage(
        source_lang=need(config, "source_lang", str),
        target_lang=need(config, "target_lang", str),
        text_field=need(config, "text_field", str),
        output_field=NEW,
        segmentation_mode=need(config, "segments", str),
        output_mode=need(config, "output_mode", str),
        client=AsyncOpenAIClient(
            base_url=url, api_key=key, max_concurrent_requests=parallel, default_headers=ONE_REQUEST_EACH
        ),
        model_name=need(config, "model.name", str),
        generation_config=GenerationConfig(
            max_tokens=need(config, "model.max_tokens", int), temperature=need(config, "model.temperature", float)
        ),
        max_concurrent_requests=parallel,
    )
    yield JsonlWriter(path=str(output))


def key_of(config: Config) -> str:
    """The server's key; a server that asks for none gets a word that says so.

    Raises:
        ConfigError: the variable that should hold it is not set.
    """
    variable = find(config, "endpoint.key_variable", str)
    if variable and variable not in os.environ:
        raise ConfigError(f"endpoint.key_variable names {variable}, which is not set in the job")
    return os.environ[variable] if variable else "none"


def run(pipeline: list[Any], cpus: int | None) -> None:
    """Run stages on a Ray of this process's own, or on the one that RAY_ADDRESS names."""
    import ray
    from nemo_curator.backends.ray_data import RayDataExecutor
    from nemo_curator.pipeline import Pipeline

    ray.init(num_cpus=cpus, num_gpus=0, include_dashboard=False)
    Pipeline(name="translate", stages=pipeline).run(RayDataExecutor())
    ray.shutdown()


if __name__ == "__main__":
    sys.exit(runner.start("Translate documents.", main))
