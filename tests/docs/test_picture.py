"""README's picture is what a terminal shows: drawn by docs/make_picture.py, and held against it here."""

from __future__ import annotations

import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
OTHER_EACH_TIME = re.compile(r"\b[0-9a-f]{12}\b|nano3-pretrain-\d{4}-[a-z0-9]{8}|\d[\d,.]*")
"""Digests, the job's name, counts and sizes: they follow the recipe's files and the day, not the page's looks."""


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_picture", ROOT / "docs" / "make_picture.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def lines_of(svg: str) -> list[str]:
    """What the picture shows, line by line."""
    rows: dict[float, str] = {}
    for place, text in re.findall(
        r'<text class="nemotron-dry-run-r\d+" x="[\d.]+" y="([\d.]+)"[^>]*>(.*?)</text>', svg
    ):
        rows[float(place)] = rows.get(float(place), "") + html.unescape(text).replace("\xa0", " ")
    return [OTHER_EACH_TIME.sub("N", rows[place]).rstrip() for place in sorted(rows)]


@pytest.mark.slow
def test_the_picture_is_what_a_terminal_shows(picture: ModuleType):
    kept = lines_of(picture.TARGET.read_text(encoding="utf-8"))
    assert len(kept) > 30
    assert kept == lines_of(picture.drawn(picture.screen())), "draw it anew: uv run python docs/make_picture.py"


def test_the_readme_shows_it():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "](docs/dry-run.svg)" in text
