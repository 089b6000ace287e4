"""The code a job gets: what of the user's project travels, and what does not."""

from __future__ import annotations

import hashlib
import os
import random

import pytest
from support import git, make_repository

LOOK = """
    import helper
    names = sorted(os.path.relpath(os.path.join(top, name)) for top, _, names in os.walk(".") for name in names)
    tell(files=[n for n in names if "__pycache__" not in n], helper=helper.WORD, cwd=os.getcwd())
"""


def files_of(bench, **extra: str) -> None:
    bench.project.write("helper.py", "WORD = 'committed'\n")
    bench.project.write("src/my pkg/data ü.txt", "data\n")
    bench.project.write(".gitignore", "env.toml\n")
    for name, text in extra.items():
        bench.project.write(name, text)


def test_no_package(bench):
    """With `packager = "none"` nothing of the project is copied anywhere."""
    bench.profile(packager="none")
    files_of(bench)
    ended = bench.attached(
        """
        code = os.environ["NEMOTRON_JOB_DIR"] + "/code"
        tell(code=os.listdir(code) if os.path.exists(code) else [])
        """
    )
    assert (ended.code, ended.told["code"]) == (0, []), ended.err


def test_git_package(bench):
    """`git` ships the last commit as the job's working directory: neither changes nor untracked files, and says so."""
    bench.profile(packager="git")
    files_of(bench)
    bench.script(LOOK)
    make_repository(bench.project.folder)
    bench.project.write("helper.py", "WORD = 'changed'\n")
    bench.project.write("untracked.py", "")
    ended = bench.attached(LOOK)
    assert ended.code == 0, ended.err
    assert ended.told["helper"] == "committed"
    assert ended.told["files"] == [".gitignore", "helper.py", "job.py", "pyproject.toml", "src/my pkg/data ü.txt"]
    assert "helper.py" in ended.err
    assert "untracked.py" in ended.err


def test_git_subpath(bench):
    """`git` with a subpath ships that folder alone, and a script in it imports from the package."""
    bench.profile(packager="git", packager_subpath="src/app")
    files_of(bench)
    bench.project.write("src/app/helper.py", "WORD = 'of the subpath'\n")
    script = bench.script(LOOK, "src/app/job.py")
    make_repository(bench.project.folder)
    bench.project.write("src/app/helper.py", "WORD = 'changed'\n")
    ended = bench.run_script(script)
    assert (ended.code, ended.told["files"]) == (0, ["helper.py", "job.py"]), ended.err
    assert ended.told["helper"] == "of the subpath"


def test_pattern_package(bench):
    """`pattern` ships the files that match, as they are now."""
    bench.profile(packager="pattern", packager_include_pattern=["*.py", "src/**/*.txt"])
    files_of(bench)
    bench.project.write("helper.py", "WORD = 'as it is now'\n")
    ended = bench.attached(LOOK)
    assert ended.code == 0, ended.err
    assert (ended.told["files"], ended.told["helper"]) == (
        ["helper.py", "job.py", "src/my pkg/data ü.txt"],
        "as it is now",
    )


def test_hybrid_package(bench):
    """`hybrid` ships several packages, each in a folder of its own."""
    parts = {
        "code": {"packager": "git", "subpath": "src"},
        "extra": {"packager": "pattern", "include_pattern": "made/*.json"},
    }
    bench.profile(packager="hybrid", packager_sub_packagers=parts)
    files_of(bench)
    make_repository(bench.project.folder)
    bench.project.write("made/a b.json", "{}")
    ended = bench.attached(LOOK.replace("import helper", "").replace("helper.WORD", "''"))
    assert ended.code == 0, ended.err
    assert ended.told["files"] == ["code/my pkg/data ü.txt", "extra/made/a b.json"]


@pytest.mark.slow
def test_large_package(bench):
    """50 MB of code arrive whole: links, executables and names with spaces among them."""
    bench.profile(packager="git")
    folder = bench.project.folder
    numbers = random.Random(1)
    for number in range(50):
        bench.project.write(f"big/{number}/x", "").write_bytes(numbers.randbytes(1 << 20))
    tool = bench.project.write("a tool.sh", "#!/bin/sh\necho from the tool\n")
    tool.chmod(0o755)
    (folder / "link").symlink_to("big/1/x")
    text = """
        import hashlib, subprocess
        whole = hashlib.sha256()
        for number in range(50):
            whole.update(open(f"big/{number}/x", "rb").read())
        tell(digest=whole.hexdigest(), link=os.readlink("link"), tool=subprocess.check_output("./a tool.sh").decode())
    """
    bench.script(text)
    make_repository(folder)
    expected = hashlib.sha256(b"".join((folder / f"big/{number}/x").read_bytes() for number in range(50))).hexdigest()
    ended = bench.attached(text)
    assert (ended.code, ended.told) == (0, {"digest": expected, "link": "big/1/x", "tool": "from the tool\n"})


def test_repository_untouched(bench):
    """Running a job writes nothing into the user's repository."""
    bench.profile(packager="git")
    files_of(bench)
    script = bench.script(LOOK)
    make_repository(bench.project.folder)
    before = {path: os.lstat(path).st_mtime_ns for path in bench.project.folder.rglob("*")}
    assert bench.run_script(script).code == 0
    assert {path: os.lstat(path).st_mtime_ns for path in bench.project.folder.rglob("*")} == before
    assert git(bench.project.folder, "status", "--porcelain") == ""


def test_outputs_are_the_callers(bench):
    """What a job writes belongs to whoever started it."""
    ended = bench.attached(
        """
        for top in (os.environ["NEMOTRON_JOB_DIR"], os.environ["NEMO_RUN_DIR"]):
            os.makedirs(top + "/of the caller/too", exist_ok=True)
            open(top + "/of the caller/too/file", "w").close()
        """
    )
    assert ended.code == 0, ended.err
    tops = [bench.project.state, *bench.setting.folders]
    made = [path for top in tops for path in top.rglob("*") if "of the caller" in path.parts]
    assert len(made) == 6, made
    assert {(os.lstat(path).st_uid, os.lstat(path).st_gid) for path in made} == {(os.getuid(), os.getgid())}
