"""Unique job names, valid on every backend."""

from __future__ import annotations

import re
import secrets
from datetime import datetime, timezone

from nemo_runspec.plans.labels import Labels

MAX_LENGTH = 34
"""Lepton and run:ai cut or refuse longer names; Slurm takes them as they are."""

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM = 8


def name_for(labels: Labels, recipe: str) -> str:
    """A new name for a job: it begins as the person wants, else as its recipe is called."""
    return new_name(subject(labels, recipe))


def subject(labels: Labels, recipe: str) -> str:
    """What a name begins with: the person's word, else the recipe's path, of a step its identifier."""
    from nemo_runspec.catalog import STEPS  # what lists sweeps needs no catalog

    return labels.name or recipe.removeprefix(f"{STEPS}/")


def new_name(recipe: str) -> str:
    """`<recipe>-<MMDD>-<8 random characters>`: an RFC 1123 label of at most 34 characters that starts with a letter.

    40 random bits: among 10,000 jobs of one recipe and day the chance of any two being equal is below 1 in 20,000.
    """
    stamp = datetime.now(timezone.utc).strftime("%m%d")
    tail = f"{stamp}-{''.join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))}"
    slug = re.sub(r"[^a-z0-9]+", "-", recipe.lower()).strip("-") or "job"
    if not slug[0].isalpha():
        slug = f"j-{slug}"
    return f"{slug[: MAX_LENGTH - len(tail) - 1].rstrip('-')}-{tail}"
