"""Three steps of a project: `toy/fetch` makes raw rows, `toy/clean` filters them, `toy/count` counts what is left."""

from __future__ import annotations

from support import Project

_HEAD = (
    '# /// script\n# [tool.runspec]\n# schema = "1"\n# description = "{0}"\n# [tool.runspec.run]\n# launch = "direct"\n'
)
_ARTIFACT = '# [[tool.runspec.{0}]]\n# name = "{1}"\n# type = "{2}"\n'
_BODY = """\
import json, os, pathlib, sys, time, yaml
config = yaml.safe_load(open(sys.argv[2]))
job = pathlib.Path(os.environ["NEMOTRON_JOB_DIR"])
while config.get("held") and not (job / "go").exists():
    time.sleep(0.05)
if config.get("code"):
    sys.exit(config["code"])
out = pathlib.Path(config["output_dir"])
out.mkdir(parents=True, exist_ok=True)
"""
FETCH = (
    _HEAD.format("Makes rows.")
    + _ARTIFACT.format("produces", "rows", "toy_raw")
    + "# ///\n"
    + _BODY
    + '(out / "rows").write_text("\\n".join(str(n) for n in range(config["rows"])))\n'
)
CLEAN = (
    _HEAD.format("Filters rows.")
    + _ARTIFACT.format("consumes", "data", "toy_raw")
    + _ARTIFACT.format("produces", "kept", "toy_filtered")
    + "# ///\n"
    + _BODY
    + 'rows = pathlib.Path(config["data"], "rows").read_text().split()\n'
    + '(out / "rows").write_text("\\n".join(r for r in rows if int(r) % config["keep"] == 0))\n'
)
COUNT = (
    _HEAD.format("Counts rows.")
    + _ARTIFACT.format("consumes", "data", "toy_any")
    + _ARTIFACT.format("produces", "counted", "toy_count")
    + "# ///\n"
    + _BODY
    + 'found = len(pathlib.Path(config["data"], "rows").read_text().split())\n'
    + '(out / "count").write_text(str(found))\nprint("counted", found)\n'
)
TYPES = '[toy_any]\n[toy_raw]\nis_a = "toy_any"\n[toy_filtered]\nis_a = "toy_any"\n[toy_count]\n'


def write_steps(project: Project, held: str = "false") -> None:
    """Writes the steps, each with a config `default`, and their types. `held`: whether `toy/fetch` waits for `go`."""
    project.write("recipes/steps/types.toml", TYPES)
    head = "output_dir: ${run.output_dir}\ncode: 0\n"
    project.write("recipes/steps/toy/fetch/step.py", FETCH)
    project.write(
        "recipes/steps/toy/fetch/config/default.yaml",
        f"run: {{rows: {{artifact: toy-rows}}}}\n{head}rows: 12\nheld: {held}\n",
    )
    project.write("recipes/steps/toy/clean/step.py", CLEAN)
    project.write(
        "recipes/steps/toy/clean/config/default.yaml",
        "run: {data: {path: null}, kept: {artifact: toy-kept}}\n" + head + "data: ${run.data.path}\nkeep: 3\n",
    )
    project.write("recipes/steps/toy/count/step.py", COUNT)
    project.write(
        "recipes/steps/toy/count/config/default.yaml",
        "run: {data: {path: null}, counted: {artifact: toy-count}}\n" + head + "data: ${run.data.path}\n",
    )
