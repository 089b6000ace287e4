"""Finds every recipe and step under the recipe roots by reading folders and headers. Nothing of a recipe is imported.

A recipe's folder is its command: `recipes/nano3/data/prep/pretrain/` is `nemotron nano3 data prep pretrain`. Steps lie
under `recipes/steps/<category>/<name>/`. Folders that begin with `_` or `.` are shared code, `config` holds configs.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from nemo_runspec.errors import UserError, did_you_mean
from nemo_runspec.lines import text_lines
from nemo_runspec.paths import expanded
from nemo_runspec.runspec import Runspec, read_runspec
from nemo_runspec.source import display_path
from nemo_runspec.trust import check, check_tree, searched

STEPS = "steps"
_NOT_COMMANDS = frozenset({"config", "tests", "__pycache__"})
_STARTED = re.compile(rb"^if __name__ == ['\"]__main__['\"]", re.MULTILINE)
_BLOCK = re.compile(rb"^# /// script[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True)
class Recipe:
    """One recipe or step.

    Args:
        path: its command with slashes, `nano3/pretrain`.
        script: the script with the header.
        root: the recipe root it was found under; its own folder for a script of the user's.
        own: True for a script of the user's, whose header is optional.
        rivals: other scripts of the folder that also declare themselves: a mistake, reported when it is used.
    """

    path: str
    script: Path
    root: Path
    own: bool = False
    rivals: tuple[Path, ...] = ()

    @cached_property
    def spec(self) -> Runspec:
        """The header, read once. Raises `UserError` for a broken one, or for two recipes in one folder."""
        if self.rivals:
            names = ", ".join(f.name for f in (self.script, *self.rivals))
            raise UserError(
                f"one folder is one command, but {len(self.rivals) + 1} scripts declare [tool.runspec]: {names}",
                where=display_path(self.folder),
                remedy="move each to a folder of its own",
            )
        spec = read_runspec(self.script, required=not self.own)
        return spec.after(self._used(spec).spec) if spec.uses else spec

    @property
    def used(self) -> Recipe | None:
        """The recipe whose script this one runs, beside it under the same root."""
        return self._used(self.spec) if self.spec.uses else None

    def _used(self, spec: Runspec) -> Recipe:
        found = None if spec.uses in (None, self.path) else recipe_at(spec.uses or "", [self.root])
        if found is None or read_runspec(found.script).uses:
            why = "is no recipe beside it" if found is None else "uses another recipe itself"
            raise UserError(
                f"it uses {spec.uses!r}, which {why}",
                where=f"{display_path(self.script)}:{spec.lines.get('tool.runspec.uses', 1)}",
                remedy="name the path of a recipe under the same recipe root, such as steps/sft/megatron_bridge",
            )
        return found

    @property
    def folder(self) -> Path:
        """The folder that is the command."""
        return self.script.parent

    @property
    def hides(self) -> Path | None:
        """The built-in recipe of the same path that it is used instead of."""
        built_in = builtin_root() / self.path
        return built_in if not self.own and self.root != builtin_root() and scripts_in(built_in) else None

    def notes(self) -> list[str]:
        """What whoever runs it should know of where it comes from."""
        where = display_path(self.folder)
        return [f"the recipe {self.path} is {where}, which hides the built-in one"] if self.hides else []

    @property
    def family(self) -> str:
        """The first word of the command."""
        return self.path.split("/", 1)[0]

    @property
    def is_step(self) -> bool:
        """True below `recipes/steps`."""
        return self.family == STEPS

    @property
    def command(self) -> str:
        """How it is typed after `nemotron`."""
        return f"run {self.script.name}" if self.own else " ".join(command_words(self.path))

    @property
    def config_dir(self) -> Path:
        """The folder of its configurations. Raises `UserError` for a broken header."""
        return Path(os.path.normpath(self.folder / self.spec.config_dir))

    def configs(self) -> list[str]:
        """Names for `-c`, the default first. Empty for a script without configs or with a broken header."""
        try:
            folder, default = self.config_dir, self.spec.config_default
        except UserError:
            return []
        names = sorted(f.stem for f in folder.glob("*.yaml"))
        return sorted(names, key=lambda n: n != default)

    def problem(self) -> str | None:
        """What is wrong with the header, in one paragraph, or None."""
        try:
            _ = self.spec
        except UserError as error:
            return str(error)
        return None


def recipe_roots(start: Path | None = None) -> list[Path]:
    """Folders that hold families, strongest first: `$NEMOTRON_RECIPES`, the project's `recipes/`, the built-in ones.

    `NEMOTRON_RECIPES` may hold several, separated as in `PATH`. The project's own is the nearest `recipes/` from
    `start` (the working directory) upwards; for where the search ends see `trust.searched`.

    Raises:
        UserError: `NEMOTRON_RECIPES` names what is no folder; the project's own is not obeyed, as somebody else may
            have written it.
    """
    named = [_recipe_root(p) for p in os.environ.get("NEMOTRON_RECIPES", "").split(os.pathsep) if p]
    own = _project_recipes(start or Path.cwd())
    roots: list[Path] = []
    for root in [*named, *([own] if own else []), builtin_root()]:
        if root not in roots and root.is_dir():
            roots.append(root)
    return roots


@lru_cache(maxsize=1)
def builtin_root() -> Path:
    """The recipes that come with nemotron: package data in a wheel, the checkout's folder in a clone."""
    packaged = _product_folder() / "_data" / "recipes"
    return packaged if packaged.is_dir() else _product_folder().parents[1] / "recipes"


def builtin_templates() -> Path:
    """The templates that come with nemotron, found like the recipes."""
    return builtin_root().parent / "templates"


def find_recipes(roots: list[Path] | None = None) -> list[Recipe]:
    """Every recipe and step, sorted by path. The same path in two roots is the stronger root's."""
    found: dict[str, Recipe] = {}
    for root in roots if roots is not None else recipe_roots():
        for recipe in _walk(root, root):
            found.setdefault(recipe.path, recipe)
    return sorted(found.values(), key=lambda r: r.path)


def find_recipe(path: str, roots: list[Path] | None = None) -> Recipe:
    """The recipe of that path.

    Raises:
        UserError: there is none; with a suggestion.
    """
    path = path.strip("/")
    for root in roots if roots is not None else recipe_roots():
        folder = _inside(root, path)
        recipe = _recipe_in(folder, root) if folder else None
        if recipe:
            return recipe
    known = [r.path for r in find_recipes(roots)]
    raise UserError(f"no recipe '{path}'", remedy=did_you_mean(path, known) or "list them: nemotron list")


def command_words(path: str) -> list[str]:
    """How the recipe of a path is typed after `nemotron`: `nano3 pretrain`, `steps run sft/automodel`."""
    family, _, below = path.strip("/").partition("/")
    return [family, "run", below] if family == STEPS else [family, *below.split("/")] if below else [family]


def check_obeyed(recipe: Recipe) -> None:
    """Refuses a recipe of which somebody else may have written a part; one that was named is meant.

    Raises:
        UserError: it was found above the working directory, and is not only this user's.
    """
    if not recipe.own and recipe.root == _project_recipes(Path.cwd()) and recipe.root != builtin_root():
        for family in {recipe.family, recipe.used.family if recipe.used else recipe.family}:
            check_tree(recipe.root, recipe.root / family, "recipe folder")


def declares_itself(script: Path) -> bool | None:
    """True if a script has a PEP 723 block and names `tool.runspec`: it is a command. None where it cannot be read."""
    try:
        if not stat.S_ISREG(script.stat().st_mode):
            return False
        text = script.read_bytes()
    except OSError:
        return None
    return _BLOCK.search(text) is not None and b"tool.runspec" in text


def scripts_in(folder: Path) -> list[Path]:
    """The files of a folder that may declare a command: Python scripts, and shell scripts."""
    return sorted((*folder.glob("*.py"), *folder.glob("*.sh")))


def script_of_ones_own(script: Path) -> Recipe:
    """A recipe made of any Python script; its header is optional.

    Raises:
        UserError: no such file.
    """
    if not script.is_file():
        raise UserError(f"no such script: {script}", where=str(script))
    script = script.absolute()
    return Recipe(path=script.stem, script=script, root=script.parent, own=True)


def children(prefix: str, roots: list[Path] | None = None) -> list[str]:
    """Names of the commands and groups directly below `prefix` ('' for families), without reading whole trees."""
    names: set[str] = set()
    for root in roots if roots is not None else recipe_roots():
        base = root / prefix if prefix else root
        names.update(d.name for d in _subfolders(base) if prefix or d.name != STEPS)
    return sorted(n for n in names if has_recipe(f"{prefix}/{n}".lstrip("/"), roots))


def has_recipe(path: str, roots: list[Path] | None = None) -> bool:
    """True where a recipe lies at or below that path."""
    for root in roots if roots is not None else recipe_roots():
        folder = _inside(root, path)
        if folder and next(_walk(folder, root), None) is not None:
            return True
    return False


def recipe_at(path: str, roots: list[Path] | None = None) -> Recipe | None:
    """The recipe whose folder is exactly that path, or None."""
    for root in roots if roots is not None else recipe_roots():
        folder = _inside(root, path)
        recipe = _recipe_in(folder, root) if folder else None
        if recipe:
            return recipe
    return None


def group_summary(path: str, roots: list[Path] | None = None) -> str:
    """One sentence on a family or group: the first prose line of its README, or ''."""
    for root in roots if roots is not None else recipe_roots():
        readme = root / path / "README.md"
        if readme.is_file():
            for row in text_lines(readme.read_text(encoding="utf-8", errors="replace")):
                if row.strip() and not row.startswith("#"):
                    return row.strip()
    return ""


def _inside(root: Path, path: str) -> Path | None:
    """The folder of that path below a root; None where there is none, also for a path that leads out of the root."""
    parts = path.strip("/").split("/")
    folder = root.joinpath(*parts)
    return folder if ".." not in parts and os.path.isdir(folder) else None  # noqa: PTH112  (Path's raises: too long)


def _product_folder() -> Path:
    from importlib.util import find_spec

    spec = find_spec("nemotron")
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    return Path(__file__).resolve().parents[1] / "nemotron"


def _recipe_root(text: str) -> Path:
    """A folder of `NEMOTRON_RECIPES`."""
    folder = expanded(text).absolute()
    if not folder.is_dir():
        wrong = "is no folder" if folder.exists() else "does not exist"
        remedy = "correct it, or: unset NEMOTRON_RECIPES"
        raise UserError(f"NEMOTRON_RECIPES names {text}, which {wrong}", where="environment", remedy=remedy)
    return folder


def _project_recipes(start: Path) -> Path | None:
    found = next((own for folder in searched(start) if (own := folder / "recipes").is_dir()), None)
    if found is not None and found != builtin_root():
        check(found, "recipe folder")
    return found


def _subfolders(folder: Path) -> list[Path]:
    try:
        entries = [Path(e.path) for e in os.scandir(folder) if e.is_dir() and not _leads_back(e)]
    except OSError:
        return []
    return sorted(e for e in entries if e.name not in _NOT_COMMANDS and e.name[0] not in "._")


def _leads_back(entry: os.DirEntry[str]) -> bool:
    """True for a link to a folder that it lies in: followed, it would list everything again and again."""
    return entry.is_symlink() and Path(entry.path).absolute().is_relative_to(Path(entry.path).resolve())


def _walk(folder: Path, root: Path, depth: int = 8) -> Iterator[Recipe]:
    recipe = _recipe_in(folder, root)
    if recipe:
        yield recipe
    if depth:
        for sub in _subfolders(folder):
            yield from _walk(sub, root, depth - 1)


def _recipe_in(folder: Path, root: Path) -> Recipe | None:
    declared = {f: declares_itself(f) for f in scripts_in(folder)}
    # A script that cannot be read is the recipe where no other is: it is listed with its error, not left out.
    unread = [f for f, said in declared.items() if said is None and f.suffix == ".py"]
    scripts = [f for f, said in declared.items() if said] or unread[:1] or _meant(folder, list(declared))[:1]
    if not scripts:
        return None
    path = folder.relative_to(root).as_posix()
    return Recipe(path=path, script=scripts[0], root=root, rivals=tuple(scripts[1:]))


def _meant(folder: Path, scripts: list[Path]) -> list[Path]:
    """Scripts without a header in a folder that looks like a recipe's: it has configs, or a script that can be started.

    The recipe is listed with that as its error; modules that others import are none.
    """
    found = [script for script in scripts if script.suffix == ".py" and stat.S_ISREG(script.stat().st_mode)]
    has_configs = next((folder / "config").glob("*.yaml"), None) is not None
    return found if has_configs else [script for script in found if _STARTED.search(script.read_bytes())]
