"""Recipes and steps found by their folders."""

from __future__ import annotations

import pytest
from support import HEADER

from nemo_runspec import catalog
from nemo_runspec.errors import UserError


def paths() -> list[str]:
    return [recipe.path for recipe in catalog.find_recipes()]


def test_the_built_in_recipes_are_there_without_a_project(project):
    found = {recipe.path: recipe for recipe in catalog.find_recipes()}
    assert {"nano3/pretrain", "nano3/data/prep/pretrain"} <= set(found)
    assert found["nano3/pretrain"].configs() == ["default", "small", "tiny"]
    assert found["nano3/data/prep/pretrain"].command == "nano3 data prep pretrain"


def test_nothing_of_a_recipe_is_imported(project):
    mark = project.folder / "imported"
    project.recipe("mine/train", body=f"open({str(mark)!r}, 'w')\n")
    project.write("recipes/mine/train/config/__init__.py", f"open({str(mark)!r}, 'w')\n")
    recipe = catalog.find_recipe("mine/train")
    assert recipe.spec.description == "A recipe for tests."
    assert not mark.exists()


def test_a_recipe_of_the_project_wins_over_a_built_in_one(project):
    own = project.recipe("nano3/pretrain")
    assert catalog.find_recipe("nano3/pretrain").script == own
    assert paths().count("nano3/pretrain") == 1


def test_NEMOTRON_RECIPES_wins_over_the_project(project, monkeypatch):
    project.recipe("mine/train")
    project.write("first/mine/train/other.py", HEADER)
    project.write("second/mine/eval/other.py", HEADER)
    monkeypatch.setenv("NEMOTRON_RECIPES", f"{project.folder / 'first'}:{project.folder / 'second'}:")
    assert catalog.find_recipe("mine/train").script.name == "other.py"
    assert {"mine/train", "mine/eval", "nano3/pretrain"} <= set(paths())


@pytest.mark.parametrize("wrong", ["/not/there", "{0}/train.py", "~/none"])
def test_NEMOTRON_RECIPES_that_is_no_folder(project, monkeypatch, nemotron, wrong):
    """Never left out in silence: another recipe of the same name would run."""
    project.write("first/nano3/pretrain/train.py", HEADER)
    project.write("train.py", "")
    named = wrong.format(project.folder)
    monkeypatch.setenv("NEMOTRON_RECIPES", f"{project.folder / 'first'}:{named}")
    for words in (["list"], ["nano3", "pretrain", "--dry-run"], ["steps", "list"]):
        nemotron(*words).refuses(f"NEMOTRON_RECIPES names {named}, which", "unset NEMOTRON_RECIPES")
    nemotron("jobs", "list").succeeds()
    shown = nemotron("--help").succeeds()
    assert f"recipes are not listed: NEMOTRON_RECIPES names {named}" in shown.err
    assert "jobs" in shown.out


def test_the_projects_recipes_are_found_from_below(project, monkeypatch):
    project.recipe("mine/train")
    (project.folder / "src" / "deep").mkdir(parents=True)
    monkeypatch.chdir(project.folder / "src" / "deep")
    assert "mine/train" in paths()


def test_the_search_for_recipes_ends_at_the_project(project, monkeypatch):
    inner = project.folder / "inner"
    inner.mkdir()
    project.write("inner/pyproject.toml", "")
    project.recipe("mine/train")
    monkeypatch.chdir(inner)
    assert "mine/train" not in paths()


def test_what_is_no_command(project):
    for folder in ("mine/_shared", "mine/.hidden", "mine/train/config", "mine/tests", "mine/__pycache__"):
        project.write(f"recipes/{folder}/main.py", HEADER)
    project.write("recipes/mine/plain/main.py", "print('no header')\n")
    assert [path for path in paths() if path.startswith("mine")] == []
    assert catalog.children("mine") == []


def test_steps_are_recipes_with_another_way_in(project):
    project.recipe("steps/sft/automodel")
    recipe = catalog.find_recipe("steps/sft/automodel")
    assert recipe.is_step
    assert recipe.command == "steps run sft/automodel"
    assert "steps" not in catalog.children("")


def test_a_broken_recipe_is_kept_with_its_error(project):
    project.recipe("mine/broken", header=HEADER.replace("launch =", "lunch ="))
    recipe = next(r for r in catalog.find_recipes() if r.path == "mine/broken")
    assert "did you mean 'launch'?" in recipe.problem()
    assert recipe.configs() == []
    with pytest.raises(UserError, match="unknown key"):
        _ = recipe.spec


def test_a_recipe_that_cannot_be_read_is_listed_with_its_error(project):
    project.recipe("mine/gone")
    script = project.folder / "recipes/mine/gone/main.py"
    script.unlink()
    script.symlink_to("nowhere.py")
    assert "cannot read" in next(r for r in catalog.find_recipes() if r.path == "mine/gone").problem()
    project.recipe("mine/train")
    (project.folder / "recipes/mine/train/helper.py").symlink_to("nowhere.py")
    assert catalog.find_recipe("mine/train").problem() is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [(HEADER, True), ("#" * 70_000 + "\n" + HEADER, True), (HEADER.replace("\n", "\r\n"), True),
     (f"text = '{HEADER.splitlines()[0]} tool.runspec'", False), ("# [tool.runspec]\n", False),
     ("# /// script\n# dependencies = []\n# ///\n", False)],
)  # fmt: skip
def test_what_declares_itself(tmp_path, text, expected):
    (tmp_path / "main.py").write_text(text)
    assert catalog.declares_itself(tmp_path / "main.py") is expected
    assert catalog.declares_itself(tmp_path / "none.py") is None


def test_two_recipes_in_one_folder_are_a_mistake(project):
    project.recipe("mine/train")
    project.write("recipes/mine/train/second.py", HEADER)
    assert "main.py, second.py" in catalog.find_recipe("mine/train").problem()


def test_an_unknown_recipe_has_a_suggestion(project):
    with pytest.raises(UserError, match="no recipe 'nano3/pretrian'") as caught:
        catalog.find_recipe("nano3/pretrian")
    assert caught.value.remedy == "did you mean 'nano3/pretrain'?"


@pytest.mark.parametrize("path", ["../recipes/mine/train", "/etc", "", "..", "mine/../mine/train"])
def test_a_path_that_leaves_the_root(project, path):
    project.recipe("mine/train")
    with pytest.raises(UserError):
        catalog.find_recipe(path)


def test_a_script_of_ones_own(project):
    script = project.write("train.py", "print(1)\n")
    recipe = catalog.script_of_ones_own(script)
    assert (recipe.own, recipe.command, recipe.spec.launch) == (True, "run train.py", "direct")
    with pytest.raises(UserError, match="no such script"):
        catalog.script_of_ones_own(project.folder / "other.py")


def test_a_group_is_summed_up_by_its_readme(project):
    project.recipe("mine/train")
    project.write("recipes/mine/README.md", "# Mine\n\nWhat this family is.\nMore.\n")
    assert catalog.group_summary("mine") == "What this family is."
    assert catalog.group_summary("nothing") == ""


def test_links_in_a_circle_end(project):
    project.recipe("mine/train")
    (project.folder / "recipes" / "mine" / "again").symlink_to(project.folder / "recipes" / "mine")
    assert "mine/train" in paths()


def test_odd_files_and_links_neither_hang_nor_repeat(tmp_path, monkeypatch):
    import os

    folder = tmp_path / "recipes" / "mine" / "train"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("# /// script\n# [tool.runspec]\n# ///\n")
    os.mkfifo(folder / "pipe.py")
    (folder / "again").symlink_to(tmp_path / "recipes")
    (tmp_path / "recipes" / "self").symlink_to(tmp_path / "recipes")
    found = catalog.find_recipes([tmp_path / "recipes"])
    assert [recipe.path for recipe in found] == ["mine/train"]
    assert found[0].problem() is None
