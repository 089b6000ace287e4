"""Outputs as pods copy them away: all there is, also when some of it fails, each once where nodes share them."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from s3kit import Pod, noise

from nemo_runspec.cloud.storage.data_outputs import output_names

TO = "s3://bucket/results/job-1"


@pytest.fixture
def pod(tmp_path, s3_lab):
    return Pod(tmp_path, s3_lab)


def put(pod, *outputs, options=(), **told):
    return pod.run("put", *options, outputs=[str(each) for each in outputs], output_url=TO, **told)


def there(lab):
    return {url.removeprefix(TO): lab.get(url) for url in lab.urls()}


def test_files_and_folders_go_whole_and_links_stay_inside(pod, s3_lab, tmp_path):
    folder, single, large = tmp_path / "out" / "model", tmp_path / "out" / "metrics.json", noise(20_000_000)
    (folder / "step 1").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "step 1" / "ü+%.bin").write_bytes(large)
    (folder / "a").write_bytes(b"")
    (folder / "latest").symlink_to("step 1")
    (folder / "alias").symlink_to(folder / "a")
    (folder / "empty" / "circle").symlink_to("../empty")
    (folder / "outside").symlink_to("/etc/hostname")
    (folder / "broken").symlink_to("nothing")
    os.mkfifo(folder / "pipe")
    single.write_bytes(b"{}")
    done = put(pod, folder, single)
    assert (done.code, done.err) == (0, "")
    assert there(s3_lab) == {
        "/metrics.json": b"{}",
        "/model/a": b"",
        "/model/alias": b"",
        "/model/latest/ü+%.bin": large,
        "/model/step 1/ü+%.bin": large,
    }
    assert f"nemotron: outputs: 5 files, 40.0 MB, are at {TO} after " in done.out
    for left in ("empty/circle", "outside", "broken", "pipe"):
        assert f"warning: {folder / left} is left out" in done.out


def test_what_cannot_be_read_does_not_keep_the_others_back(pod, s3_lab, tmp_path, monkeypatch):
    out = tmp_path / "out"
    for name in "az":
        (out / name).mkdir(parents=True)
        (out / name / "file").write_bytes(name.encode())
    (out / "loop").symlink_to("loop")
    monkeypatch.chdir(out)
    for _ in range(18):  # a path that is too long, which not even root reads
        Path("m" * 240).mkdir()
        os.chdir("m" * 240)
    done = put(pod, out)
    assert there(s3_lab) == {"/out/a/file": b"a", "/out/z/file": b"z"}
    assert (done.code, done.err) == (1, f"nemotron: {out}/loop: Too many levels of symbolic links (and 1 more)\n")
    assert f"nemotron: {out}/mmm" in done.out and ": File name too long\n" in done.out


@pytest.mark.parametrize("status", [0, 3])
def test_a_missing_output_is_an_error_of_a_job_that_succeeded_only(pod, s3_lab, tmp_path, status):
    (tmp_path / "made").write_bytes(b"made")
    (tmp_path / "nothing").mkdir()
    told = put(pod, tmp_path / "gone", tmp_path / "made", tmp_path / "nothing", options=("--status", str(status)))
    assert there(s3_lab) == {"/made": b"made"}
    line = f"output {tmp_path / 'gone'} is not there\n"
    assert (told.code, told.err) == ((1, f"nemotron: {line}") if status == 0 else (0, ""))
    assert (f"warning: {line}" in told.out) == (status != 0)
    assert f"warning: output {tmp_path / 'nothing'} has no files" in told.out


def test_one_file_that_cannot_be_sent_does_not_keep_the_others_back(pod, s3_lab, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(name.encode())
    s3_lab.fault("PUT *results/job-1/out/b", "403", times=None)
    s3_lab.fault("PUT *results/job-1/out/c", "500", times=1)
    done = put(pod, folder)
    assert there(s3_lab) == {"/out/a": b"a", "/out/c": b"c"}
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith(f"nemotron: {TO}/out/b cannot be written (AccessDenied, HTTP 403): check ACCESS_KEY")
    s3_lab.fault("PUT *", "403", times=None)
    assert put(pod, folder).err.endswith("(and 2 more)\n")


def test_shared_storage_is_copied_by_node_0_alone_and_a_nodes_own_by_itself(pod, s3_lab):
    shared = pod.job / "out"
    shared.mkdir()
    (shared / "x").write_bytes(b"shared")
    own = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        (own / "rank.log").write_bytes(b"of this node")
        for node, count in ((1, 1), (0, 3)):
            told = put(pod, shared, own, "/only/on/node-0", options=("--node", str(node)))
            assert told.code == (1 if node == 0 else 0)
            assert len(there(s3_lab)) == count
    finally:
        shutil.rmtree(own)
    names = output_names([str(shared), str(own), "/only/on/node-0"])
    assert there(s3_lab) == {
        f"/node-1/{names[1]}/rank.log": b"of this node",
        f"/{names[1]}/rank.log": b"of this node",
        f"/{names[0]}/x": b"shared",
    }


@pytest.mark.parametrize(
    ("outputs", "names"),
    [
        (["/a/out"], ["out"]),
        (["/a/out/", "/a/logs"], ["out", "logs"]),
        (["/a/out", "/b/out"], ["a/out", "b/out"]),
        (["/out", "/out/model"], ["out", "out/model"]),
        (["/m/j/out", "/m/j/out"], ["out", "out"]),
        ([], []),
    ],
)
def test_outputs_keep_what_tells_them_apart(outputs, names):
    assert output_names(outputs) == names
