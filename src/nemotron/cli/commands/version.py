"""`nemotron version`: the version, and for a report of an error what else is installed."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from nemo_runspec import tracing
from nemotron.cli.click import Command
from nemotron.cli.parameters import command, option
from nemotron.cli.text import table

_PARTS = ("nemo-run", "leptonai", "hydra-core", "typer", "rich", "uv")


def make(help_text: str) -> Command:
    """The command."""
    return command("version", help_text, _call, option("--json", "Machine-readable output."))


def _call(as_json: bool) -> int:
    import nemotron

    if as_json:
        print(json.dumps({"nemotron": nemotron.__version__, **_facts()}, indent=2))
        return 0
    print(f"nemotron {nemotron.__version__}")
    if tracing.is_heard():
        print("\n".join(table(list(_facts().items()))))
    return 0


def _facts() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    import nemotron

    found = {
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "folder": str(Path(nemotron.__file__).parent),
    }
    for name in _PARTS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
