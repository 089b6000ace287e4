"""`nemotron artifacts` of a cluster, through the login node's real sshd: asked once, changed there, brought here."""

from __future__ import annotations

from labs.slurm.fixtures import needs_slurm

pytestmark = needs_slurm

MAKER = """\
# /// script
# [tool.runspec]
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.produces]]
# name = "data"
# type = "text"
# ///
import os, pathlib, sys, yaml
folder = pathlib.Path(yaml.safe_load(open(sys.argv[2]))["output_dir"])
folder.mkdir(parents=True)
(folder / "words").write_text("made by " + os.environ["NEMOTRON_JOB_NAME"])
"""
READER = """\
# /// script
# [tool.runspec]
# [tool.runspec.run]
# launch = "direct"
# [[tool.runspec.consumes]]
# name = "data"
# type = "text"
# ///
import pathlib, sys, yaml
print("read:", pathlib.Path(yaml.safe_load(open(sys.argv[2]))["data"], "words").read_text(), flush=True)
"""


def test_a_clusters_versions_from_here(cluster):
    cluster.project.write("recipes/mine/make/make.py", MAKER)
    cluster.project.write(
        "recipes/mine/make/config/default.yaml", "run: {data: {artifact: words}}\noutput_dir: ${run.output_dir}\n"
    )
    cluster.project.write("recipes/mine/read/read.py", READER)
    cluster.project.write(
        "recipes/mine/read/config/default.yaml", "run: {data: {artifact: words}}\ndata: ${art:data}\n"
    )
    assert "words:v" not in cluster.nemotron("artifacts", "list", "-r", "there").succeeds().out
    for _ in range(2):
        cluster.nemotron("mine", "make", "--run", "there").succeeds()
    listed = cluster.nemotron("artifacts", "list", "words", "-r", "there", "--json", "-v").succeeds()
    second, first = listed.json
    assert [second["reference"], first["reference"]] == ["words:v2", "words:v1"] and second["latest"]
    assert listed.err.count("script") <= 1, listed.err
    assert "seed" not in cluster.nemotron("artifacts", "diff", "words:1", ":2", "-r", "there").succeeds().out
    cluster.nemotron("artifacts", "tag", "words:1", "gold", "-r", "there").succeeds()
    read = cluster.nemotron("mine", "read", "--run", "there", "run.data=words:gold").succeeds()
    assert f"read: made by {first['producer']['job']}" in read.out
    shown = cluster.nemotron("jobs", "show", "last", "--json").succeeds().json
    assert shown["inputs"]["data"] == first["path"]
    for word, says in (("words:9", "has no version 'v9'"), ("wrds:1", "did you mean 'words'")):
        cluster.nemotron("mine", "read", "--run", "there", f"run.data={word}").refuses(says)
    cluster.project.write("recipes/mine/other/other.py", READER.replace('type = "text"', 'type = "model"'))
    cluster.project.write(
        "recipes/mine/other/config/default.yaml", "run: {data: {artifact: words}}\ndata: ${art:data}\n"
    )
    other = cluster.nemotron("mine", "other", "--run", "there")
    other.refuses("takes model, and words:v2 is text", "config/default.yaml:1")
    out = cluster.nemotron("artifacts", "pull", "words:gold", "here", "-r", "there").succeeds().out
    assert (cluster.project.folder / "here" / "words").read_text() == f"made by {first['producer']['job']}", out
    cluster.nemotron("artifacts", "rm", "words:2", "--data", "-y", "-r", "there").succeeds()
    listed = cluster.nemotron("artifacts", "list", "--all", "-r", "there", "--json").succeeds().json
    left = [each for each in listed if each["name"] == "words"]  # the lab is not this test's alone
    assert [(each["reference"], each["latest"], each["tags"]) for each in left] == [("words:v1", True, ["gold"])]


def test_what_is_added_on_a_cluster_is_looked_through_there(cluster):
    cluster.project.write(
        "recipes/steps/types.toml", '[rows]\ndescription = "Rows."\nlayout = "a folder"\ncheck = "rows"\n'
    )
    data = cluster.project.folder / "data"
    data.mkdir()
    (data / "a.jsonl").write_text('{"text": "one"}\n{"txt": 2}\n')
    words = ("artifacts", "add", str(data), "--name", "added", "--type", "rows", "-r", "there")
    cluster.nemotron(*words).refuses("is no whole rows: ", "a.jsonl, line 2", "--no-check")
    assert cluster.nemotron("artifacts", "list", "added", "-r", "there").code == 2
    assert "its content was not looked at" in cluster.nemotron(*words, "--no-check").succeeds().out
    (data / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert "not looked at" not in cluster.nemotron(*words).succeeds().out
    cluster.nemotron("artifacts", "add", "/nowhere", *words[3:]).refuses("is not there")
