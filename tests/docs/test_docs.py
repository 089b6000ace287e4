"""The documentation is true: every command and every Python block in it is run, every link leads somewhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import support
import warm
from command_lines import lines_of, parsed, words_of

from nemo_runspec.errors import UserError
from nemotron.cli.click import Exit

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = [
    ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "benchmarks/README.md")
]
PAGES = sorted([*OUTSIDE, *(ROOT / "docs").glob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
OTHERS = {"pytest": "is this very run"}
"""Commands that are not run here, and why."""
APART = {"adding-a-backend.md": "builds a package of its own: tests/plugin/test_page.py does what it says"}
"""Pages whose commands are not run here, and why."""
MADE_THERE = {"nemotron demo train -c tiny --run here": "its recipe is made by the line before"}
"""Commands that cannot be parsed before others have been run, and why."""

SESSION = "python.md"
"""The page whose Python blocks are one session."""
SHOWN = re.compile(r"^(\S.*)  # → (.+)$", re.MULTILINE)
"""An expression and what it is, as Python writes it."""

TRAIN = "import sys\nprint(sys.argv[1:])\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A project as the pages describe it: the example env.toml with everything filled in, and a train.py."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "pyproject.toml").write_text("")
    example = (ROOT / "env.toml.example").read_text(encoding="utf-8")
    (folder / "env.toml").write_text(re.sub(r"YOUR-[A-Z-]+", "mine", example), encoding="utf-8")
    (folder / "train.py").write_text(TRAIN)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory) -> dict[str, str]:
    home = tmp_path_factory.mktemp("home")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NEMOTRON_", "WANDB_", "HF_"))}
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    own = {"HOME": str(home), "NEMOTRON_HOME": str(home / "nemotron"), "PATH": tools, "DGX_CLIENT_SECRET": "x" * 12}
    own["LC_ALL"] = "C.UTF-8"
    return {**kept, **own}


def commands_of(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = [
        row.removeprefix("$ ")
        for language, body in FENCE.findall(text)
        if language == "console"
        for row in body.splitlines()
        if row.startswith("$ ")
    ]
    return found + [row.strip() for row in text.splitlines() if row.startswith("    pip install uv && ")]


def runnable(command: str) -> str:
    return command.removeprefix("pip install uv && ").removeprefix("uv run ").removeprefix("--group dev ")


WITH_COMMANDS = [page for page in PAGES if page.is_file() and page.name not in APART and commands_of(page)]


def test_the_pages_have_commands():
    assert len(WITH_COMMANDS) >= 6
    assert sum(len(commands_of(page)) for page in WITH_COMMANDS) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_for_a_shell_can_be_typed(page):
    """Those of `sh` fences and indented blocks too, which are not run: they name clusters, and jobs of one's own."""
    for line in lines_of(page.read_text(encoding="utf-8")):
        if line.startswith("nemotron ") and page.name not in APART and line not in MADE_THERE:
            with suppress(Exit):  # of --help
                parsed(line)
        elif line.startswith("python ") and (script := words_of(line)[1]) not in ("-c", "-m"):
            assert (ROOT / script).is_file(), line


def test_lines_are_found_and_wrong_ones_are_seen():
    page = """Text.

    uv run nemotron list  # all

```sh
X=1 nemotron jobs list \\
  --tag 'a b' && echo
```
- a point

    nemotron jobs lisst
"""
    lines = ["nemotron jobs list    --tag 'a b' && echo", "nemotron list  # all", "nemotron jobs lisst"]
    assert lines_of(page) == lines
    assert words_of(lines[0]) == ["nemotron", "jobs", "list", "--tag", "a b"]
    with pytest.raises(UserError):
        parsed(lines[2])
    assert sum(line.startswith("nemotron ") for each in PAGES for line in lines_of(each.read_text("utf-8"))) > 80


@pytest.fixture(scope="module")
def done() -> set[tuple[str, ...]]:
    """Commands that have succeeded: what stands on several pages, however it is begun, is run once."""
    return set()


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: page.name)
def test_every_command_runs(page, project, environment, done):
    """In the order of the page; each page can be tried alone."""
    for command in commands_of(page):
        words = tuple(shlex.split(runnable(command)))
        if words not in done and runnable(command) not in OTHERS:
            outcome = run(words, project, environment)
            assert outcome.code == 0, f"$ {command}\nexit code {outcome.code}\n{outcome.out}\n{outcome.err}"
            done.add(words)


def run(words: Sequence[str], folder: Path, environment: dict[str, str]) -> support.Outcome:
    """A command of a page."""
    options = {"cwd": folder, "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    if words[0] == "nemotron":
        return support.finish(warm.start(words[1:], stdin=subprocess.DEVNULL, **options), 600)
    program = sys.executable if words[0] == "python" else words[0]
    return support.finish(subprocess.Popen([program, *words[1:]], stdin=subprocess.DEVNULL, **options), 600)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run(page, project, environment):
    if not page.is_file():
        pytest.fail(f"{page} is gone")
    for language, body in FENCE.findall(page.read_text(encoding="utf-8")):
        if language == "python" and "# ///" not in body and page.name != SESSION:
            done = subprocess.run(
                [sys.executable, "-c", body], cwd=project, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_session_with_python_says_what_it_shows(project, environment, tmp_path):
    page = (ROOT / "docs" / SESSION).read_text(encoding="utf-8")
    blocks = [body for language, body in FENCE.findall(page) if language == "python"]
    checked = SHOWN.sub(lambda found: f"shown = repr({found[1]}); assert shown == {found[2]!r}, shown", "".join(blocks))
    assert checked.count("assert shown") > 10
    own = {**environment, "NEMOTRON_HOME": str(tmp_path)}  # without the jobs of other pages
    done = subprocess.run(
        [sys.executable, "-c", checked], cwd=project, env=own, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), f"{done.stdout}\n{done.stderr}"


def test_the_header_in_the_docs_is_a_header(tmp_path):
    from nemo_runspec.runspec import read_runspec

    text = (ROOT / "docs" / "recipes.md").read_text(encoding="utf-8")
    block = next(body for language, body in FENCE.findall(text) if language == "python" and "# ///" in body)
    script = tmp_path / "train.py"
    script.write_text(block)
    assert read_runspec(script).name == "demo/train"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if not target.startswith(("http", "#")):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_the_reference_is_up_to_date():
    done = subprocess.run([sys.executable, str(ROOT / "docs" / "make_reference.py"), "--check"], check=False)
    assert done.returncode == 0, "run: python docs/make_reference.py"


def test_the_example_has_only_placeholders_to_fill_in(tmp_path, environment):
    shutil.copy(ROOT / "env.toml.example", tmp_path / "env.toml")
    done = subprocess.run(
        [sys.executable, "-m", "nemotron", "env", "check", "env.toml", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    import json

    errors = json.loads(done.stdout)["errors"]
    assert errors
    assert all("placeholder" in error["message"] for error in errors)
