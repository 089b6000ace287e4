"""Turns a plan into a job: leftovers refused, missing inputs made first, submitted attached or detached, run again."""
