"""The system sections of `env.toml`. They are never profiles and never parents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nemo_runspec.field import Field

SYSTEM_SECTIONS: Mapping[str, tuple[Field, ...]] = {
    "wandb": (
        Field("project", "str", "W&B project; WANDB_PROJECT in the job."),
        Field("entity", "str", "W&B entity or team; WANDB_ENTITY in the job."),
        Field("name", "str", "Run name; WANDB_NAME. By default the job's name."),
        Field("group", "str", "Run group; WANDB_RUN_GROUP."),
        Field("job_type", "str", "Job type; WANDB_JOB_TYPE. By default the recipe's name."),
        Field("tags", "list[str]", "Tags; WANDB_TAGS, joined by commas."),
        Field("mode", "str", "WANDB_MODE.", choices=("online", "offline", "disabled", "shared")),
        Field("forward", "bool", "Send on to W&B what a script appends to NEMOTRON_METRICS_FILE."),
        Field("base_url", "str", "Address of a W&B server of your own; WANDB_BASE_URL."),
    ),
    "artifacts": (
        Field("backend", "str", "Where artifacts are kept; wandb if [wandb] exists.", choices=("file", "wandb")),
        Field("root", "str", "Root directory of the file store, as the job sees it."),
    ),
    "cache": (Field("git_dir", "str", "Directory where repositories named by ${auto_mount:…} are cloned."),),
    "cli": (
        Field(
            "theme",
            "str",
            "Colours of scripts and YAML on a terminal, such as github-light; by default the terminal's own.",
        ),
    ),
}

WANDB_VARIABLES: Mapping[str, str] = {
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "name": "WANDB_NAME",
    "group": "WANDB_RUN_GROUP",
    "job_type": "WANDB_JOB_TYPE",
    "tags": "WANDB_TAGS",
    "mode": "WANDB_MODE",
    "base_url": "WANDB_BASE_URL",
}
"""`run.wandb` key → the variable the W&B client reads (its documentation, "Environment variables")."""


def artifact_backend(sections: Mapping[str, Any]) -> str:
    """`[artifacts] backend`, else wandb where there is a `[wandb]` section, else file."""
    named = sections.get("artifacts", {}).get("backend")
    return str(named) if named else ("wandb" if "wandb" in sections else "file")
