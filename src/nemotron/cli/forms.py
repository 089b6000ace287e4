"""`-o wide|yaml|csv|json` of lists and tables: the options, and plain data in these forms."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from nemo_runspec.errors import UserError, did_you_mean
from nemotron.cli.click import Parameter, TyperOption
from nemotron.cli.parameters import option

TABLE, WIDE, YAML, CSV, JSON = "table", "wide", "yaml", "csv", "json"
FORMS = (WIDE, YAML, CSV, JSON)

_MANY = 1000
"""Items of a list."""


def output_options() -> list[Parameter]:
    """Parser parameters of `-o` and `--json`."""
    form = TyperOption(
        param_decls=["output", "-o", "--output"], type=str, default=None, metavar="|".join(FORMS), show_default=False,
        help="wide: every column, and nothing cut. json is --json.", shell_complete=_complete_forms,
    )  # fmt: skip
    return [form, option("--json", "Machine-readable output.")]


def formed(call: Callable[..., int]) -> Callable[..., int]:
    """The command function, given one of the forms as `form` in the place of the options of `output_options`."""

    def chosen(output: str | None, as_json: bool, **given: Any) -> int:
        return call(form=form_of(output, as_json), **given)

    return chosen


def form_of(output: str | None, as_json: bool) -> str:
    """How the result is to be shown.

    Raises:
        UserError: there is no such form, or two are asked for.
    """
    if output is not None and output not in FORMS:
        raise UserError(
            f"--output: there is no form '{output}'",
            remedy=did_you_mean(output, FORMS) or f"forms: {', '.join(FORMS)}",
        )
    if as_json and output not in (None, JSON):
        raise UserError(f"--json and -o {output} exclude each other", remedy="leave one of them out")
    return JSON if as_json else output or TABLE


def print_data(data: Any, form: str) -> None:
    """Prints plain data as JSON or YAML."""
    if form == JSON:
        print_json(data)
        return
    import yaml

    plain = json.loads(json.dumps(data, default=str))
    print(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=1_000_000), end="")


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line for each row below the names of all that any has, numbers in full."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(names)
    lines.writerows([row.get(name) for name in names] for row in rows)
    return text.getvalue()


def _complete_forms(_ctx: Any, _param: Any, incomplete: str) -> list[str]:
    return [form for form in FORMS if form.startswith(incomplete)]


def print_json(value: Any) -> None:
    """JSON that every reader takes: a number that JSON has no word for is its text, `"nan"`, as in records.

    Of a list that nobody reads by eye any more, each item stands on a line: it is written ten times as fast.
    """
    if isinstance(value, list) and len(value) > _MANY:
        print("[\n" + ",\n".join(map(json_text, value)) + "\n]")
    else:
        print(json_text(value, indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """The same as text, on one line without `indent`."""
    try:
        return _encoder(indent).encode(value)
    except ValueError:
        return json.dumps(_plain(value), indent=indent, ensure_ascii=False)


@cache
def _encoder(indent: int | None) -> json.JSONEncoder:
    return json.JSONEncoder(indent=indent, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
