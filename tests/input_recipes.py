"""Two recipes of a project: one makes words, the other reads them, and has them made where they are missing."""

from __future__ import annotations

from pathlib import Path

from support import Project

HEAD = '# /// script\n# [tool.runspec]\n# description = "{0}"\n# [tool.runspec.run]\n# launch = "direct"\n{1}# ///\n'
MAKER = (
    HEAD.format("Makes data.", '# [[tool.runspec.produces]]\n# name = "data"\n# type = "text"\n')
    + """\
import os, pathlib, sys, time, yaml
config = yaml.safe_load(open(sys.argv[2]))
print("making on", os.environ["NEMOTRON_NUM_NODES"], flush=True)
job = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
while config["held"] and not (job / "go").exists():
    time.sleep(0.05)
folder = pathlib.Path(config["output_dir"])
folder.mkdir(parents=True)
(folder / "words").write_text("made by " + os.environ["NEMOTRON_JOB_NAME"])
sys.exit(config["code"])
"""
)
READER = (
    HEAD.format("Reads data.", '# [[tool.runspec.consumes]]\n# name = "data"\n# type = "text"\n')
    + """\
import sys, pathlib, yaml
print("read:", pathlib.Path(yaml.safe_load(open(sys.argv[2]))["data"], "words").read_text())
"""
)
_MADE = "run: {{data: {{artifact: words}}}}\noutput_dir: ${{run.output_dir}}\nheld: {0}\ncode: {1}\n"
_READ = "run: {{data: {{artifact: words, recipe: mine/make, config: {0}{1}}}}}\ndata: ${{art:data,path}}\n"


def write_recipes(project: Project) -> None:
    """`mine/make` and `mine/read`, each with configs `default`, `held` (until `go` is in the maker's job directory) and
    `failing`; `mine/read -c strict` has nothing made."""
    project.write("recipes/mine/make/make.py", MAKER)
    project.write("recipes/mine/read/read.py", READER)
    for name, held, code in (("default", "false", 0), ("held", "true", 0), ("failing", "false", 5)):
        project.write(f"recipes/mine/make/config/{name}.yaml", _MADE.format(held, code))
        project.write(f"recipes/mine/read/config/{name}.yaml", _READ.format(name, ", make: if-missing"))
    project.write("recipes/mine/read/config/strict.yaml", _READ.format("default", ""))


def jobs_of(project: Project, recipe: str) -> list[str]:
    """Names of the recorded jobs whose names begin so."""
    return sorted(
        path.name for path in (project.state / "jobs").glob(f"{recipe}-*") if Path(path / "record.json").exists()
    )
