"""`nemotron artifacts diff`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nemo_runspec.text import size
from nemotron.cli.commands.artifacts.opening import opened, tell_problems
from nemotron.cli.commands.artifacts.show import input_text
from nemotron.cli.forms import print_json
from nemotron.cli.tables import Styled
from nemotron.cli.text import table

if TYPE_CHECKING:
    from nemo_runspec.artifacts.registry import Registry, Version

_ABSENT = "-"


def call(first: str, second: str, profile: str | None, root: str | None, as_json: bool) -> int:
    """Prints what differs; the exit code is 0 also where something does."""
    second = f"{first.partition(':')[0]}{second}" if second.startswith(":") else second
    registry = opened(profile, root)
    pair = registry.get(first), registry.get(second)
    tell_problems(registry)
    left, right = (_facts(registry, version) for version in pair)
    different = {key: (left.get(key), right.get(key)) for key in {**left, **right} if left.get(key) != right.get(key)}
    names = [version.reference for version in pair]
    if as_json:
        print_json({"versions": names, "differs": {k: list(v) for k, v in different.items()}})
        return 0
    if not different:
        print(f"{names[0]} and {names[1]} do not differ in configuration, code, inputs or content.")
        return 0
    rows = [[_shown(key, value) for value in values] for key, values in different.items()]
    head = [Styled("", "bold"), *(Styled(name, "bold") for name in names)]
    print("\n".join(table([head, *([key, *row] for key, row in zip(different, rows, strict=True))], indent="")))
    return 0


def _facts(registry: Registry, version: Version) -> dict[str, Any]:
    return dict(_each(registry, version))


def _each(registry: Registry, version: Version) -> Iterator[tuple[str, Any]]:
    for key in ("recipe", "config", "profile", "executor"):
        yield key, version.producer.get(key)
    yield "overrides", " ".join(version.producer.get("overrides") or ()) or None
    for key, value in (version.producer.get("code") or {}).items():
        yield f"code {key}", value
    for known in version.inputs:
        yield f"input {known.get('input')}", input_text(known)
        yield f"input {known.get('input')} digest", known.get("digest")
    yield from ((f"config {key}", value) for key, value in _config(registry, version).items())
    yield "type", version.type
    yield "size", version.size
    yield "files", version.files
    yield "digest", version.digest


def _config(registry: Registry, version: Version) -> Mapping[str, Any]:
    """The values of its configuration by dotted names. Where they name the job itself, they name its version."""
    text = registry.config(version)
    if not text:
        return {}
    import yaml

    from nemo_runspec.profiles.layers import flatten

    try:
        found = yaml.safe_load(text.replace(version.job, "JOB") if version.job else text)
    except yaml.YAMLError:
        return {}
    return flatten(found) if isinstance(found, dict) else {}


def _shown(key: str, value: Any) -> str:
    if value is None:
        return _ABSENT
    if key == "size":
        return f"{size(value)} ({value:,} bytes)" if value >= 1000 else f"{value} bytes"
    text = str(value)
    return text[:19] if "digest" in key or key.startswith("code ") else text
