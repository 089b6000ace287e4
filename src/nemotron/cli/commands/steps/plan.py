"""`nemotron steps plan`: which steps lead from what one has to what one wants."""

from __future__ import annotations

import json
from typing import Any

from nemo_runspec.artifacts.chains import Chains
from nemo_runspec.artifacts.graph import Graph
from nemo_runspec.artifacts.wiring import Supply, WiredStep, wired
from nemo_runspec.catalog import Recipe
from nemo_runspec.errors import UserError
from nemo_runspec.text import count
from nemotron.cli.commands.steps.loaded import load_graph
from nemotron.cli.text import table

_MOST = 50
"""Chains that are printed with --all."""


def call(have: tuple[str, ...], to: str | None, *, show_all: bool, as_json: bool) -> int:
    """Tells the shortest chains; the exit code is 1 where there is none.

    Args:
        have: what there is, what the chain begins with first.
        to: what is wanted.

    Raises:
        UserError: a type that there is not; nothing leads there.
    """
    if to is None:
        raise UserError("what do you want? --to is missing", remedy="nemotron steps plan --from raw_jsonl --to binidx")
    graph, recipes = load_graph()
    found = graph.chain(have, to)
    shown = [wired(graph, chain, found.have) for chain in found.chains[: _MOST if show_all else 1]]
    if as_json:
        print(json.dumps(_as_json(found, graph, recipes), indent=2))
        return 0 if found.chains else 1
    if not found.chains:
        raise _none(graph, found)
    print("\n\n".join(_told(found, chain, graph, recipes) for chain in shown))
    left = len(found.chains) - len(shown)
    if left:
        others = "1 other is as short" if left == 1 else f"{left} others are as short"
        print(f"\n{others}{'' if show_all else ': --all shows them'}")
    return 0


def _none(graph: Graph, found: Chains) -> UserError:
    begin = " and ".join(found.have) or "nothing"
    if found.want in found.missing:
        why, remedy = "no step makes that", f"see what reads it: nemotron steps graph --from {found.want}"
    elif found.missing:
        why = f"no step makes {', '.join(found.missing)}, which would be needed"
        remedy = "say that you have it, too: " + " ".join(f"--from {n}" for n in (*found.have, *found.missing))
    elif found.have and graph.chain([], found.want).chains:
        why = f"it is made without {found.have[0]}"
        remedy = f"nemotron steps plan --to {found.want}"
    else:
        why = "what its steps need is made of itself alone"
        remedy = f"see what leads there: nemotron steps graph --to {found.want}"
    error = UserError(f"nothing leads from {begin} to {found.want}: {why}", remedy=remedy)
    error.exit_code = 1
    return error


def _told(found: Chains, chain: list[WiredStep], graph: Graph, recipes: dict[str, Recipe]) -> str:
    begin = " and ".join(found.have) or "nothing"
    if not chain:
        own = next(name for name in found.have if graph.types.accepts(found.want, name))
        also = "" if own == found.want else f": every {own} is a {found.want}"
        return f"{begin} → {found.want}: nothing to be done{also}"
    doubt = "" if found.shortest else "; there may be a shorter way: not all were tried"
    rows = [(f"  {n}", step.id, _way(step)) for n, step in enumerate(chain, 1)]
    lines = [f"{begin} → {found.want}: {count(len(chain), 'step')}{doubt}", "", *table(rows), "", "one after another:"]
    lines += [f"  {line}" for line in _commands(chain, recipes)]
    return "\n".join([*lines, "all at once:", f"  {_pipe(chain, recipes)}"])


def _way(step: WiredStep) -> str:
    inputs = [w.given if w.given == w.type else f"{w.given} (is {w.type})" for w in step.inputs]
    return f"{' + '.join(inputs) or 'nothing'} → {', '.join(step.makes)}"


def _commands(chain: list[WiredStep], recipes: dict[str, Recipe]) -> list[str]:
    return [" ".join(_command(step, recipes)) for step in chain]


def _command(step: WiredStep, recipes: dict[str, Recipe]) -> list[str]:
    config = _config(step, recipes[step.id])
    named = ["-c", config] if config else []
    return ["nemotron steps run", step.id, *named, *(_override(w, recipes) for w in step.inputs)]


def _override(wire: Supply, recipes: dict[str, Recipe]) -> str:
    """What the user fills in is written large, as in a usage line."""
    artifact = _artifact(recipes[wire.step], wire.output) if wire.step else None
    return f"run.{wire.name}={artifact}:latest" if artifact else f"run.{wire.name}.path={wire.given.upper()}"


def _config(step: WiredStep, recipe: Recipe) -> str:
    """The configuration that asks for an optional input which is given, where the default one does not; '' for that."""
    given = [w.name for w in step.inputs if not w.required]
    asking = [name for name in recipe.configs() if any(_asks(recipe, name, each) for each in given)]
    return asking[0] if asking and recipe.spec.config_default not in asking else ""


def _asks(recipe: Recipe, config: str, name: str) -> bool:
    own = _run(recipe, config).get(name)
    return isinstance(own, dict) and own.get("path") == "???"


def _artifact(recipe: Recipe, output: str) -> str | None:
    """The name under which a step keeps an output, as its default configuration has it."""
    own = _run(recipe, recipe.spec.config_default).get(output)
    name = own.get("artifact") if isinstance(own, dict) else None
    return name if isinstance(name, str) and "${" not in name else None


def _run(recipe: Recipe, config: str) -> dict[str, Any]:
    """A configuration's `run` section as it is written; empty where it cannot be read."""
    import yaml

    try:
        text = (recipe.config_dir / f"{config}.yaml").read_text(encoding="utf-8")
        run = (yaml.safe_load(text) or {}).get("run")
    except (OSError, ValueError, AttributeError, yaml.YAMLError):
        return {}
    return run if isinstance(run, dict) else {}


def _pipe(chain: list[WiredStep], recipes: dict[str, Recipe]) -> str:
    """What no step of the chain makes is given to the step that reads it."""
    given = [f"{step.id}:run.{w.name}.path={w.given.upper()}" for step in chain for w in step.inputs if not w.step]
    configs = {step.id: _config(step, recipes[step.id]) for step in chain}
    named = (f"{ident}@{config}" if config else ident for ident, config in configs.items())
    return " ".join(("nemotron pipe", *named, *given))


def _as_json(found: Chains, graph: Graph, recipes: dict[str, Recipe]) -> dict[str, Any]:
    chains = [wired(graph, chain, found.have) for chain in found.chains[:_MOST]]
    return {
        "from": list(found.have),
        "to": found.want,
        "shortest": found.shortest,
        "missing": list(found.missing),
        "chains": [_chain_as_json(chain, recipes) for chain in chains],
    }


def _chain_as_json(chain: list[WiredStep], recipes: dict[str, Recipe]) -> dict[str, Any]:
    steps = [
        {
            "id": step.id,
            "inputs": [
                {"name": w.name, "type": w.type, "given": w.given, "step": w.step or None, "output": w.output or None}
                for w in step.inputs
            ],
            "produces": list(step.makes),
        }
        for step in chain
    ]
    return {"steps": steps, "commands": _commands(chain, recipes), "pipe": _pipe(chain, recipes) if chain else None}
