"""The graph of versions, and of data that nobody registered: what was made from what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.artifacts.registry import Registry, Version


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One thing in the graph. `label`: a reference or a path; `version`: None for what is no version."""

    label: str
    type: str
    version: Version | None = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The graph around a version.

    Args:
        nodes: by label.
        edges: from what was read to what was made of it.
    """

    version: Version
    nodes: Mapping[str, LineageNode]
    edges: Sequence[tuple[str, str]]

    def sources(self, label: str) -> list[str]:
        """What it was made from."""
        return [first for first, second in self.edges if second == label]

    def results(self, label: str) -> list[str]:
        """What was made from it."""
        return [second for first, second in self.edges if first == label]


def lineage_of(registry: Registry, version: Version) -> Lineage:
    """The graph of a version: all that it comes from, and all that comes from it."""
    nodes: dict[str, LineageNode] = {}
    edges: dict[tuple[str, str], None] = {}
    made = _made_from(registry)

    def walk(one: Version, further: Callable[[Version], Iterator[tuple[LineageNode, bool]]]) -> None:
        pending = [one]
        seen = set()
        while pending:
            now = pending.pop()
            if now.reference in seen:
                continue
            seen.add(now.reference)
            nodes[now.reference] = LineageNode(now.reference, now.type, now)
            for other, is_source in further(now):
                nodes.setdefault(other.label, other)
                edges[(other.label, now.reference) if is_source else (now.reference, other.label)] = None
                if other.version is not None:
                    pending.append(other.version)

    walk(version, lambda one: ((_source(registry, known), True) for known in one.inputs))
    walk(version, lambda one: ((LineageNode(o.reference, o.type, o), False) for o in made.get(one.reference, ())))
    return Lineage(version, nodes, list(edges))


def _source(registry: Registry, known: Mapping[str, Any]) -> LineageNode:
    found = registry.source_of(known) or registry.by_path(str(known.get("path", "")))
    if found is not None:
        return LineageNode(found.reference, found.type, found)
    gone = f"{known.get('name')}:v{known['version']} (removed)" if known.get("version") is not None else ""
    return LineageNode(gone or str(known.get("path", "")), str(known.get("type", "")))


def _made_from(registry: Registry) -> dict[str, list[Version]]:
    """Reference → what was made from it; one pass over all versions."""
    found: dict[str, list[Version]] = {}
    for version in registry.everything():
        for known in version.inputs:
            source = registry.source_of(known) or registry.by_path(str(known.get("path", "")))
            if source is not None:
                found.setdefault(source.reference, []).append(version)
    return found
