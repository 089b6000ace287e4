"""`nemotron artifacts`, and versions as inputs: listed, shown, drawn, compared, added, tagged, brought, removed."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from input_recipes import READER, write_recipes
from support import Project, make_project, process

TRAIN = READER.replace(
    'type = "text"\n', 'type = "text"\n# [[tool.runspec.produces]]\n# name = "model"\n# type = "model"\n'
)
TRAIN += """
folder = pathlib.Path(yaml.safe_load(open(sys.argv[2]))["output_dir"])
folder.mkdir(parents=True)
(folder / "weights").write_text("weights")
"""
CONFIG = """\
run:
  data: {artifact: words}
  model: {artifact: net}
data: ${art:data,path}
which: ${art:data,name} ${art:data,version}
output_dir: ${run.output_dir}
"""
TABLE = "run: {data: {artifact: words, version: 1}}\ndata: ${art:data,path}\n"


@pytest.fixture
def project(tmp_path) -> Project:
    made = make_project(tmp_path, f'[artifacts]\nroot = "{tmp_path}/store"\n[elsewhere]\nexecutor = "slurm"\n')
    write_recipes(made)
    made.write("recipes/mine/train/train.py", TRAIN)
    made.write("recipes/mine/train/config/default.yaml", CONFIG)
    made.write("recipes/mine/train/config/first.yaml", CONFIG.replace("artifact: words", "artifact: words:v1"))
    made.write("recipes/mine/read/config/table.yaml", TABLE)
    made.write(
        "recipes/mine/train/config/raw.yaml", CONFIG.replace("which: ${art:data,name} ${art:data,version}\n", "")
    )
    made.write("recipes/steps/types.toml", '[text]\ndescription = "Words."\nlayout = "a file"\n')
    return made


@pytest.fixture
def two(project) -> Project:
    """Two versions of words, and a net made from the first."""
    process(project, "mine", "make").succeeds()
    process(project, "mine", "make", "code=0").succeeds()
    process(project, "mine", "train", "-c", "first").succeeds()
    return project


def listed(project: Project, *words: str) -> list[str]:
    return [each["reference"] for each in process(project, "artifacts", "list", *words, "--json").succeeds().json]


def test_versions_are_listed_in_every_form_and_width(two):
    assert listed(two) == ["net:v1", "words:v2"]
    assert listed(two, "words") == ["words:v2", "words:v1"] and len(listed(two, "--all")) == 3
    assert listed(two, "--type", "text") == ["words:v2"]
    for width in (80, 120):
        out = process(two, "artifacts", "list", "--all", COLUMNS=str(width)).succeeds().out
        assert max(map(len, out.splitlines())) <= width and "words:v1" in out and "mine/train" in out
    rows = list(csv.DictReader(io.StringIO(process(two, "artifacts", "list", "--all", "-o", "csv").out)))
    assert [row["version"] for row in rows] == ["1", "2", "1"]
    assert "digest: sha256:" in process(two, "artifacts", "list", "-o", "yaml").succeeds().out
    assert "sha256:" in process(two, "artifacts", "list", "-o", "wide").succeeds().out
    process(two, "artifacts", "list", "wrds").refuses("no artifact 'wrds'", "did you mean", "words")
    process(two, "artifacts", "list", "--type", "txt").refuses("no type 'txt'")


def test_a_reference_in_yaml_on_the_command_line_and_what_it_stands_for(two, tmp_path):
    one, two_ = ((tmp_path / "store" / "words" / f"v{n}").readlink().name for n in (1, 2))
    for word in ("words:1", "words:v1", f"words:{one}"):
        assert f"made by {one}" in process(two, "mine", "read", f"run.data={word}").succeeds().out
    for word in ("words", "words:latest", "words:2"):
        assert f"made by {two_}" in process(two, "mine", "read", f"run.data={word}").succeeds().out
    assert f"made by {one}" in process(two, "mine", "read", "-c", "table").succeeds().out
    plan = process(two, "mine", "train", "run.data=words:1", "--dry-run", "--json").succeeds().json["plan"]
    assert plan["config"]["which"] == "words v1" and plan["config"]["data"].endswith(one)
    assert plan["run"]["data"]["artifact"] == "words"
    shown = process(two, "jobs", "show", "last").succeeds().out
    assert "input data  words:v1  " in shown


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("words:7", "no version '7'"),
        ("words:gld", "no version 'gld'"),
        ("wods:1", "did you mean 'words'"),
        ("words:", "names no artifact"),
        ("net:1", "takes text, and net:v1 is model"),
        ("net", "takes text, and net:v1 is model"),
    ],
)
def test_what_there_is_not_and_what_is_of_another_type_is_a_mistake(two, word, says):
    process(two, "artifacts", "tag", "words:1", "gold").succeeds()
    done = process(two, "mine", "read", f"run.data={word}", "--dry-run")
    done.refuses(says, "command line")


def test_elsewhere_the_link_is_read_where_the_job_runs(project):
    plan = process(project, "mine", "read", "--run", "elsewhere", "run.data=words:3", "--dry-run", "--json")
    found = plan.succeeds().json["plan"]
    assert found["config"]["data"].endswith("/store/words/v3") and found["consumes"][0]["version"] == "v3"


def test_lineage_goes_both_ways_in_a_terminal_as_data_and_as_a_picture(two, tmp_path):
    raw = tmp_path / "raw.txt"
    raw.write_text("raw")
    process(two, "mine", "train", "run.data=words:2").succeeds()
    for width in ("80", "120"):
        out = process(two, "artifacts", "lineage", "words:1", COLUMNS=width).succeeds().out
        assert "words:v1  text, by mine/make" in out and "what was made from it:" in out
        assert "└─ net:v1  model, by mine/train" in out and max(map(len, out.splitlines())) <= int(width)
    back = process(two, "artifacts", "lineage", "net:1", "--json").succeeds().json
    assert back["edges"] == [{"from": "words:v1", "to": "net:v1"}]
    file = tmp_path / "way.svg"
    process(two, "artifacts", "lineage", "net", "--svg", str(file)).succeeds()
    picture = ElementTree.parse(file).getroot()
    texts = {each.text for each in picture.iter() if each.tag.endswith("text")}
    assert {"words:v2", "net:v2"} <= texts and "words:v1" not in texts


def test_data_that_nobody_registered_are_in_the_lineage_by_their_path(project, tmp_path):
    folder = tmp_path / "raw"
    folder.mkdir()
    (folder / "words").write_text("raw")
    process(project, "mine", "train", "-c", "raw", f"run.data={folder}").succeeds()
    out = process(project, "artifacts", "lineage", "net").succeeds().out
    assert f"└─ {folder}  text, not registered" in out
    process(project, "artifacts", "add", str(folder), "--name", "raw", "--type", "text", "--no-check").succeeds()
    assert "└─ raw:v1  text" in process(project, "artifacts", "lineage", "net").succeeds().out
    assert "made by" not in process(project, "mine", "read", "run.data=raw").succeeds().out


def test_diff_says_what_differs_in_config_code_inputs_and_size(two):
    process(two, "mine", "train", "run.data=words:2").succeeds()
    differs = process(two, "artifacts", "diff", "net:1", ":2", "--json").succeeds().json["differs"]
    assert differs["input data"] == ["words:v1", "words:v2"] and "input data digest" in differs
    assert differs["config which"] == ["words v1", "words v2"] and differs["overrides"][0] is None
    assert "digest" not in differs and "code bundle" not in differs
    out = process(two, "artifacts", "diff", "net:1", "net:2").succeeds().out
    assert "words:v1" in out and "words:v2" in out
    assert "do not differ" in process(two, "artifacts", "diff", "net:1", "net:v1").succeeds().out


def test_data_from_outside_are_registered_where_they_are_once_they_are_checked(project, tmp_path):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text('{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}\n')
    bad.write_text("{\n")
    words = ("--name", "chat", "--type", "training_jsonl", "--tag", "gold", "--note", "by hand")
    done = process(project, "artifacts", "add", str(good), *words).succeeds()
    assert "chat:v1" in done.out
    process(project, "artifacts", "add", str(bad), *words).refuses("is no whole training_jsonl", "bad.jsonl", "line 1")
    assert "not looked at" in process(project, "artifacts", "add", str(bad), *words, "--no-check").succeeds().out
    shown = process(project, "artifacts", "show", "chat:gold", "--json").succeeds().json
    assert (shown["version"], shown["path"], shown["note"]) == (2, str(bad), "by hand")
    process(project, "artifacts", "add", str(good), "--name", "a/b", "--type", "text", "--no-check").refuses(
        "cannot be"
    )
    process(project, "artifacts", "add", str(good), "--name", "a", "--type", "txt").refuses("no type 'txt'")
    process(project, "artifacts", "add", str(good)).refuses("a version has a name and a type")
    process(project, "artifacts", "add", "/gone", "--name", "a", "--type", "text").refuses("nothing at /gone")


def test_a_tag_leads_to_one_version(two):
    process(two, "artifacts", "tag", "words:1", "gold").succeeds()
    assert listed(two, "--tag", "gold") == ["words:v1"]
    process(two, "artifacts", "tag", "words:latest", "gold").succeeds()
    assert listed(two, "--tag", "gold") == ["words:v2"]
    for word in ("latest", "v1", "7", "a b", ".x"):
        process(two, "artifacts", "tag", "words:1", word).refuses(f"'{word}' cannot be a tag")


def test_a_version_is_brought_here_whole_and_again(two, tmp_path):
    out = process(two, "artifacts", "pull", "words:1").succeeds().out.strip()
    folder = Path(out)
    assert folder == two.folder / "words-v1" and "made by" in (folder / "words").read_text()
    again = process(two, "artifacts", "pull", "words:1", str(folder)).succeeds()
    assert "of it here before" in again.err
    source = tmp_path / "store" / "words" / "v1" / "words"
    source.write_text("somebody else's words")
    changed = process(two, "artifacts", "pull", "words:1")
    assert changed.code == 2 and "is not what was registered" in changed.err
    process(two, "artifacts", "pull", "words:1", "--no-verify").succeeds()


def test_only_what_nothing_was_made_from_is_removed(two, tmp_path):
    folder = tmp_path / "store" / "words"
    first, second = (folder / f"v{n}" for n in (1, 2))
    data = folder / second.readlink()
    process(two, "artifacts", "rm", "words:1", "-y").refuses("net:v1 was made from it", "artifacts rm net:v1")
    process(two, "artifacts", "rm", "words:2").refuses("this would remove words:v2", "-y")
    process(two, "artifacts", "rm", "words:2", "-y").succeeds()
    assert data.is_dir() and not second.is_symlink() and listed(two, "words") == ["words:v1"]
    assert (folder / "latest").readlink() == first.readlink()
    process(two, "mine", "make").succeeds()
    assert listed(two, "words") == ["words:v3", "words:v1"]
    third = folder / (folder / "v3").readlink()
    process(two, "artifacts", "rm", "words:3", "--data", "-y").succeeds()
    assert not third.exists()
    outside = tmp_path / "mine"
    outside.mkdir()
    process(two, "artifacts", "add", str(outside), "--name", "mine", "--type", "text", "--no-check").succeeds()
    process(two, "artifacts", "rm", "mine:1", "--data", "-y").refuses("not the store's own")
    assert outside.is_dir() and listed(two, "mine") == ["mine:v1"]


def test_a_damaged_manifest_is_named_and_the_others_are_listed(two, tmp_path):
    (tmp_path / "store" / "words" / ".versions" / "v1.json").write_text('{"version"')
    done = process(two, "artifacts", "list", "words").succeeds()
    assert "warning: words:v1 is unknown: v1.json is damaged" in done.err and "words:v2" in done.out
    process(two, "mine", "make").succeeds()
    assert listed(two, "words") == ["words:v3", "words:v2"]


def test_a_store_of_an_earlier_release_can_be_read(project, tmp_path):
    old = tmp_path / "store" / "words" / "older-job"
    old.mkdir(parents=True)
    (old / "words").write_text("older")
    (old.parent / "latest").symlink_to("older-job")
    assert listed(project) == ["words:latest"]
    for word in ("words", "words:latest", "words:older-job"):
        assert "read: older" in process(project, "mine", "read", f"run.data={word}").succeeds().out
    process(project, "artifacts", "rm", "words", "-y").refuses("no manifest", "artifacts add")
    assert "no manifest" in process(project, "artifacts", "show", "words").succeeds().out


def test_the_shell_offers_names_versions_tags_and_types(two):
    process(two, "artifacts", "tag", "words:1", "gold").succeeds()

    def offered(*words: str) -> set[str]:
        line = " ".join(("nemotron", *words))
        done = process(two, _NEMOTRON_COMPLETE="complete_zsh", _NEMOTRON_LINE=line, cold=True)
        return {row.split("\t")[1] for row in done.out.splitlines()}

    assert offered("artifacts", "show", "wo") == {"words"}
    assert offered("artifacts", "show", "words:") >= {"words:latest", "words:v1", "words:v2", "words:gold"}
    assert offered("artifacts", "list", "--tag", "g") == {"gold"}
    assert "training_jsonl" in offered("artifacts", "list", "--type", "tr")


def test_no_artifacts_is_said(project, tmp_path):
    assert process(project, "artifacts", "list").succeeds().out == f"No artifacts yet in {tmp_path}/store.\n"
    assert json.loads(process(project, "artifacts", "list", "--json").out) == []
    process(project, "artifacts", "list", "-r", "elsewhere", "--root", "/x").refuses("exclude each other")
