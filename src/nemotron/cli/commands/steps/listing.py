"""`nemotron steps list`: steps by category, tag and the types that they take and make."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nemo_runspec.artifacts.types import Types
from nemo_runspec.catalog import STEPS, Recipe, group_summary
from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.lines import text_lines
from nemo_runspec.runspec import ArtifactSpec
from nemo_runspec.steps import all_steps, category_of, step_id
from nemo_runspec.text import count
from nemotron.cli.forms import CSV, TABLE, WIDE, as_csv, print_data
from nemotron.cli.tables import Cell, Styled, has_room, table_width
from nemotron.cli.text import paint, table, terminal_width

_LEAST_DESCRIPTION = 40
"""Columns that a description is worth showing in, beside the types."""


@dataclass(frozen=True)
class StepFilter:
    """The conditions of a list; all of them hold for a step that is found."""

    category: str | None = None
    consumes: str | None = None
    produces: str | None = None
    tag: str | None = None

    def __str__(self) -> str:
        words = {"is in category": self.category, "takes": self.consumes, "makes": self.produces, "has tag": self.tag}
        return " and ".join(f"{verb} '{word}'" for verb, word in words.items() if word)

    def __bool__(self) -> bool:
        return any((self.category, self.consumes, self.produces, self.tag))


@dataclass(frozen=True)
class StepRow:
    """A step of the list.

    Args:
        matched: of its inputs and outputs, those that were asked for by a type that is another than their own.
    """

    recipe: Recipe
    matched: Mapping[ArtifactSpec, str]

    @property
    def id(self) -> str:
        """Its identifier."""
        return step_id(self.recipe)

    def as_json(self) -> dict[str, Any]:
        """All that is known of it."""
        problem = self.recipe.problem()
        known = {"id": self.id, "category": category_of(self.id)}
        if problem:
            return {**known, "error": problem}
        spec = self.recipe.spec
        return {
            **known,
            "description": spec.description,
            "kind": spec.kind,
            "tags": list(spec.tags),
            "configs": self.recipe.configs(),
            "consumes": [self._artifact(each) for each in spec.consumes],
            "produces": [self._artifact(each) for each in spec.produces],
        }

    def _artifact(self, artifact: ArtifactSpec) -> dict[str, Any]:
        asked = self.matched.get(artifact)
        found = {"name": artifact.name, "type": artifact.type, "required": artifact.required}
        return {**found, "matched": asked} if asked else found

    def types_in(self, artifacts: Iterable[ArtifactSpec], between: str) -> str:
        """The types of its inputs or outputs; `?` behind those that it can do without."""
        artifacts = tuple(artifacts)
        needed = {each.type for each in artifacts if each.required}
        words = []
        for each in artifacts:
            asked = self.matched.get(each)
            sign = "" if each.required or each.type in needed else "?"
            words.append(f"{each.type}{sign}{f' (for {asked})' if asked else ''}")
        return between.join(dict.fromkeys(words))


def call(
    category: str | None, consumes: str | None, produces: str | None, tag: str | None, tree: bool, form: str
) -> int:
    """Prints the list."""
    if tree and form != TABLE:
        raise UserError(f"--tree and {'--json' if form == 'json' else f'-o {form}'} exclude each other")
    rows = select(StepFilter(category, consumes, produces, tag))
    if form == CSV:
        print(as_csv([_flat(row) for row in rows]), end="")
    elif form not in (TABLE, WIDE):
        print_data([row.as_json() for row in rows], form)
    elif not rows:
        print(f"No steps yet. Steps lie under recipes/{STEPS}/<category>/<name>/.")
    else:
        print("\n".join(_tree(rows) if tree else _wide(rows) if form == WIDE else _table(rows)))
    return 0


def select(asked: StepFilter) -> list[StepRow]:
    """The steps that the conditions hold for; without any, those that cannot be read too.

    Raises:
        UserError: a category, type or tag that there is not, or no step that all of them hold for.
    """
    steps = all_steps()
    if not asked:
        return [StepRow(recipe, {}) for recipe in steps]
    readable = [recipe for recipe in steps if not recipe.problem()]
    if len(readable) < len(steps):
        print(f"{count(len(steps) - len(readable), 'step')} cannot be read: nemotron steps lint", file=sys.stderr)
    types = Types.load()
    _check(asked, steps, readable, types)
    found = [row for recipe in readable if (row := _row(recipe, asked, types)) is not None]
    if not found:
        raise UserError(f"no step {asked}", remedy="ask for less; all of them: nemotron steps list")
    return found


def _check(asked: StepFilter, steps: Sequence[Recipe], readable: Sequence[Recipe], types: Types) -> None:
    used = {each.type for recipe in readable for each in (*recipe.spec.consumes, *recipe.spec.produces)}
    there: Sequence[tuple[str, str | None, set[str]]] = (
        ("category", asked.category, {category_of(step_id(recipe)) for recipe in steps}),
        ("type", asked.consumes, {*types.names(), *used}),
        ("type", asked.produces, {*types.names(), *used}),
        ("tag", asked.tag, {tag for recipe in readable for tag in recipe.spec.tags}),
    )
    for word, given, known in there:
        if given is not None and given not in known:
            have = f"there are: {', '.join(sorted(known))}" if known else f"no step has a {word}"
            raise UserError(f"no {word} '{given}'", remedy=did_you_mean(given, known) or have)


def _row(recipe: Recipe, asked: StepFilter, types: Types) -> StepRow | None:
    spec = recipe.spec
    if asked.category not in (None, category_of(step_id(recipe))) or (asked.tag and asked.tag not in spec.tags):
        return None
    takes, makes = asked.consumes, asked.produces
    given = _matching(spec.consumes, takes, lambda own: takes is not None and types.accepts(own, takes))
    made = _matching(spec.produces, makes, lambda own: makes is not None and types.accepts(makes, own))
    return None if given is None or made is None else StepRow(recipe, {**given, **made})


def _matching(
    artifacts: Iterable[ArtifactSpec], asked: str | None, accepts: Callable[[str], bool]
) -> dict[ArtifactSpec, str] | None:
    """Those that the type that is asked for is found by though it is not their own; None where there is none at all."""
    if asked is None:
        return {}
    found = [each for each in artifacts if accepts(each.type)]
    return {each: asked for each in found if each.type != asked} if found else None


def _flat(row: StepRow) -> dict[str, Any]:
    known = row.as_json()
    types = {key: " ".join(each["type"] for each in known.get(key, ())) for key in ("consumes", "produces")}
    return {**known, **types, **{key: " ".join(known.get(key, ())) for key in ("tags", "configs")}}


def _table(rows: Sequence[StepRow]) -> list[str]:
    """The types that each takes and makes; what it does where there is room for it."""
    head = (Styled("STEP", "bold"), Styled("TAKES", "bold"), Styled("MAKES", "bold"))
    read = [row for row in rows if not row.recipe.problem()]
    between = "\n" if terminal_width() else ", "
    cells = [(row.id, *(row.types_in(each, between) for each in (row.recipe.spec.consumes, row.recipe.spec.produces)))
             for row in read]  # fmt: skip
    width = terminal_width()
    lines = [part for line in cells for part in _apart(line)]
    if width is not None and width - table_width([("STEP", "TAKES", "MAKES"), *lines]) - 2 < _LEAST_DESCRIPTION:
        body: list[tuple[Cell, ...]] = [head, *cells]
    else:
        said = [row.recipe.spec.description for row in read]
        whole = [(*line, text) for line, text in zip(cells, said, strict=True)]
        body = [(*head, Styled("DOES", "bold")), *whole]
    return [*table(body, indent=""), *_unread(rows)]


def _apart(line: Sequence[str]) -> list[tuple[str, ...]]:
    """A row whose cells have several lines, as rows of one line."""
    parts = [cell.split("\n") for cell in line]
    return [tuple(part[n] if n < len(part) else "" for part in parts) for n in range(max(map(len, parts)))]


def _unread(rows: Iterable[StepRow]) -> list[str]:
    broken = [(row.id, problem) for row in rows if (problem := row.recipe.problem())]
    if not broken:
        return []
    cells = [(ident, Styled(f"cannot be read: {line}" if not n else line, "red"))
             for ident, problem in broken for n, line in enumerate(text_lines(problem))]  # fmt: skip
    return ["", *table(cells, indent="")]


def _tree(rows: Sequence[StepRow]) -> list[str]:
    """Categories, each with its steps below it."""
    lines: list[str] = []
    for category in dict.fromkeys(category_of(row.id) for row in rows):
        inside = [row for row in rows if category_of(row.id) == category]
        summary = group_summary(f"{STEPS}/{category}")
        lines += [f"{paint(category, 'bold')}{f'  {summary}' if summary else ''}"]
        lines += table([_branch(row, last=row is inside[-1]) for row in inside], indent="  ")
    return lines


def _branch(row: StepRow, *, last: bool) -> tuple[Cell, ...]:
    name, problem = row.id.partition("/")[2], row.recipe.problem()
    said: Cell = Styled(f"cannot be read: {text_lines(problem)[0]}", "red") if problem else row.recipe.spec.description
    asked = "".join(f" ({each.type} for {word})" for each, word in row.matched.items())
    return f"{'└─' if last else '├─'} {name}", said if problem else f"{said}{asked}"


_WIDE = {"STEP": "id", "TAKES": "consumes", "MAKES": "produces", "CONFIGS": "configs", "TAGS": "tags",
         "DOES": "description"}  # fmt: skip


def _wide(rows: Sequence[StepRow]) -> list[str]:
    """Every column; where a terminal has no room for them, one below the other for each step."""
    found = [_flat(row) for row in rows if not row.recipe.problem()]
    lines = [tuple(str(row.get(key) or "") for key in _WIDE.values()) for row in found]
    if has_room([tuple(_WIDE), *lines], terminal_width()):
        body = table([[Styled(head, "bold") for head in _WIDE], *lines], indent="")
    else:
        blocks = ([pair for pair in zip(_WIDE, line, strict=True) if pair[1]] for line in lines)
        body = [line for block in blocks for line in [*table(block, indent=""), ""]][:-1]
    return [*body, *_unread(rows)]
