"""What mkdocs does besides: pages that lie outside docs/ stand on the site too, and their links lead there."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]

OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benchmarks/README.md": "benchmarks.md",
    "env.toml.example": "env.toml.example",
}
"""File of the repository → its place on the site."""

_LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Any, config: Any) -> Any:
    """Adds them."""
    for source, place in OUTSIDE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        if place.endswith(".md"):
            text = _LINK.sub(lambda link, source=source: f"]({_place(link[1], source)}{link[2] or ''})", text)
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links of pages in docs/ to files outside of it."""
    return _LINK.sub(lambda link: f"]({_place(f'docs/{link[1]}', '')}{link[2] or ''})", markdown)


def _place(link: str, source: str) -> str:
    """Where a file that is linked to stands on the site, from its top: all pages lie there."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    return OUTSIDE.get(path, path.removeprefix("docs/"))
