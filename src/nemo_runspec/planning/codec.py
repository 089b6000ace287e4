"""The plan as JSON: one versioned form for saving, comparing, applying and retrying."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from nemo_runspec.backends import get_backend
from nemo_runspec.errors import UserError
from nemo_runspec.paths import expanded, write_output
from nemo_runspec.planning.missing_values import missing_secret
from nemo_runspec.planning.validate import check_plan
from nemo_runspec.plans.labels import Labels
from nemo_runspec.plans.model import PLAN_SCHEMA, Plan
from nemo_runspec.plans.target import Target
from nemo_runspec.regular import MOST
from nemo_runspec.source import Source, display_path
from nemo_runspec.typed_json import plain, read_any, read_value

_MISSING_IN_0_1_0 = re.compile(r"secret (\S+) was not found in the environment or a login file")


def plan_to_json(plan: Plan) -> str:
    """The plan's JSON text, keys in the order of the declarations. Holds no secret value."""
    return json.dumps(plan_to_dict(plan), indent=2, ensure_ascii=False) + "\n"


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """The plan as plain tables, lists and scalars; what 0.1.0 does not know of a plan only where there is any of it."""
    data: dict[str, Any] = plain(plan, (Source,))
    for name, known in (("missing_secrets", bool(plan.missing_secrets)), ("labels", plan.labels != Labels())):
        if not known:
            del data[name]
    if plan.ray is None:
        del data["ray"]
    if not plan.recipe.errors:
        del data["recipe"]["errors"]
    for artifact in (*data["consumes"], *data["produces"]):
        if not artifact["check"]:
            del artifact["check"]
    if not plan.python.uv:
        del data["python"]["uv"]
    return {"schema": data.pop("schema"), **data}


def plan_from_json(text: str, shown: str) -> Plan:
    """Reads a saved plan.

    Raises:
        UserError: not JSON, not a plan, or of a schema this version does not know.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"not a saved plan: {error}", where=shown) from None
    if not isinstance(data, dict) or "schema" not in data or "recipe" not in data:
        remedy = "save one: --dry-run --out plan.json, or from Python plan.save('plan.json')"
        raise UserError("not a saved plan", where=shown, remedy=remedy)
    if data["schema"] != PLAN_SCHEMA:
        raise UserError(
            f"the plan has schema {data['schema']!r}; this nemotron reads schema {PLAN_SCHEMA}",
            where=shown,
            remedy="make the plan again with this version",
        )
    try:
        known = {"missing_secrets": _named_in(data.get("unfilled") or ()), **data}
        plan = read_value(Plan, {**known, "target": Target()}, "plan")  # its executor tells its type
        module, _, name = get_backend(plan.executor).target_type.partition(":")
        target = read_any(getattr(import_module(module), name), data.get("target"), "target")
    except (TypeError, KeyError, ValueError) as error:
        raise UserError(f"the saved plan is damaged: {error}", where=shown) from None
    except UserError as error:
        raise UserError(f"the saved plan is damaged: {error.what}", where=shown) from None
    return dataclasses.replace(plan, target=target)


def _named_in(lines: Sequence[object]) -> dict[str, Any]:
    """The missing secrets of a plan that release 0.1.0 saved: its lines alone name them."""
    found = (_MISSING_IN_0_1_0.fullmatch(str(line)) for line in lines)
    return {match[1]: plain(missing_secret(match[1])) for match in found if match}


def save_plan(plan: Plan, path: str | Path) -> Path:
    """Writes a plan's JSON; the file. `path`: `~` is the home directory.

    Raises:
        UserError: it cannot be written.
    """
    target = expanded(str(path))
    try:
        write_output(target, plan_to_json(plan))
    except OSError as error:
        raise UserError(f"cannot save the plan: {error.strerror}", where=str(target)) from None
    return target


def load_plan(path: Path) -> Plan:
    """Reads a plan file, which anybody may have edited.

    Raises:
        UserError: as `plan_from_json` and `validate.check_plan`, and where the file cannot be read.
    """
    shown = display_path(path)
    try:
        with path.open("rb") as file:  # a pipe too: `nemotron apply <(…)`
            content = file.read(MOST + 1)
        if len(content) > MOST:
            raise UserError(
                f"{shown} is larger than {MOST >> 20} MiB", where=shown, remedy="it is no plan of nemotron's"
            )
        plan = plan_from_json(content.decode("utf-8"), shown)
        check_plan(plan, shown)
        return plan
    except OSError as error:
        raise UserError(f"cannot read {shown}: {error.strerror}", where=shown) from None
    except UnicodeDecodeError:
        raise UserError(f"{shown} is not a text file", where=shown) from None
