"""`steps run env/env_toml`: env files from templates, as a person writes and fills them in."""

from __future__ import annotations

import json
import sys

import pytest
from support import HEADER, REPOSITORY

from nemo_runspec.catalog import builtin_root, find_recipes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TEMPLATES = sorted((REPOSITORY / "recipes/steps/env/env_toml/config").glob("*.yaml"))
TARGETS = [file.stem for file in TEMPLATES]
WRITE = ("-q", "steps", "run", "env/env_toml")
SCHEMA = "env.schema.json"
FILLED_IN = {
    "YOUR-SHARED-FOLDER": "lustre",
    "/YOUR-DATA-FOLDER": "/tmp",
    "https://YOUR-CLUSTER": "https://run.example.com",
}

OURS = """\
# What our cluster is called.

defaults: [slurm, _self_]
output: env.ours.toml

sections:
  slurm_base:
    # Everybody's project.
    account: team
    qos: null
  # Long jobs.
  slurm_long: {extends: slurm_gpu, time: "24:00:00"}
"""


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, str]]:
    """What has been written for a target, by name: one that is untouched is written once for all tests."""
    return {}


@pytest.fixture
def write(nemotron_process, project, written):
    """Writes the env file of a target, and gives it."""
    project.env_file.unlink()

    def run(target):
        file = project.folder / f"env.{target}.toml"
        if target not in written:
            nemotron_process(*WRITE, "-c", target).succeeds()
            written[target] = {each.name: each.read_text(encoding="utf-8") for each in (file, file.with_name(SCHEMA))}
            assert file.stat().st_mode & 0o077 == 0
        for name, text in written[target].items():
            project.write(name, text)
        return file

    return run


def fill_in(file):
    """What a person does with an editor."""
    text = file.read_text(encoding="utf-8")
    for word, value in FILLED_IN.items():
        text = text.replace(word, value)
    file.write_text(text.replace("YOUR-", "our-"), encoding="utf-8")


STEPS = [
    recipe for recipe in find_recipes([builtin_root()]) if recipe.is_step and not recipe.path.endswith("/env_toml")
]
"""All steps but the one that is tested here, which runs without a profile."""


def profile_of(step, target):
    return f"{target}_{step.path.removeprefix('steps/').replace('/', '_')}"


@pytest.mark.parametrize("target", TARGETS)
def test_every_step_has_a_profile(write, target):
    sections = list(tomllib.loads(write(target).read_text(encoding="utf-8")))
    bases = [name for name in sections if name in {f"{target}_{word}" for word in ("base", "cpu", "uv", "gpu", "ray")}]
    assert {profile_of(step, target) for step in STEPS} <= set(sections)
    assert sections[: len(bases)] == bases


@pytest.mark.parametrize("target", TARGETS)
def test_a_profile_says_nothing_that_its_step_says(write, target):
    for name, table in tomllib.loads(write(target).read_text(encoding="utf-8")).items():
        own = {"container_image"} if name.endswith("_uv") else set()
        assert not {"nodes", "gpus_per_node", "nproc_per_node", "container_image"} & set(table) - own, name


@pytest.mark.parametrize("target", [target for target in TARGETS if target != "local"])
def test_an_image_is_brought_where_a_step_has_none_and_nowhere_else(write, target):
    sections = tomllib.loads(write(target).read_text(encoding="utf-8"))
    for step in STEPS:
        brings = sections[profile_of(step, target)]["extends"] == f"{target}_uv"
        assert brings == (step.spec.image is None), step.path


@pytest.mark.parametrize("target", TARGETS)
def test_every_step_can_be_planned_with_its_profile(write, nemotron, monkeypatch, target):
    file = write(target)
    monkeypatch.setenv("NEMOTRON_ENV_FILE", file.name)
    monkeypatch.setenv("DGX_CLIENT_SECRET", "a-secret-of-tests")
    fill_in(file)
    assert STEPS
    for step in STEPS:
        ident, name = step.path.removeprefix("steps/"), profile_of(step, target)
        config = "tiny" if "tiny" in step.configs() else step.configs()[0]
        planned = nemotron("steps", "run", ident, "-c", config, "-r", name, "--dry-run", "--json")
        assert planned.code == 0, (ident, name, planned.err)
        plan = planned.json["plan"]
        assert (plan["profile"], plan["unfilled"]) == (name, []), (ident, plan["unfilled"])
        assert plan["resources"]["gpus_per_node"] <= (step.spec.gpus_per_node or 0)


def test_there_is_a_template_for_every_executor():
    assert TARGETS == ["dgxcloud", "docker", "lepton", "local", "slurm"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_file_is_written_and_right_once_it_is_filled_in(write, nemotron, target, monkeypatch):
    file = write(target)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("#:schema ./env.schema.json\n# ")
    assert json.loads(file.with_name(SCHEMA).read_text(encoding="utf-8"))
    assert max(map(len, text.splitlines())) <= 105
    monkeypatch.setenv("NEMOTRON_ENV_FILE", file.name)
    monkeypatch.setenv("DGX_CLIENT_SECRET", "a-secret-of-tests")
    fill_in(file)
    report = nemotron("env", "check")
    assert (report.code, report.err) == (0, "")
    assert report.out.endswith("profiles, all right\n"), report.out


def test_what_is_to_be_filled_in_is_listed_with_its_lines(nemotron_process, project):
    outcome = nemotron_process(*WRITE, "-c", "slurm", "sections.slurm_base.account=ours").succeeds()
    lines = (project.folder / "env.slurm.toml").read_text(encoding="utf-8").splitlines()
    listed = [line.split(None, 1) for line in outcome.out.splitlines() if line.startswith("  env.slurm.toml:")]
    assert [(int(place.partition(":")[2]), said) for place, said in listed] == [
        (number, line.strip()) for number, line in enumerate(lines, 1) if "YOUR-" in line
    ]
    assert 'account = "ours"' in lines
    assert "export NEMOTRON_ENV_FILE=env.slurm.toml" in outcome.out


def test_a_secret_stays_in_the_environment(write):
    text = write("dgxcloud").read_text(encoding="utf-8")
    assert 'client_secret = "${oc.env:DGX_CLIENT_SECRET}"' in text


def test_it_lies_beside_pyproject_toml_wherever_one_is(nemotron_process, project):
    below = project.folder / "src" / "deep"
    below.mkdir(parents=True)
    nemotron_process(*WRITE, "-c", "local", cwd=below).succeeds()
    assert (project.folder / "env.local.toml").is_file()
    (project.folder / "pyproject.toml").unlink()
    nemotron_process(*WRITE, "-c", "local", cwd=below).succeeds()
    assert (below / "env.local.toml").is_file()


def test_a_file_that_is_there_is_kept(nemotron_process, project):
    file = project.write("env.slurm.toml", "# mine\n")
    refused = nemotron_process(*WRITE, "-c", "slurm")
    assert refused.code == 2
    assert "error: env.slurm.toml is there already" in refused.out
    assert "force=true" in refused.out
    assert file.read_text(encoding="utf-8") == "# mine\n"
    for number, kept in enumerate(("env.slurm.toml.bak", "env.slurm.toml.bak-2")):
        file.write_text(f"# mine {number}\n", encoding="utf-8")
        forced = nemotron_process(*WRITE, "-c", "slurm", "force=true").succeeds()
        assert f"the one before is kept as {kept}" in forced.out
        assert (project.folder / kept).read_text(encoding="utf-8") == f"# mine {number}\n"
    assert "kept as" not in nemotron_process(*WRITE, "-c", "slurm", "force=true").succeeds().out


def test_a_template_of_ones_own_over_one_of_ours(nemotron_process, project):
    project.write("ours.yaml", OURS)
    nemotron_process(*WRITE, "-c", "ours.yaml").succeeds()
    text = (project.folder / "env.ours.toml").read_text(encoding="utf-8")
    assert text.splitlines()[:3] == ["#:schema ./env.schema.json", "# What our cluster is called.", ""]
    assert '# Everybody\'s project.\naccount = "team"\n' in text
    assert "# Where jobs of steps with GPUs go: sinfo -s\npartition" in text
    assert '\n# Long jobs.\n[slurm_long]\nextends = "slurm_gpu"\ntime = "24:00:00"\n' in text
    assert "qos" not in tomllib.loads(text)["slurm_base"]


def test_a_template_that_is_wrong_is_told(nemotron_process, project):
    project.write("ours.yaml", "sections: {a: {executor: slurm, acount: x}, b: {extends: nowhere}}\n")
    outcome = nemotron_process(*WRITE, "-c", "ours.yaml")
    assert outcome.code == 2
    assert "unknown key 'acount'" in outcome.out
    assert "'b' extends 'nowhere'" in outcome.out
    project.write("ours.yaml", "section: {a: {executor: slurm}}\n")
    outcome = nemotron_process(*WRITE, "-c", "ours.yaml")
    assert outcome.code == 2
    assert "unknown key 'section' in a template\n  at:  ours.yaml:1\n  fix: did you mean 'sections'?" in outcome.out


def test_it_runs_on_this_machine_only(nemotron, nemotron_process, project):
    nemotron("steps", "run", "env/env_toml", "-r", "my-cluster").refuses("works on files of this machine", "leave out")
    nemotron("steps", "run", "env/env_toml", "-r", "box").refuses("leave out --run")
    project.write("env.toml", '[here]\npackager = "pattern"\npackager_include_pattern = "*.toml"\n')
    nemotron_process(*WRITE, "-c", "docker", "-r", "here").succeeds()
    assert (project.folder / "env.docker.toml").is_file()


def test_a_recipe_of_ones_own_in_nemotrons_python(nemotron, nemotron_process, project):
    header = HEADER.replace('# launch = "direct"', '# launch = "direct"\n# python = "nemotron"')
    project.recipe("tools/it", header=header, body="import sys, nemo_runspec\nprint(sys.executable)\n")
    assert sys.executable in nemotron_process("-q", "tools", "it").succeeds().out
    project.recipe("tools/it", header=header.replace("dependencies = []", 'dependencies = ["numpy"]'))
    nemotron("tools", "it", "--dry-run").refuses("dependencies beside python", "keep one of them")


@pytest.mark.parametrize("target", TARGETS)
def test_a_generated_profile_that_was_made_wrong_is_told_with_its_line(write, nemotron, target, monkeypatch):
    monkeypatch.setenv("DGX_CLIENT_SECRET", "a-secret-of-tests")
    file = write(target)
    fill_in(file)
    text = file.read_text(encoding="utf-8")
    gpus = 'resource_shape = "gpu.8xh100-sxm"' if target == "lepton" else "gpus_per_node = 8"
    mistakes = (
        ("sft_automodel", 'extends = "nope"', "extends 'nope', which"),
        ("curate_nemo_curator", gpus, "8 GPUs would be taken for a recipe that uses none"),
        ("sdg_data_designer", gpus, "8 GPUs would be taken for a recipe that uses none"),
        ("rl_nemo_rl_dpo", "ray_port = 10001", "Ray keeps 10001 for its clients"),
    )
    too_few = ("rl_nemo_rl_rlhf", "gpus_per_node = 1", "the reward model takes 1 x 4 GPUs, which leaves nothing")
    for step, line, _ in (*mistakes, too_few):
        head, _, rest = text.partition(f"[{target}_{step}]\n")
        own, _, below = rest.partition("\n[")
        own = "\n".join(each for each in own.splitlines() if not each.startswith(line.partition("=")[0]))
        text = f"{head}[{target}_{step}]\n{line}\n{own}\n[{below}"
    file.write_text(text, encoding="utf-8")
    report = nemotron("env", "check", file.name)
    assert report.code == 2, report.out
    for step, line, said in mistakes:
        number = text.partition(f"[{target}_{step}]\n")[0].count("\n") + 2
        place = f"  at:  env.{target}.toml:{number} [{target}_{step}]\n       {line}\n"
        before, found, _ = report.err.partition(place)
        assert found and said in before.splitlines()[-1], report.err
    # Here two files disagree, and the place is that of the one that says what is needed.
    before, found, _ = report.err.partition("rlhf/config/default.yaml:")
    assert found and f"profile '{target}_{too_few[0]}': {too_few[2]}" in before.splitlines()[-2], report.err
