"""The job bundle: what it holds, each file once, and a digest that planner and backend agree on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import HEADER

from nemo_runspec.catalog import Recipe, find_recipe, find_recipes, script_of_ones_own
from nemo_runspec.errors import UserError
from nemo_runspec.packaging.bundle import digest, make_bundle, script_in_bundle
from nemo_runspec.submission.bundle import read_bundle, write_bundle


def write(root: Path, path: str, text: str = "") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def names(recipe: Recipe) -> list[str]:
    return [file.path for file in make_bundle(recipe).files]


def test_a_recipe_ships_its_folder_and_its_familys_code(tmp_path):
    for path in ("nano/train/main.py", "nano/train/deeper/main.py"):
        write(tmp_path, path, HEADER)
    for path in ("nano/_shared/lib.py", "nano/train/config/tiny.yaml", "nano/train/util/a.py", "nano/other/x.py"):
        write(tmp_path, path)
    for path in ("nano/train/tests/test_x.py", "nano/train/.hidden", "nano/train/__pycache__/x.pyc"):
        write(tmp_path, path)
    recipe = find_recipe("nano/train", [tmp_path])
    assert names(recipe) == [
        "recipes/nano/_shared/lib.py",
        "recipes/nano/train/config/tiny.yaml",
        "recipes/nano/train/main.py",
        "recipes/nano/train/util/a.py",
    ]
    assert script_in_bundle(recipe) == "recipes/nano/train/main.py"


def test_a_recipes_page_is_no_code_of_it(tmp_path):
    write(tmp_path, "nano/train/main.py", HEADER)
    recipe = find_recipe("nano/train", [tmp_path])
    before = make_bundle(recipe)
    for path in ("nano/train/README.md", "nano/_shared/README.md"):
        write(tmp_path, path, "for people\n")
    assert make_bundle(recipe).digest == before.digest
    write(tmp_path, "nano/train/examples/README.md", "read by the script, for all that is known\n")
    write(tmp_path, "nano/train/prompt.md", "You are asked …\n")
    assert names(recipe) == [f"recipes/nano/train/{name}" for name in ("examples/README.md", "main.py", "prompt.md")]


def test_shared_code_in_a_recipes_own_folder_is_shipped_once_and_can_be_run(tmp_path):
    write(tmp_path, "mine/main.py", HEADER)
    write(tmp_path, "mine/_shared/lib.py", "A = 1\n")
    bundle = make_bundle(find_recipe("mine", [tmp_path]))
    assert [file.path for file in bundle.files] == ["recipes/mine/_shared/lib.py", "recipes/mine/main.py"]
    assert bundle.bytes == len(HEADER) + len("A = 1\n")
    contents = read_bundle(bundle)
    write_bundle(contents, tmp_path / "job")
    assert (tmp_path / "job/recipes/mine/_shared/lib.py").read_text() == "A = 1\n"


def test_what_only_speaks_of_the_header_is_no_command_and_is_shipped(tmp_path):
    write(tmp_path, "mine/main.py", HEADER)
    write(tmp_path, "mine/tools/reader.py", "# reads tool.runspec\n")
    write(tmp_path, "mine/late/main.py", "#" * 70_000 + "\n" + HEADER)
    assert [r.path for r in find_recipes([tmp_path])] == ["mine", "mine/late"]
    assert names(find_recipe("mine", [tmp_path])) == ["recipes/mine/main.py", "recipes/mine/tools/reader.py"]


def test_the_digest_is_of_paths_and_contents(tmp_path):
    bundle = make_bundle(script_of_ones_own(write(tmp_path, "mine.py", "print(1)\n")))
    assert digest({file.path: Path(file.source).read_bytes() for file in bundle.files}) == bundle.digest
    assert digest({"a": b"1", "b": b"2"}) == digest({"b": b"2", "a": b"1"}) != digest({"a": b"2", "b": b"1"})


def test_a_name_that_is_not_utf8(tmp_path):
    write(tmp_path, "mine/main.py", HEADER)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/mine/\xff.txt")).write_text("x")
    contents = read_bundle(make_bundle(find_recipe("mine", [tmp_path])))
    write_bundle(contents, tmp_path / "job")
    assert [os.fsencode(p.name) for p in (tmp_path / "job/recipes/mine").iterdir()].count(b"\xff.txt") == 1


def test_a_recipe_that_uses_another_ships_it_and_says_of_its_script_what_that_says(tmp_path):
    used = HEADER.replace("dependencies = []", 'dependencies = ["numpy"]')
    assert used != HEADER
    write(tmp_path, "steps/sft/bridge/step.py", used)
    write(tmp_path, "steps/_shared/lib.py")
    write(tmp_path, "steps/sft/other/step.py", HEADER)
    write(tmp_path, "big/_shared/own.py")
    uses = 'schema = "1"\n# uses = "{}"'
    file = write(tmp_path, "big/sft/train.py", HEADER.replace('schema = "1"', uses.format("steps/sft/bridge")))
    recipe = find_recipe("big/sft", [tmp_path])
    assert names(recipe) == [
        "recipes/big/_shared/own.py",
        "recipes/big/sft/train.py",
        "recipes/steps/_shared/lib.py",
        "recipes/steps/sft/bridge/step.py",
    ]
    assert recipe.spec.dependencies == ("numpy",)
    for wrong in ("steps/sft/none", "big/sft", "../steps/sft/bridge"):
        file.write_text(HEADER.replace('schema = "1"', uses.format(wrong)))
        with pytest.raises(UserError, match="no recipe beside it"):
            _ = find_recipe("big/sft", [tmp_path]).spec
