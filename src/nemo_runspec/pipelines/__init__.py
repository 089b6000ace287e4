"""Pipelines: steps that run one after another, each with what those before it have made."""
