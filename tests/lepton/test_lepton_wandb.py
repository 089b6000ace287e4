"""A job's run on W&B, from its pods: the real package against a server on loopback, known here by the log alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from input_recipes import write_recipes
from labs.fixtures import served
from labs.lepton.lab import LeptonLab
from labs.pods import needs_mounts
from labs.wandb import ENVIRONMENTS, KEY, WandbLab, wandb_packages
from lepton_project import Site, make_site

pytestmark = needs_mounts

APPENDS = """\
import json, os, sys
if os.environ["NODE_RANK"] == "0":
    for step in (1, 2):
        with open(os.environ["NEMOTRON_METRICS_FILE"], "a") as file:
            file.write(json.dumps({"step": step, "loss": 1 / step}) + "\\n")
sys.exit(int(os.environ.get("CODE", "0")))
"""


@pytest.fixture
def wandb_lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WandbLab]:
    yield from served("wandb", lambda folder: WandbLab(), request, tmp_path_factory)


@pytest.fixture
def site(lepton_lab: LeptonLab, wandb_lab: WandbLab, tmp_path: Path) -> Site:
    """Profiles `one` and `two` whose metrics are sent on, with the package on a volume of the pods."""
    found = make_site(lepton_lab, tmp_path)
    wandb_packages(lepton_lab.volumes["lustre"] / "packages")
    found.profile(
        f'[w]\nextends = "one"\nenv_vars = {{ PYTHONPATH = "/mnt/lustre/packages" }}\n'
        '[ww]\nextends = "w"\nnodes = 2\n'
        f'[wandb]\nproject = "nemotron"\nentity = "team"\nbase_url = "{wandb_lab.origin}"\nforward = true\n'
    )
    found.project.write("train.py", APPENDS)
    return found


@pytest.mark.parametrize(
    ("profile", "code", "state"), [("w", 0, "finished"), ("w", 3, "failed"), ("ww", 0, "finished")]
)
def test_its_id_address_and_state_are_in_the_record(site: Site, wandb_lab: WandbLab, profile, code, state) -> None:
    """Of several pods only node 0 has one: it is the one run of the job."""
    given = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": wandb_lab.origin}
    done = site.run(profile, f"++run.env.env_vars.CODE='{code}'", **given)
    assert done.code == code, done.out + done.err
    assert wandb_lab.runs, (done.out, done.err)
    [(key, run)] = wandb_lab.runs.items()
    assert (run.losses(), run.exit_code) == ([1.0, 0.5], code)
    assert key == f"team/nemotron/{run.id}"
    url = f"{wandb_lab.origin}/team/nemotron/runs/{run.id}"
    shown = site.nemotron("jobs", "show", run.id, "--json").succeeds().json
    assert shown["wandb"] == {"id": run.id, "url": url, "state": state}
    assert f"{url} ({state})" in site.nemotron("jobs", "show", run.id).succeeds().out
    assert "nemotron-wandb" not in site.nemotron("jobs", "logs", run.id).out + done.out
    assert KEY not in done.out + done.err


def test_what_its_pods_make_is_registered_and_read_by_wandbs_number(site: Site, wandb_lab: WandbLab) -> None:
    """The store is on a volume that only the pods see."""
    write_recipes(site.project)
    text = site.project.env_file.read_text(encoding="utf-8")
    site.project.env_file.write_text(f'{text}[artifacts]\nbackend = "wandb"\n', encoding="utf-8")
    given = {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": wandb_lab.origin}
    site.project.state.mkdir(exist_ok=True)
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    (site.project.state / "envs").symlink_to(ENVIRONMENTS)
    done = site.nemotron("mine", "make", "--run", "w", **given).succeeds()
    [version] = wandb_lab.artifacts.versions("team/nemotron/words")
    path = f"/mnt/lustre/run/artifacts/words/{version.run}"
    assert (version.index, version.metadata["path"]) == (0, path)
    assert wandb_lab.artifacts.references(version) == [f"file://{path}/words"]
    shown = site.nemotron("jobs", "show", "last", "--json").succeeds().json
    assert shown["wandb"]["artifacts"] == "team/nemotron/words:v0", done.out
    listed = site.nemotron("artifacts", "list", "-r", "w", "--json", **given).succeeds().json
    assert [(each["reference"], each["path"]) for each in listed] == [("words:v0", path)]
    read = site.nemotron("mine", "read", "-c", "strict", "run.data=words:0", "--run", "w", **given).succeeds()
    assert f"read: made by {version.run}" in read.out
