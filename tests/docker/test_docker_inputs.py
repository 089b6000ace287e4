"""A container's inputs: its mounts are paths of this machine, and that is where they are looked for."""

from __future__ import annotations

from input_recipes import jobs_of, write_recipes
from lab_docker import needs_docker
from support import Project, process

pytestmark = needs_docker


def test_a_path_in_the_container_is_looked_for_behind_its_mount(box: Project):
    write_recipes(box)
    data = box.home / "data"
    (data / "set").mkdir(parents=True)
    (data / "set" / "words").write_text("from the mount")
    box.write("env.toml", box.env_file.read_text() + f'mounts = ["{data}:/workspace/data:ro"]\n')
    # The lab's image has no YAML: the reader is told where its words lie.
    reader = (box.folder / "recipes/mine/read/read.py").read_text().partition("import sys")[0]
    box.write("recipes/mine/read/read.py", f'{reader}print(open("/workspace/data/set/words").read())\n')
    words = ("mine", "read", "--run", "box")
    there = "run.data.path=/workspace/data/set"
    shown = process(box, *words, there, "--dry-run").succeeds().out
    assert "there" in shown.partition("reads data")[2].splitlines()[1]
    assert "from the mount" in process(box, *words, there).succeeds().out
    process(box, *words, "run.data.path=/workspace/data/gone").refuses("is missing: /workspace/data/gone")
    assert len(jobs_of(box, "mine")) == 1
