"""The system sections of `env.toml`. They are never profiles and never parents."""

from __future__ import annotations

from collections.abc import Mapping

from nemo_runspec.field import Field
from nemo_runspec.s3_names import REGION

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
        Field(
            "backend",
            "str",
            "Who knows of versions: file (by default) the store alone, wandb also W&B.",
            choices=("file", "wandb"),
        ),
        Field("root", "str", "Where the file store is: a directory as the job sees it, or s3://BUCKET/PREFIX."),
        Field("endpoint", "str", "Of an S3 root: the service's URL; without one AWS_ENDPOINT_URL, else Amazon's."),
        Field("region", "str", f"Of an S3 root: the service's region; without one AWS_REGION, else {REGION}."),
        Field("check", "bool", "Look at inputs and outputs in the job, by their types; true where it is not set."),
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
