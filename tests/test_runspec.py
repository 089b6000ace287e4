"""`[tool.runspec]` headers: what is read, and what is said of a header that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from nemo_runspec.errors import Problems, UserError
from nemo_runspec.runspec import KnownError, Model, Parameter, read_runspec
from nemo_runspec.runspec_keys import LAUNCHERS, pattern_problem

FULL = """\
#!/usr/bin/env python3
# A licence, as files have one.

# /// script
# requires-python = ">=3.11"
# dependencies = ["numpy", "torch>=2"]
#
# [tool.runspec]
# schema = "1"
# name = "family/stage"
# description = "What it does."
# kind = "train"
# tags = ["sft", "tiny-lm"]
# image = "nvcr.io/nvidia/nemo:25.11"
# setup = ["ulimit -n 4096"]
# download = "about 1 GB"
# [tool.runspec.run]
# launch = "ray"
# cmd = "bash -c 'python {script} {config}'"
# workdir = "/opt"
# [tool.runspec.config]
# dir = "./settings"
# default = "small"
# [tool.runspec.resources]
# nodes = 2
# gpus_per_node = 8
# [tool.runspec.env]
# OMP_NUM_THREADS = 4
# [[tool.runspec.consumes]]
# name = "data"
# type = "blend"
# recipe = "family/data"
# [[tool.runspec.produces]]
# name = "model"
# type = "model"
# required = false
# [[tool.runspec.parameters]]
# name = "train.steps"
# description = "How long."
# [[tool.runspec.parameters]]
# name = "model.name"
# description = "Which model."
# type = "str"
# choices = ["small", "large"]
# required = true
# [[tool.runspec.parameters]]
# name = "train.lr"
# description = "How fast."
# type = "float"
# min = -1
# max = 0.5
# [[tool.runspec.models]]
# name = "large"
# description = "The large one."
# parameter = "model.name"
# min_gpus = 8
# [[tool.runspec.errors]]
# pattern = "no blend at (.+)"
# cause = "The data are not prepared."
# remedy = "nemotron family data"
# ///
import sys
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "main.py"
    path.write_text(text, encoding="utf-8")
    return path


def header(*rows: str) -> str:
    return "\n".join(["# /// script", "# [tool.runspec]", *(f"# {row}" for row in rows), "# ///", ""])


def refused(folder: Path, *rows: str) -> UserError:
    with pytest.raises(UserError) as caught:
        read_runspec(write(folder, header(*rows)))
    return caught.value


def test_every_key_is_read(tmp_path):
    spec = read_runspec(write(tmp_path, FULL))
    assert (spec.name, spec.description, spec.kind) == ("family/stage", "What it does.", "train")
    assert (spec.image, spec.setup, spec.download) == ("nvcr.io/nvidia/nemo:25.11", ("ulimit -n 4096",), "about 1 GB")
    assert (spec.launch, spec.workdir, spec.cmd) == ("ray", "/opt", "bash -c 'python {script} {config}'")
    assert (spec.config_dir, spec.config_default, spec.has_config) == ("./settings", "small", True)
    assert (spec.nodes, spec.gpus_per_node, spec.env) == (2, 8, {"OMP_NUM_THREADS": "4"})
    assert (spec.dependencies, spec.requires_python) == (("numpy", "torch>=2"), ">=3.11")
    assert (spec.consumes[0].name, spec.consumes[0].recipe, spec.consumes[0].required) == ("data", "family/data", True)
    assert spec.produces[0].required is False
    assert spec.tags == ("sft", "tiny-lm")
    assert spec.parameters == (
        Parameter("train.steps", "How long."),
        Parameter("model.name", "Which model.", "str", ("small", "large"), required=True),
        Parameter("train.lr", "How fast.", "float", min=-1, max=0.5),
    )
    assert spec.models == (Model("large", "model.name", "The large one.", 8),)
    assert spec.errors == (KnownError("no blend at (.+)", "The data are not prepared.", "nemotron family data"),)
    assert spec.declared


def test_lines_are_those_of_the_file(tmp_path):
    spec = read_runspec(write(tmp_path, FULL))
    rows = FULL.splitlines()
    assert rows[spec.lines["tool.runspec.image"] - 1].startswith("# image")
    assert rows[spec.lines["tool.runspec.resources.nodes"] - 1] == "# nodes = 2"
    assert rows[spec.lines["tool.runspec.parameters.1.choices"] - 1] == '# choices = ["small", "large"]'
    assert rows[spec.lines["tool.runspec.parameters.2"] - 1] == "# [[tool.runspec.parameters]]"


def test_a_minimal_header(tmp_path):
    spec = read_runspec(write(tmp_path, header()))
    assert (spec.launch, spec.config_default, spec.declared, spec.name) == ("torchrun", "default", True, None)


def test_a_script_without_a_block(tmp_path):
    script = write(tmp_path, "print('hello')\n")
    spec = read_runspec(script, required=False)
    assert (spec.launch, spec.has_config, spec.declared) == ("direct", False, False)
    with pytest.raises(UserError, match=r"no \[tool.runspec\]") as caught:
        read_runspec(script)
    assert "nemotron run" in caught.value.remedy


def test_a_block_without_a_runspec_gives_the_dependencies(tmp_path):
    script = write(tmp_path, '# /// script\n# dependencies = ["rich"]\n# ///\n')
    assert read_runspec(script, required=False).dependencies == ("rich",)


PARAMETER = ("[[tool.runspec.parameters]]", "name = 'x'", "description = 'd'")
ERROR = ("[[tool.runspec.errors]]", "cause = 'c'")


@pytest.mark.parametrize(
    ("rows", "line", "words"),
    [
        (["discription = 'x'"], 3, ["unknown key [tool.runspec] discription", "did you mean 'description'?"]),
        (["schema = '2'"], 3, ["must be one of 1, not '2'"]),
        (["kind = 'trian'"], 3, ["did you mean 'train'?"]),
        (["setup = 'one'"], 3, ["setup must be a list"]),
        (["name = 1"], 3, ["name must be a string"]),
        (["[tool.runspec.run]", "launch = 'torchrum'"], 4, [*LAUNCHERS, "did you mean 'torchrun'?"]),
        (["[tool.runspec.resources]", "nodes = true"], 4, ["must be a whole number"]),
        (["[tool.runspec.resources]", "nodes = -1"], 4, ["0 or more, not -1"]),
        (["[[tool.runspec.consumes]]", "name = 'x'", "type = 't'", "typ = 't'"], 6, ["did you mean 'type'?"]),
        (["tags = ['Two Words']"], 3, ["cannot hold 'Two Words'", "one word"]),
        (["tags = 'one'"], 3, ["tags must be a list"]),
        ([*PARAMETER, "type = 'integer'"], 6, ["must be one of int, float", "did you mean 'int'?"]),
        ([*PARAMETER, "choices = []"], 6, ["must be a list of the values"]),
        ([*PARAMETER, "type = 'int'", "choices = [1, 'two']"], 7, ["choices must be of type int, not 'two'"]),
        ([*PARAMETER, "type = 'int'", "choices = [true]"], 7, ["choices must be of type int, not True"]),
        ([*PARAMETER, "min = 'x'"], 6, ["min must be a number"]),
        ([*PARAMETER, "min = 2", "max = 1.5"], 7, ["max is 1.5, below min, 2"]),
        ([*PARAMETER, "type = 'str'", "max = 2"], 7, ["max is for numbers, and the type is str"]),
        ([*PARAMETER, *PARAMETER], 7, ["'x' is there already"]),
        ([*PARAMETER, *ERROR, "pattern = '('"], 8, ["is no regular expression"]),
        ([*PARAMETER, *ERROR, "pattern = 'x*'"], 8, ["matches an empty line"]),
        (["[[tool.runspec.models]]", "name = 'x'", "parameter = 'y'", "min_gpus = -1"], 6, ["0 or more, not -1"]),
        (["[[tool.runspec.models]]", "name = 'x'"], 3, ["[[tool.runspec.models]] needs parameter"]),
        (["[[tool.runspec.parameters]]", "nmae = 'x'", *PARAMETER], 4, ["did you mean 'name'?"]),
    ],
)
def test_a_wrong_key_is_refused_with_its_place(tmp_path, rows, line, words):
    error = refused(tmp_path, *rows)
    first = error.problems[0] if isinstance(error, Problems) else error
    assert first.where.endswith(f"main.py:{line}")
    for word in words:
        assert word in str(first)


def test_all_problems_come_at_once(tmp_path):
    error = refused(tmp_path, "nmae = 'x'", "kind = 'x'", "[tool.runspec.run]", "lunch = 'ray'")
    assert isinstance(error, Problems)
    assert len(error.problems) == 3
    assert [p.where.rpartition(":")[2] for p in error.problems] == ["3", "4", "6"]


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (["[[tool.runspec.consumes]]", "name = 'x'"], "needs type"),
        (["[[tool.runspec.parameters]]", "name = 'x'"], "needs description"),
        (["consumes = ['data']"], "consumes"),
        (["[tool.runspec.run.launch]"], "must be a string"),
        (["schema = 1"], "must be a string"),
        (["x = = 1"], "not valid TOML"),
    ],
)
def test_other_mistakes(tmp_path, rows, word):
    error = refused(tmp_path, *rows)
    assert word in str(error)
    assert error.where or isinstance(error, Problems)


def test_a_toml_mistake_has_the_line_of_the_file(tmp_path):
    script = write(tmp_path, '"""Doc."""\n\n# /// script\n# [tool.runspec]\n# name = oops\n# ///\n')
    with pytest.raises(UserError) as caught:
        read_runspec(script)
    assert caught.value.where.endswith("main.py:5")


@pytest.mark.parametrize("value", ["'numpy'", "[1]", "{}"])
def test_dependencies_of_the_wrong_type(tmp_path, value):
    script = write(tmp_path, f"# /// script\n# dependencies = {value}\n# [tool.runspec]\n# ///\n")
    with pytest.raises(UserError, match="dependencies") as caught:
        read_runspec(script)
    assert caught.value.where is not None


@pytest.mark.parametrize("text", ["# /// script\n# [tool.runspec]\nimport x\n", "# /// script\n# [tool.runspec]\n"])
def test_a_block_without_an_end(tmp_path, text):
    with pytest.raises(UserError, match="has no end") as caught:
        read_runspec(write(tmp_path, text))
    assert "main.py:" in caught.value.where


@pytest.mark.parametrize("value", ["[tool]\n# runspec = 1", "tool = 1"])
def test_a_table_that_is_none(tmp_path, value):
    script = write(tmp_path, f"# /// script\n# {value}\n# ///\n")
    with pytest.raises(UserError):
        read_runspec(script)


def test_a_file_that_is_no_text(tmp_path):
    path = tmp_path / "main.py"
    path.write_bytes(b"# /// script\n# tool.runspec = 1\n# \xff\n# ///\n")
    with pytest.raises(UserError, match="not UTF-8"):
        read_runspec(path)


def test_windows_line_ends(tmp_path):
    path = tmp_path / "main.py"
    path.write_bytes(FULL.replace("\n", "\r\n").encode())
    assert read_runspec(path).image == "nvcr.io/nvidia/nemo:25.11"


def test_a_line_separator_in_a_description(tmp_path):
    assert read_runspec(write(tmp_path, header('description = "a\u2028b"'))).description == "a\u2028b"


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        *(
            (each, "repeats a group")
            for each in ("(a+)+$", "(?:a*b?)*x", "(a|a)*b", "(x|y){2,}+", "(a|a){30}", "(a){,}b")
        ),
        *((each, "in 3 places") for each in (".*a.*b.*c", "x+y{3,}z{0,99}?")),
    ],
)
def test_a_pattern_that_may_take_forever_is_refused(pattern, why):
    assert why in (pattern_problem(pattern) or "")


@pytest.mark.parametrize(
    "pattern",
    [
        "a+b*c",
        "(a+)(b+)",
        "[+*(]+x",
        r"(\d\+)x+",
        "(?:ab){2,3}x",
        "CUDA .*memory",
        "(ab)?c+",
        "x{}y*",
        r"\{\d+,\}",
        "a{5}",
    ],
)
def test_a_pattern_that_is_quick_is_taken(pattern):
    assert pattern_problem(pattern) is None


def test_a_pattern_that_is_too_long_is_refused():
    assert "at most 300" in (pattern_problem("x" * 301) or "")
