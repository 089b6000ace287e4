"""Recipe environments, really made by uv from a folder of wheels."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import LONG, line_of

from nemo_runspec import envs
from nemo_runspec.envs import ensure_env, env_key, install_settings, satisfies
from nemo_runspec.errors import UserError
from nemo_runspec.plans.model import PythonEnv
from nemo_runspec.runspec import read_runspec
from nemo_runspec.toml import parse_toml
from nemo_runspec.uv_process import find_uv, run_uv, uv_environment
from nemo_runspec.uv_table import script_of, uv_table

NAME = "nemotron_test_wheel"


def make_wheel(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    info = f"{NAME}-1.0.dist-info"
    with zipfile.ZipFile(folder / f"{NAME}-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{NAME}.py", "VALUE = 5\n")
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    make_wheel(tmp_path / "wheels")
    for name in [n for n in os.environ if n.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("UV_OFFLINE", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))


WANTED = PythonEnv((NAME,), download="about 1 kB")


def value(bin_dir: Path) -> str:
    code = f"import {NAME}, sys; print({NAME}.VALUE, sys.prefix)"
    return subprocess.run([bin_dir / "python", "-c", code], capture_output=True, text=True, check=True).stdout


def test_made_once_and_found_again():
    lines: list[str] = []
    bin_dir = ensure_env(WANTED, lines.append)
    assert bin_dir is not None
    assert value(bin_dir) == f"5 {bin_dir.parent}\n"
    assert "making the recipe's Python environment, once: 1 package, 755 B from files here" in lines, lines
    lines.clear()
    assert ensure_env(WANTED, lines.append) == bin_dir
    assert lines == []


def test_uv_ends_with_a_signal_that_comes_while_it_is_started(monkeypatch):
    started = []

    class Popen(subprocess.Popen):
        def __init__(self, *words, **more):
            super().__init__(*words, **more)
            started.append(self)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run_uv(["sleep", "600"])
    assert started[0].poll() == -signal.SIGKILL and signal.getsignal(signal.SIGINT) is before


def test_no_dependencies_need_no_environment():
    assert ensure_env(PythonEnv(), print) is None


def python_that_says(folder: Path, version: str) -> Path:
    """A folder with a `python` that says it has this version, for `PATH`."""
    folder.mkdir()
    (folder / "python").write_text(f"#!/bin/sh\necho {version}\n")
    (folder / "python").chmod(0o755)
    return folder


@pytest.mark.parametrize(
    ("version", "requires", "made"),
    [
        ("3 8 2", ">=3.11", True), ("3 13 0", ">=3.11", False), ("3 13 0", ">=3.11,<3.13", True),
        ("3 8 2", None, False), ("nonsense", ">=3.11", True), (None, ">=3.11", True), (None, None, False),
    ],
)  # fmt: skip
def test_requires_python_alone_chooses_the_interpreter(tmp_path, monkeypatch, version, requires, made):
    """One is made only where the `python` that a job would find does not do."""
    uv = Path(find_uv())
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv" / "uv").symlink_to(uv)
    first = [python_that_says(tmp_path / "bin", version)] if version else []
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, [*first, tmp_path / "uv"])))
    lines: list[str] = []
    bin_dir = ensure_env(PythonEnv((), requires), lines.append)
    assert (bin_dir is not None) == made == bool(lines)
    if bin_dir is not None:
        said = subprocess.run([bin_dir / "python", "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
        assert satisfies(tuple(map(int, said.split("."))), requires)
        assert lines[0].endswith(f"once: Python {requires}")


def header(folder: Path, text: str, script: str = "train.py") -> PythonEnv:
    """What the block of a script in that folder asks for."""
    folder.mkdir(exist_ok=True)
    lines = "".join(f"# {line}".rstrip() + "\n" for line in text.strip().splitlines())
    (folder / script).write_text(f"# /// script\n{lines}# ///\n")
    spec = read_runspec(folder / script, required=False)
    return PythonEnv(spec.dependencies, spec.requires_python, spec.download, spec.uv)


@pytest.mark.parametrize(
    "table",
    [
        '[tool.uv]\nfind-links = ["../own"]',
        f'[tool.uv.sources]\n{NAME} = {{ path = "../own/{NAME}-1.0-py3-none-any.whl" }}',
        f'[tool.uv.sources]\n{NAME} = {{ index = "mine" }}\n[[tool.uv.index]]\nname = "mine"\nurl = "../own"\n'
        'format = "flat"\nexplicit = true',
    ],
    ids=["find-links", "path", "index"],
)
def test_the_scripts_own_word_where_packages_come_from(tmp_path, monkeypatch, table):
    """Relative to the script, whatever the working directory."""
    monkeypatch.delenv("PIP_FIND_LINKS")
    make_wheel(tmp_path / "own")
    asked = header(tmp_path / "code", f'dependencies = ["{NAME}"]\n{table}')
    lines: list[str] = []
    bin_dir = ensure_env(asked, lines.append)
    assert bin_dir is not None
    assert value(bin_dir) == f"5 {bin_dir.parent}\n"
    room = (tmp_path / "own" / f"{NAME}-1.0-py3-none-any.whl").stat().st_size
    assert lines[0] == f"making the recipe's Python environment, once: 1 package, {room} B from files here"
    assert not (tmp_path / "code" / "train.py.lock").exists()
    with pytest.raises(UserError):
        ensure_env(PythonEnv((NAME,)), print)


def test_what_is_honoured_decides_the_environment(tmp_path):
    """Another table, or another wheel in the same place: another environment; the same: the same."""
    make_wheel(tmp_path / "own")
    wheel = tmp_path / "own" / f"{NAME}-1.0-py3-none-any.whl"
    asked = header(tmp_path / "code", f'dependencies = ["{NAME}"]\n[tool.uv.sources]\n{NAME} = {{ path = "{wheel}" }}')
    keys = [env_key(asked, "p", {}), env_key(PythonEnv((NAME,)), "p", {})]
    assert env_key(asked, "p", {}) == keys[0]
    os.utime(wheel, ns=(1, 1))
    keys.append(env_key(asked, "p", {}))
    keys.append(env_key(header(tmp_path / "code", f'dependencies = ["{NAME}"]\n[tool.uv]\noffline = true'), "p", {}))
    assert len(set(keys)) == 4
    assert "UV_TORCH_BACKEND" not in install_settings(PythonEnv(("torch",), uv="offline = true\n"), {})


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.recursive(
            st.text(max_size=12) | st.booleans() | st.integers(-9, 9),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
            max_leaves=8,
        ),
        max_size=4,
    )
)
@settings(max_examples=200)
def test_any_table_is_the_same_in_the_script_that_uv_reads(table):
    script = script_of(("a", "b"), ">=3.11", uv_table({"tool": {"uv": table}}, Path("/")))
    read = parse_toml("\n".join(line.removeprefix("# ") for line in script.split("\n")[1:-2]), "script")
    assert (read["dependencies"], read["requires-python"]) == (["a", "b"], ">=3.11")
    paths = {"sources", "index", "find-links", "index-url", "extra-index-url"}
    assert {k: v for k, v in read["tool"]["uv"].items() if k not in paths} == {
        k: v for k, v in table.items() if k not in paths
    }


def test_killed_half_way_is_made_anew(own_state):
    slow = "import sys, time; from nemo_runspec import envs\n" \
        "real = envs.run_uv\n" \
        "def slow(command):\n    real(command); print('made', flush=True); time.sleep(600)\n" \
        "envs.run_uv = slow\n" \
        f"envs.ensure_env(envs.PythonEnv(('{NAME}',), download='about 1 kB'), lambda line: None)"  # fmt: skip
    child = subprocess.Popen([sys.executable, "-c", slow], stdout=subprocess.PIPE, text=True)
    assert line_of(child.stdout) == "made\n"
    (folder,) = [p for p in (own_state / "envs").iterdir() if p.is_dir()]
    assert (folder / "bin" / "python").exists()
    child.send_signal(signal.SIGKILL)
    child.communicate()
    bin_dir = ensure_env(WANTED, print)
    assert bin_dir == folder / "bin"
    assert value(bin_dir).startswith("5 ")


def test_asked_for_twice_at_once_it_is_made_once(own_state):
    code = "import time; from nemo_runspec import envs\n" \
        f"print(envs.ensure_env(envs.PythonEnv(('{NAME}',)), print))"  # fmt: skip
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [child.communicate(timeout=LONG)[0] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], outputs
    assert len({output.splitlines()[-1] for output in outputs}) == 1
    assert sum("making the recipe's" in output for output in outputs) == 1


def test_what_cannot_be_installed_is_an_error_with_uvs_own_words():
    with pytest.raises(UserError) as caught:
        ensure_env(PythonEnv(("no-such-package-of-nemotron==1",)), print)
    assert "no-such-package-of-nemotron" in caught.value.what
    assert "PIP_FIND_LINKS" in str(caught.value.remedy)
    with pytest.raises(UserError):
        ensure_env(PythonEnv(("no-such-package-of-nemotron==1",)), print)


def test_the_key_is_of_what_matters():
    assert env_key(PythonEnv(("b", "a")), "p", {}) == env_key(PythonEnv(("a", "b"), download="x"), "p", {})
    keys = {
        env_key(PythonEnv(d, r), p, s)
        for d in (("a",), ("b",))
        for r in (None, ">=3.10")
        for p in ("p", "q")
        for s in ({}, {"UV_TORCH_BACKEND": "auto"}, {"UV_TORCH_BACKEND": "cpu"}, {"UV_FIND_LINKS": "/a"})
    }
    assert len(keys) == 32


@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, {"UV_TORCH_BACKEND": "auto"}), ({"UV_TORCH_BACKEND": ""}, {"UV_TORCH_BACKEND": "auto"}),
     ({"UV_TORCH_BACKEND": "cpu", "OTHER": "1"}, {"UV_TORCH_BACKEND": "cpu"}),
     ({"PIP_INDEX_URL": "https://x"}, {"UV_DEFAULT_INDEX": "https://x"}),
     ({"UV_INDEX_URL": "https://x", "PIP_INDEX_URL": "https://y"}, {"UV_INDEX_URL": "https://x"}),
     ({"PIP_FIND_LINKS": "/w"}, {"UV_FIND_LINKS": "/w"}),
     ({"UV_EXTRA_INDEX_URL": "https://x"}, {"UV_EXTRA_INDEX_URL": "https://x", "UV_TORCH_BACKEND": "auto"})],
)  # fmt: skip
def test_the_settings_that_decide_what_is_installed(environment, expected):
    assert install_settings(PythonEnv(("numpy", "torch>=2")), environment) == expected
    assert "UV_TORCH_BACKEND" not in install_settings(PythonEnv(("torch-geometric",)), {})


FAKE_UV = """#!/bin/sh
if [ "$1" = venv ]; then
  for folder; do :; done
  mkdir -p "$folder/bin" && touch "$folder/bin/python"
elif [ "$UV_TORCH_BACKEND" = auto ]; then
  echo "error: no such index" && exit 2
fi
"""


def test_another_build_of_torch_than_the_fitting_one_is_said(tmp_path, monkeypatch):
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "uv").write_text(FAKE_UV)
    (tmp_path / "fake" / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'fake'}:{os.environ['PATH']}")
    monkeypatch.delenv("PIP_FIND_LINKS")
    lines: list[str] = []
    assert ensure_env(PythonEnv(("torch",)), lines.append) is not None
    assert [line for line in lines if "PyPI's is taken (error: no such index)" in line]


@pytest.mark.parametrize("where", ["", "envs", "lock"])
def test_a_folder_that_cannot_be_written_is_an_error_for_the_person(own_state, where):
    key = env_key(WANTED, envs._interpreter(None), install_settings(WANTED, os.environ))
    if where == "lock":
        (own_state / "envs" / f"{key}.lock").mkdir(parents=True)
    else:
        (own_state / where).parent.mkdir(parents=True, exist_ok=True)
        (own_state / where).write_text("a file")
    with pytest.raises(UserError, match="cannot make the recipe's Python environment") as caught:
        ensure_env(WANTED, print)
    assert "NEMOTRON_HOME" in str(caught.value.remedy)


def test_pips_settings_are_handed_on_under_uvs_names():
    pip = {"PIP_FIND_LINKS": "/a /b", "PIP_INDEX_URL": "https://x/simple", "VIRTUAL_ENV": "/v", "PYTHONPATH": "/p"}
    assert uv_environment(pip) == {**{k: v for k, v in pip.items() if k.startswith("PIP")},
                                   "UV_FIND_LINKS": "/a,/b", "UV_DEFAULT_INDEX": "https://x/simple"}  # fmt: skip
    kept = {"PIP_FIND_LINKS": "/a", "UV_FIND_LINKS": "/mine", "PIP_INDEX_URL": "x", "UV_INDEX_URL": "y"}
    assert uv_environment(kept) == kept


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [(None, True), ("", True), (">=3.10", True), (">=3.11,<3.14", True), (">=3.12", False), ("==3.11.*", True),
     ("==3.11", False), ("~=3.10", True), ("~=3.11.9", False), ("!=3.11.7", False), (">3.11.7", False),
     (">= 3.11 , < 3.12", True), ("nonsense", None)],
)  # fmt: skip
def test_requires_python(requirement, expected):
    assert satisfies((3, 11, 7), requirement) is expected


def test_uv_is_found_beside_the_package(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(find_uv()).is_file()
