"""Outputs as pods copy them away: all there is, also when some of it fails, each once where nodes share them."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest
from s3_pods import Pod, noise

from nemo_runspec.backends.cloud.storage.data_outputs import Upload, keep, output_names

TO = "s3://bucket/results/job-1"


@pytest.fixture
def pod(tmp_path, s3_lab):
    return Pod(tmp_path, s3_lab)


def put(pod, *outputs, options=(), **told):
    return pod.run("put", *options, outputs=[str(each) for each in outputs], output_url=TO, **told)


def there(lab):
    return {url.removeprefix(TO): lab.get(url) for url in lab.urls()}


def files_in(folder):
    return {str(each)[len(str(folder)) :]: each.read_bytes() for each in folder.rglob("*") if each.is_file()}


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


def test_shared_storage_is_copied_by_node_0_alone_and_a_nodes_own_by_itself(pod, s3_lab, own):
    shared = pod.job / "out"
    shared.mkdir()
    (shared / "x").write_bytes(b"shared")
    (own / "rank.log").write_bytes(b"of this node")
    for node, count in ((1, 1), (0, 3)):
        told = put(pod, shared, own, "/only/on/node-0", options=("--node", str(node)))
        assert told.code == (1 if node == 0 else 0)
        assert len(there(s3_lab)) == count
    names = output_names([str(shared), str(own), "/only/on/node-0"])
    assert there(s3_lab) == {
        f"/node-1/{names[1]}/rank.log": b"of this node",
        f"/{names[1]}/rank.log": b"of this node",
        f"/{names[0]}/x": b"shared",
    }


def test_outputs_are_on_the_mount_before_they_are_uploaded_and_stay_there(pod, s3_lab, own):
    kept, model = pod.job / "outputs", own / "model"
    (model / "step 1").mkdir(parents=True)
    (model / "step 1" / "ü+%.bin").write_bytes(b"weights")
    (model / "run.sh").write_bytes(b"run")
    (model / "run.sh").chmod(0o500)
    (model / "latest").symlink_to("step 1")
    (model / "outside").symlink_to("/etc/hostname")
    (own / "metrics.json").write_bytes(b"{}")
    outputs = (model, own / "metrics.json")
    s3_lab.fault("PUT *", "403", times=None)
    refused = put(pod, *outputs, kept=str(kept))
    assert (refused.code, there(s3_lab)) == (1, {})
    assert "AccessDenied, HTTP 403" in refused.err
    assert refused.err.endswith(f" (and 3 more); 4 files are kept in {kept}\n")
    s3_lab.reset()
    done = put(pod, *outputs, kept=str(kept))  # as when the platform runs the pod anew
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith(f"nemotron: outputs: 4 files are kept in {kept}\n")
    assert files_in(kept) == there(s3_lab)
    assert set(files_in(kept)) == {
        "/metrics.json",
        *(f"/model/{name}/ü+%.bin" for name in ("latest", "step 1")),
        "/model/run.sh",
    }
    assert (kept / "model" / "run.sh").stat().st_mode & 0o777 == 0o500
    assert list(kept.rglob(".*")) == []


def test_without_keys_outputs_are_still_kept(pod, own):
    (own / "x").write_bytes(b"x")
    done = put(pod, own / "x", kept=str(pod.job / "outputs"), env={})
    assert done.code == 1
    assert done.err.startswith("nemotron: there are no keys for S3")
    assert done.err.endswith(f"; 1 file is kept in {pod.job / 'outputs'}\n")
    assert files_in(pod.job / "outputs") == {"/x": b"x"}


def test_what_is_on_a_mount_is_not_copied_again_and_a_node_copies_its_own(pod, s3_lab, own):
    kept, shared = pod.job / "outputs", pod.job / "out"
    shared.mkdir()
    (shared / "x").write_bytes(b"shared")
    (own / "rank.log").write_bytes(b"of this node")
    (own / "link").symlink_to(shared)  # its place is the pod's own, and what it leads to is not
    for node, place in ((1, kept / "node-1"), (0, kept)):
        told = put(pod, shared, own / "rank.log", own / "link", options=("--node", str(node)), kept=str(kept))
        assert (told.code, told.err) == (0, "")
        assert told.out.endswith(f"nemotron: outputs: 1 file is kept in {place}\n")
    name = output_names([str(shared), str(own / "rank.log"), str(own / "link")])[1]
    assert files_in(kept) == {f"/{name}": b"of this node", f"/node-1/{name}": b"of this node"}
    assert len(there(s3_lab)) == 4
    told = put(pod, shared, kept=str(kept))
    assert "kept" not in told.out


def test_without_a_mount_nothing_is_kept(pod, s3_lab, own):
    (own / "x").write_bytes(b"x")
    s3_lab.fault("PUT *", "403", times=None)
    done = put(pod, own / "x", kept=None)
    assert done.code == 1
    assert "kept" not in done.out + done.err
    assert not (pod.job / "outputs").exists()


@pytest.mark.parametrize("in_the_way", ["the folder", "each copy"])
def test_a_copy_that_fails_is_a_warning_and_keeps_no_upload_back(pod, s3_lab, own, in_the_way):
    kept = pod.job / "outputs"
    if in_the_way == "the folder":
        kept.write_bytes(b"")
    else:
        kept.mkdir()
        (kept / ".node-0.partial").mkdir()
        (kept / ".node-0.partial" / "in the way").touch()
    for name in "ab":
        (own / name).write_bytes(name.encode())
    done = put(pod, own / "a", own / "b", kept=str(kept))
    assert (done.code, done.err) == (0, "")
    assert there(s3_lab) == {"/a": b"a", "/b": b"b"}
    assert f"nemotron: warning: outputs: 2 files cannot be kept in {kept}: " in done.out
    assert "kept in" not in done.out.splitlines()[-1]
    s3_lab.fault("PUT *", "403", times=None)
    refused = put(pod, own / "a", kept=str(kept))
    assert refused.code == 1
    assert "kept" not in refused.err


def test_a_disk_that_is_full_is_not_filled_again_and_again(own, monkeypatch):
    def copy(source, target):
        tried.append(source)
        Path(target).write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    tried = []
    monkeypatch.setattr(shutil, "copyfile", copy)
    done = keep([Upload(Path("/a"), "a"), Upload(Path("/b"), "b")], own, 0)
    assert (done, tried) == ((0, f"{own}/a: No space left on device"), ["/a"])
    assert list(own.iterdir()) == []


def test_no_copy_leaves_the_folder_for_copies(pod, s3_lab, own):
    for name in "ab":
        (own / name).mkdir()
        (own / name / "x").write_bytes(name.encode())
    outputs = (f"{own}/a/../../{own.name}/a", own / "b")
    done = put(pod, *outputs, kept=str(pod.job / "outputs" / "here"))
    assert (done.code, done.err) == (0, "")
    assert sorted(files_in(pod.job / "outputs" / "here").values()) == [b"a", b"b"]


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


def test_what_is_kept_is_an_input_of_another_job_without_being_fetched(pod, s3_lab, own, tmp_path):
    """The copy on the mount is found there; once it is gone the object is fetched."""
    kept, path = pod.job / "outputs", tmp_path / "in"
    (own / "x").write_bytes(b"x")
    assert put(pod, own / "x", kept=str(kept)).code == 0
    (own / "x").unlink()
    s3_lab.calls.clear()
    done = pod.get(path, f"{TO}/x")
    assert (done.code, path.read_bytes(), path.resolve()) == (0, b"x", kept / "x")
    assert [call for call in s3_lab.calls if call.method == "GET"] == []
    (kept / "x").unlink()
    assert (pod.get(path, f"{TO}/x").code, path.read_bytes()) == (0, b"x")
