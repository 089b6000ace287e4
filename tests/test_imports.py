"""What may import what, and what a command must not import at all."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from support import REPOSITORY

SRC = REPOSITORY / "src"
FILES = sorted(SRC.rglob("*.py"))
TOOLKIT = [path for path in FILES if path.is_relative_to(SRC / "nemo_runspec")]

HEAVY = {
    "nemo_run", "ray", "leptonai", "torch", "transformers", "numpy", "pydantic", "requests", "paramiko", "fabric",
    "wandb", "docker", "matplotlib", "optuna",
}  # fmt: skip
CONFIG = {"hydra", "omegaconf", "yaml", "antlr4"}
OURS = {"nemo_runspec.catalog", "nemo_runspec.plans.model", "nemo_runspec.backends.base"}
"""Of our own what takes longest to import, and what lists of jobs and profiles have no use for."""
LOOKS = {"rich", "jinja2", "pygments", "markdown_it"}

ABSENT = {
    ("--version",): HEAVY | CONFIG | LOOKS | OURS,
    ("list",): HEAVY | CONFIG | LOOKS,
    ("list", "--json"): HEAVY | CONFIG | LOOKS,
    ("env", "list"): HEAVY | CONFIG | LOOKS | OURS,
    ("env", "show", "my-cluster"): HEAVY | CONFIG | LOOKS,
    ("env", "check"): HEAVY | CONFIG | LOOKS,
    ("env", "schema"): HEAVY | CONFIG | LOOKS,
    ("env", "fields", "slurm"): HEAVY | CONFIG | LOOKS,
    ("jobs", "list"): HEAVY | CONFIG | LOOKS | OURS,
    ("jobs", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("docker", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("lepton", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("dgxcloud", "pvcs", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("steps", "list"): HEAVY | CONFIG | LOOKS,
    ("artifacts", "list"): HEAVY | CONFIG | LOOKS | OURS - {"nemo_runspec.catalog"},
    ("steps", "list", "--produces", "checkpoint_hf", "--json"): HEAVY | CONFIG | LOOKS,
    ("steps", "list", "--tree"): HEAVY | CONFIG | LOOKS,
    ("steps", "list", "--produces", "checkpint_hf"): HEAVY | CONFIG | LOOKS,
    ("steps", "show", "sft/automodel"): HEAVY | LOOKS | {"hydra"},
    ("steps", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("--help",): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "pretrain", "--help"): HEAVY | CONFIG | {"jinja2"},
    ("nano3", "pretrain", "-c", "tiny", "--dry-run"): HEAVY | LOOKS | {"hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--dry-run", "--json"): HEAVY | LOOKS | {"hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "my-cluster", "--dry-run"): HEAVY | {"rich", "pygments", "hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--dry-run", "train.train_iters=5"): HEAVY | LOOKS | {"hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "lepton", "--dry-run"): HEAVY | {"rich", "pygments", "hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "runai", "--dry-run"): HEAVY | {"rich", "pygments", "hydra"},
    ("nano3", "pretrain", "-c", "tiny", "--run", "gone"): HEAVY | LOOKS,
    ("nano3", "pretrain", "-c", "tiny", "--dryrun"): HEAVY | CONFIG | LOOKS,
}  # fmt: skip
FAILING = {
    ("steps", "list", "--produces", "checkpint_hf"),
    ("env", "check"),
    ("nano3", "pretrain", "-c", "tiny", "--run", "gone"),
    ("nano3", "pretrain", "-c", "tiny", "--dryrun"),
}
"""Those that end with a user's error, which is quick too."""

REPORT = """
import json, os, sys
from nemotron.cli.main import run

for words in json.loads(sys.stdin.read()):
    child = os.fork()
    if not child:
        answer, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        sys.argv = ["nemotron", *words]
        try:
            code = run(words)
        finally:
            os.write(answer, (json.dumps([words, code, sorted(sys.modules)]) + chr(10)).encode())
            os._exit(0)
    os.waitpid(child, 0)
"""
"""Runs each command in a fork of a process that has imported nothing but what `nemotron` starts with."""

Loaded = dict[tuple[str, ...], tuple[int, set[str]]]
"""Command → its exit code, the modules there were at its end."""


def modules_after(project, commands: Iterable[tuple[str, ...]]) -> Loaded:
    done = subprocess.run(
        [sys.executable, "-c", REPORT],
        cwd=project.folder,
        env=project.environment(),
        input=json.dumps([*commands]),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(words): (code, set(loaded)) for words, code, loaded in answers}


def test_no_command_imports_what_it_does_not_use(project):
    seen = modules_after(project, ABSENT)
    assert set(seen) == set(ABSENT), "each command ended, and said so"
    wrong = [
        f"nemotron {' '.join(words)} imports {name}"
        for words, (_, loaded) in seen.items()
        for name in sorted(loaded & ABSENT[words])
    ]
    assert wrong == []
    assert {words for words, (code, _) in seen.items() if code} == FAILING


def test_what_a_command_imports_is_seen(project):
    seen = modules_after(project, [("--version",), ("nano3", "pretrain", "-c", "tiny", "--dry-run")])
    assert [code for code, _ in seen.values()] == [0, 0]
    before, after = (loaded for _, loaded in seen.values())
    assert "omegaconf" not in before
    assert "omegaconf" in after


def test_a_command_leaves_no_garbage_to_be_looked_for(project, tmp_path):
    """Looking through all there is, several times, would be a fifth of a short command."""
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count(), len(gc.get_objects())))"
    (tmp_path / "sitecustomize.py").write_text(code)
    environment = project.environment(PYTHONPATH=str(tmp_path))
    words = [sys.executable, "-m", "nemotron", "--version"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    put_aside, left = map(int, done.stdout.splitlines()[-1].split())
    assert put_aside > 100 * left


def test_the_python_api_imports_nothing_by_itself(project):
    code = "import sys; before = set(sys.modules); import nemo_runspec; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], env=project.environment(), capture_output=True, text=True)
    loaded = {name for name in done.stdout.split() if not name.startswith("nemo_runspec")}
    assert loaded & (HEAVY | CONFIG | LOOKS | {"typer"}) == set()


def imports_of(tree: ast.AST, *, module_level: bool) -> Iterator[str]:
    """Names of imported modules; with `module_level`, only those that importing the file imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
        elif not (module_level and is_later(node)):
            yield from imports_of(node, module_level=module_level)


def is_later(node: ast.AST) -> bool:
    """True for what importing the file does not execute."""
    if isinstance(node, ast.If):
        return "TYPE_CHECKING" in ast.dump(node.test)
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path, *, module_level: bool = False) -> set[str]:
    return set(imports_of(tree_of(path), module_level=module_level))


def name_of(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def wrong_imports(is_wrong: Callable[[str], bool], files: Iterable[Path], *, module_level: bool = False) -> list[str]:
    """`FILE imports MODULE`, for every import that is wrong."""
    return [
        f"{name_of(path)} imports {name}"
        for path in files
        for name in sorted(imported(path, module_level=module_level))
        if is_wrong(name)
    ]


def test_imports_are_absolute():
    assert wrong_imports(lambda name: name.startswith("."), FILES) == []


def test_the_toolkit_never_knows_the_product():
    assert wrong_imports(lambda name: name.partition(".")[0] == "nemotron", TOOLKIT) == []


def test_heavy_modules_are_imported_inside_functions():
    assert wrong_imports(lambda name: name.partition(".")[0] in HEAVY, FILES, module_level=True) == []


def test_a_wrong_import_is_found_and_named(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.SRC", tmp_path)
    file = tmp_path / "room.py"
    file.write_text("import torch.nn\ndef later():\n    from nemotron.cli import main\n")
    assert wrong_imports(lambda name: True, [file]) == ["room.py imports nemotron.cli", "room.py imports torch.nn"]
    assert wrong_imports(lambda name: True, [file], module_level=True) == ["room.py imports torch.nn"]


FLOORS = (
    "core",
    "registry",
    "plans",
    "artifacts",
    "secrets",
    "envs",
    "transport",
    "jobside",
    "script",
    "packaging",
    "submission",
    "records",
    "diagnosis",
    "profiles",
    "backends",
    "config",
    "planning",
    "backends.cloud",
    "backends.local",
    "backends.docker",
    "backends.lepton",
    "backends.dgxcloud",
    "backends.slurm",
    "doctor",
    "supervise",
    "remote",
    "runner",
    "sweeps",
    "pipelines",
    "api",
)
"""The rooms of the toolkit, from the ground up: each may look into those before it, and into no other.

`core` is what stands beside the rooms as single modules; `registry` is `backends/__init__.py` and `backends/base.py`,
which name what a backend brings and import it when it is asked for; `backends` is what all of them share.
"""

BASE, NAMES_TYPES = "nemo_runspec.backends.base", "types alone: what `Backend.load_…` gives"
ARGUED = {
    (BASE, "nemo_runspec.backends.listing"): NAMES_TYPES,
    (BASE, "nemo_runspec.backends.provider"): NAMES_TYPES,
    (BASE, "nemo_runspec.backends.setup"): NAMES_TYPES,
    (BASE, "nemo_runspec.backends.worker"): NAMES_TYPES,
    (BASE, "nemo_runspec.plans.model"): NAMES_TYPES,
    (BASE, "nemo_runspec.plans.target"): NAMES_TYPES,
    (BASE, "nemo_runspec.script.node_identity"): NAMES_TYPES,
    ("nemo_runspec.plans.model", "nemo_runspec.planning.codec"): "`Plan.save`: how a plan is written is planning's",
}
"""Module, what it imports from further up nevertheless → why."""


def room_of(module: str) -> str:
    """The room that a module of the toolkit stands in."""
    _, *parts = module.split(".")
    if not parts:
        return "api"
    if parts[0] == "backends" and parts[1:] in ([], ["base"]):
        return "registry"
    folder = SRC.joinpath("nemo_runspec", *parts[:2])
    if parts[0] == "backends" and folder.is_dir():
        return ".".join(parts[:2])
    if (SRC / "nemo_runspec" / parts[0]).is_dir():
        return parts[0]
    return parts[0] if parts[0] in FLOORS else "core"


COMPLETED = "completion asks whether what is typed is a recipe's command"
PRODUCT = (
    "nemotron",
    "cli",
    "cli.dry_run",
    "cli.setup",
    "cli.recipes",
    "cli.commands.steps",
    "cli.commands.jobs",
    "cli.commands.artifacts",
    "cli.commands",
    "cli.root",
)
"""The rooms of the product, from the ground up; `cli.root` is the tree of commands, and what runs it."""

PRODUCT_ARGUED = {
    ("nemotron.cli.complete", "nemotron.cli.recipes.recipe"): COMPLETED,
    ("nemotron.cli.commands.help", "nemotron.cli.root"): "`nemotron help …` is what the tree says to `… --help`",
}
AT_THE_TOP = {"nemotron.__main__", "nemotron.cli.main", "nemotron.cli.root"}


def product_room_of(module: str) -> str:
    """The room that a module of the product stands in."""
    if module in AT_THE_TOP:
        return "cli.root"
    parts = module.split(".")
    folders = [parts[1:end] for end in (4, 3) if end <= len(parts) and SRC.joinpath(*parts[:end]).is_dir()]
    return (
        ".".join(folders[0]) if folders else parts[1] if SRC.joinpath(*parts[:2]).is_dir() and parts[1:] else parts[0]
    )


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")


def arrows() -> Iterator[tuple[str, str]]:
    """Importing module, imported module; of the toolkit alone. `from package import module` imports the module."""
    for path in TOOLKIT:
        yield from ((module_of(path), name) for name in modules_in(tree_of(path), "nemo_runspec"))


def modules_in(tree: ast.AST, *packages: str, types: bool = True) -> Iterator[str]:
    """Modules of these packages that a file imports, wherever in it. `types`: for its types' sake alone, too."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.partition(".")[0] in packages)
        elif isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] in packages:
            for alias in node.names:
                inner = SRC.joinpath(*str(node.module).split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else str(node.module)
        elif types or not is_for_types(node):
            yield from modules_in(node, *packages, types=types)


def is_for_types(node: ast.AST) -> bool:
    """True for what only a type checker reads."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id in ("TYPE_CHECKING", "MYPY")


def test_an_arrow_is_seen_however_it_is_drawn():
    text = "import nemo_runspec\nimport nemo_runspec.toml, nemotron\nfrom nemo_runspec import paths, plan\n"
    later = "def ask():\n    from nemo_runspec.records import JobStore\n"
    seen = ["nemo_runspec", "nemo_runspec.toml", "nemo_runspec.paths", "nemo_runspec", "nemo_runspec.records"]
    assert list(modules_in(ast.parse(text + later), "nemo_runspec")) == seen
    assert room_of("nemo_runspec") == "api"
    assert list(modules_in(ast.parse(f"if MYPY:\n    {text.splitlines()[0]}"), "nemo_runspec", types=False)) == []


def test_every_room_has_its_floor():
    assert {room_of(module_of(path)) for path in TOOLKIT} == set(FLOORS)


def test_no_arrow_runs_up():
    floor = {room: number for number, room in enumerate(FLOORS)}
    up = {(one, other) for one, other in arrows() if floor[room_of(other)] > floor[room_of(one)]}
    assert sorted(up - ARGUED.keys()) == []
    assert sorted(ARGUED.keys() - up) == [], "argued for, and not there any more"


def test_no_arrow_of_the_product_runs_up():
    files = [path for path in FILES if path not in TOOLKIT]
    floor = {room: number for number, room in enumerate(PRODUCT)}
    drawn = {(module_of(path), other) for path in files for other in modules_in(tree_of(path), "nemotron")}
    assert {product_room_of(module_of(path)) for path in files} == set(PRODUCT)
    up = {(one, other) for one, other in drawn if floor[product_room_of(other)] > floor[product_room_of(one)]}
    assert sorted(up - PRODUCT_ARGUED.keys()) == []
    assert sorted(PRODUCT_ARGUED.keys() - up) == [], "argued for, and not there any more"


GIVEN = "types alone: a function names what it is given, which stands where it is made; nothing is imported for it"
SLURM = "nemo_runspec.backends.slurm"
PARTS = "the provider imports its parts when it is asked for what they do; they reach the cluster by its connection"
IN_CIRCLES = {
    ("nemo_runspec.plans.target", "nemo_runspec.plans.model"): GIVEN,
    ("nemo_runspec.backends.lepton.payload", "nemo_runspec.backends.lepton.fields"): GIVEN,
    ("nemo_runspec.backends.dgxcloud.payload", "nemo_runspec.backends.dgxcloud.fields"): GIVEN,
    ("nemo_runspec.jobside.verify", "nemo_runspec.jobside.node"): GIVEN,
    ("nemo_runspec.jobside.pod.ending", "nemo_runspec.jobside.pod.pod"): GIVEN,
    (f"{SLURM}.values", f"{SLURM}.fields"): GIVEN,
    (f"{SLURM}.jobside.job", f"{SLURM}.jobside.attempt_end"): GIVEN,
    (f"{SLURM}.client", f"{SLURM}.array"): PARTS,
    (f"{SLURM}.client", f"{SLURM}.cluster.stage"): PARTS,
    (f"{SLURM}.client", f"{SLURM}.observe"): PARTS,
    (f"{SLURM}.client", f"{SLURM}.preflight.checks"): PARTS,
    ("nemo_runspec.remote.refresh", "nemo_runspec.remote.input_jobs"): (
        "a platform ends a job whose input was not made: how the job is that makes it, is asked as of any other"
    ),
    (
        "nemotron.cli.complete",
        "nemotron.cli.recipes.recipe",
    ): "completion asks whether what is typed is a recipe's command",
}
"""Module, what it imports although that leads back to it → why. Imports within functions are counted."""


def test_no_circle_of_modules_stands_unargued():
    graph = {module_of(path): set(modules_in(tree_of(path), "nemo_runspec", "nemotron")) for path in FILES}
    argued = {**ARGUED, **IN_CIRCLES}
    rest = {one: {other for other in others if (one, other) not in argued} for one, others in graph.items()}
    assert [sorted(circle) for circle in circles(rest)] == []
    needless = [(one, other) for one, other in IN_CIRCLES if other not in graph[one] or one not in reached(rest, other)]
    assert needless == [], "argued for, and in no circle any more"


def test_what_is_argued_to_be_types_alone_is():
    given = {one: other for (one, other), why in IN_CIRCLES.items() if why == GIVEN}
    files = {module_of(path): path for path in FILES}
    wrong = [
        one for one, other in given.items() if other in modules_in(tree_of(files[one]), "nemo_runspec", types=False)
    ]
    assert wrong == []


def test_a_circle_is_found_however_long_it_is():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"a"}, "e": {"a", "f"}, "f": set[str]()}
    assert [sorted(circle) for circle in circles(graph)] == [["a", "b", "c", "d"]]
    assert circles({one: others - {"a", "b"} for one, others in graph.items()}) == []


Graph = Mapping[str, set[str]]
"""Module → what it imports."""


def circles(graph: Graph) -> list[set[str]]:
    """Sets of more than one module, each of which leads to all the others (Tarjan)."""
    order, lowest, path, found = dict[str, int](), dict[str, int](), list[str](), list[set[str]]()

    def visit(one: str) -> None:
        order[one] = lowest[one] = len(order)
        path.append(one)
        for other in graph.get(one, ()):
            if other not in order:
                visit(other)
            if other in path:
                lowest[one] = min(lowest[one], lowest[other])
        if lowest[one] == order[one]:
            found.append(set(path[path.index(one) :]))
            del path[path.index(one) :]

    for one in graph:
        if one not in order:
            visit(one)
    return [each for each in found if len(each) > 1]


def reached(graph: Graph, start: str) -> set[str]:
    """What a module leads to, with itself."""
    seen, pending = {start}, [start]
    while pending:
        further = graph.get(pending.pop(), set()) - seen
        seen |= further
        pending += further
    return seen


PAGE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """What stands below a title of the page."""
    return PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]


def test_the_figures_of_the_rooms_are_true():
    between = {(room_of(one), room_of(other)) for one, other in arrows()}
    count = sum(one != other for one, other in between)
    words = re.search(r"now there are (\d+)\s+with\s+(\d+),\s+upward\s+the\s+(\d+)\s+imports", section("Floors"))
    assert words
    assert tuple(map(int, words.groups())) == (len(FLOORS), count, len(ARGUED))


def test_every_room_and_every_module_of_core_has_its_row():
    rows = re.findall(r"^\| (`[^|]*) \|", section("The rooms of `nemo_runspec`"), re.MULTILINE)
    told = [name for row in rows for name in re.findall(r"`([^`]+)`", row)]
    top = SRC / "nemo_runspec"
    there = {path.name for path in top.glob("*.py")} | {f"{path.parent.name}/" for path in top.glob("*/__init__.py")}
    assert sorted(told) == sorted({*there, "backends/cloud/"} - {"__init__.py"})


def test_the_drawing_of_the_rooms_is_true():
    drawn = re.findall(r"^ *\d+ +(\S+) ", section("Floors"), re.MULTILINE)
    assert tuple(reversed(drawn)) == FLOORS


SIZES = {"slurm": (6000, 45), "dgxcloud": (2300, 30), "lepton": (2000, 30)}
"""Folder of a backend → lines of Python and bash that say something, at most, and files of these."""
LONGEST = 350


def code_lines(path: Path) -> int:
    """Lines that hold code: neither empty, nor a comment, nor a docstring (a text that stands by itself)."""
    nodes = ast.walk(tree_of(path)) if path.suffix == ".py" else ()
    texts = [node for node in nodes if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)]
    said = {number for node in texts for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    numbered = enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    return sum(number not in said and bool(line.strip()) and line.lstrip()[:1] != "#" for number, line in numbered)


def test_a_backend_stays_as_small_as_it_is():
    for name, (most_lines, most_files) in SIZES.items():
        folder = SRC / "nemo_runspec" / "backends" / name
        files = [*folder.rglob("*.py"), *folder.rglob("*.sh")]
        lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
        assert sum(map(code_lines, files)) <= most_lines, f"{name}: something of it is another's, or everybody's"
        assert len(files) <= most_files, f"{name}: what belongs to one thought stands in one file"
        assert [path.name for path, count in lines.items() if count > LONGEST] == []


def test_lines_of_bash_count_as_those_of_python_do(tmp_path):
    program, shell = tmp_path / "a.py", tmp_path / "a.sh"
    program.write_text('"""What it is."""\n\n# why\nsay = 1\n"""what it says"""\n')
    shell.write_text("# what it is\n\nsay() { echo; } # as here\n  # why\n")
    assert (code_lines(program), code_lines(shell)) == (1, 1)


def test_a_backend_reads_neither_argv_nor_profiles_nor_yaml():
    wrong = []
    for path in sorted((SRC / "nemo_runspec" / "backends").glob("*/*.py")):
        text = path.read_text(encoding="utf-8")
        names = imported(path)
        wrong += [f"{name_of(path)}: sys.argv" for _ in [1] if "sys.argv" in text]
        wrong += [f"{name_of(path)}: {n}" for n in names if n.startswith("nemo_runspec.config")]
        wrong += [
            f"{name_of(path)}: {n}"
            for n in names
            if n.startswith("nemo_runspec.profiles") and n != "nemo_runspec.profiles.common"
        ]
    assert wrong == []


def test_the_toolkit_names_no_model_family():
    families = {path.name for path in (REPOSITORY / "recipes").iterdir() if path.is_dir() and path.name != "steps"}
    wrong = [f"{name_of(path)}: {text!r}" for path in TOOLKIT for text in texts_of(path) if names_one(text, families)]
    assert wrong == []


def texts_of(path: Path) -> set[str]:
    """The strings of a file that are no docstrings."""
    nodes = list(ast.walk(tree_of(path)))
    documented = [node for node in nodes if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))]
    docs = {ast.get_docstring(node, clean=False) for node in documented}
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)} - docs


def names_one(text: str, families: set[str]) -> bool:
    return any(family in text for family in families)


OWN_ROOMS = re.compile(r"nemo_runspec/backends/(local|docker|slurm|lepton|dgxcloud)/")
NAMES_EXECUTOR = {
    "nemo_runspec/backends/__init__.py": "the table",
    "nemo_runspec/records/who_decides.py": "a table of functions, by their modules",
    "nemo_runspec/runner/squash.py": "squash files are Slurm's alone",
    "nemotron/cli/commands/kit.py": "its commands",
    "nemotron/cli/recipes/execute.py": "and how to type them",
    "nemotron/cli/commands/env.py": "an example in a help",
    "nemotron/cli/setup/template.py": "an example in an error",
}
"""File outside a backend's room that names an executor nevertheless → why. `docker` is also the word for images."""
NAMES_KEY = {
    "nemo_runspec/backends/stall.py": {"stall_timeout"},  # declares it, for those that have it
    "nemo_runspec/diagnosis/causes.py": {"setup_lines"},  # of what failed on the job's side
    "nemo_runspec/script/markers.py": {"setup_lines"},
    "nemo_runspec/diagnosis/phases.py": {
        "queue_timeout",
        "pull_timeout",
        "start_timeout",
    },  # remedies
    "nemo_runspec/records/earlier.py": {"avoid_failed_nodes"},
    "nemotron/cli/recipe_help.py": {"build_time"},  # an example, where there is one
}
"""The same for keys that only backends have. Keys that are words of our own, or of W&B, too: `HOMONYMS`."""
HOMONYMS = {"job_dir", "base_url"}


def elsewhere() -> Iterator[tuple[str, set[str]]]:
    """Files outside the backends' own rooms, with their strings."""
    names = ((name_of(path), path) for path in FILES)
    return ((name, texts_of(path)) for name, path in names if not OWN_ROOMS.match(name))


def test_nobody_else_names_an_executor():
    named = re.compile(r"\b(slurm|lepton|dgxcloud)\b")
    found = {name for name, texts in elsewhere() if any(named.search(text) for text in texts)}
    assert found == NAMES_EXECUTOR.keys()


def test_nobody_else_names_a_key_of_a_backend():
    from nemo_runspec.backends import BUILTIN, get_backend
    from nemo_runspec.profiles.common import COMMON

    keys = {field.name for name in BUILTIN for field in get_backend(name).fields if "_" in field.name}
    keys -= {field.name for field in COMMON} | HOMONYMS
    found = {name: keys & {text.removeprefix("run.env.") for text in texts} for name, texts in elsewhere()}
    skeleton = ("nemo_runspec/backends/cloud/", "nemo_runspec/jobside/pod/")
    assert {name: own for name, own in found.items() if own and not name.startswith(skeleton)} == NAMES_KEY
