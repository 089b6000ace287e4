"""Artifacts: where they lie, which version is the newest."""
