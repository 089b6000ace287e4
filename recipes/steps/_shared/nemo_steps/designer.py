"""Lets a served model write records, or columns beside rows, with Data Designer 0.9.6."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nemo_steps import files
from nemo_steps.config import Config, ConfigError, find, need, only

MODEL = "writer"
"""By what columns name the model."""
PROVIDER = "endpoint"
"""By what models name the server."""


def generate(
    config: Config, work: Path, wanted: int, designer: dict[str, Any], seeds: Iterable[dict[str, Any]] | None = None
) -> list[dict[str, Any]]:
    """The records that Data Designer has made; fewer than wanted where the model failed on some.

    Args:
        config: `endpoint` (url, key_variable): the server that models with the provider `endpoint` are asked at.
        work: a folder for what Data Designer keeps meanwhile; removed when all is well.
        wanted: how many records to ask for.
        designer: Data Designer's own configuration: model_configs, columns, …
        seeds: rows to build on; a prompt may name their keys.

    Raises:
        ConfigError: `designer` is no such configuration, or the variable that should hold the server's key is not set.
    """
    os.environ.setdefault("NEMO_TELEMETRY_ENABLED", "false")
    from data_designer.config import DataDesignerConfigBuilder, LocalFileSeedSource
    from data_designer.interface import DataDesigner
    from pydantic import ValidationError

    try:
        builder = DataDesignerConfigBuilder.from_config(designer)
    except ValidationError as error:
        raise ConfigError(f"designer: {error}") from error
    provider = _provider(config)
    work.mkdir(parents=True, exist_ok=True)
    if seeds is not None:
        files.write_rows(work / "seeds.jsonl", seeds)
        builder.with_seed_dataset(LocalFileSeedSource(path=str(work / "seeds.jsonl")))
    results = DataDesigner(artifact_path=work, model_providers=[provider]).create(
        builder, num_records=wanted, dataset_name="rows"
    )
    made = json.loads(results.load_dataset().to_json(orient="records"))
    shutil.rmtree(work)
    return list(made)


def write_columns(
    config: Config, work: Path, seeds: list[dict[str, Any]], columns: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows with the columns that the model has written; rows on which it failed are left out.

    Args:
        config: `endpoint`, and `model` (name, temperature, max_tokens, parallel).
        work: as in `generate`.
        seeds: the rows; a prompt may name their keys.
        columns: as Data Designer has them, for the model `MODEL`.
    """
    return generate(config, work, len(seeds), {"model_configs": [_model(config)], "columns": columns}, seeds)


def _provider(config: Config) -> Any:
    from data_designer.config import ModelProvider

    only(config, "endpoint", ("url", "key_variable"))
    variable = find(config, "endpoint.key_variable", str)
    if variable and variable not in os.environ:
        raise ConfigError(f"endpoint.key_variable names {variable}, which is not set in the job")
    return ModelProvider(name=PROVIDER, endpoint=need(config, "endpoint.url", str), api_key=variable)


def _model(config: Config) -> dict[str, Any]:
    only(config, "model", ("name", "temperature", "max_tokens", "parallel"))
    parameters = {
        "temperature": need(config, "model.temperature", float),
        "max_tokens": need(config, "model.max_tokens", int),
        "max_parallel_requests": need(config, "model.parallel", int),
    }
    name = need(config, "model.name", str)
    return {"alias": MODEL, "provider": PROVIDER, "model": name, "inference_parameters": parameters}
