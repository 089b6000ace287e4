"""Inputs as pods fetch them: with the cache on a mount and without, at the same time, after kills and failures."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import signal
import tempfile
from pathlib import Path

import pytest
from s3_pods import Pod, client, ended, noise
from waiting import until

from nemo_runspec.backends.cloud.storage import data, data_cache

URL = "s3://bucket/data/x.bin"


@pytest.fixture
def pod(tmp_path, s3_lab):
    return Pod(tmp_path, s3_lab)


def gets(lab):
    return [call for call in lab.calls if call.method == "GET" and call.path != "/bucket/"]


@pytest.mark.slow
def test_fifty_megabytes_come_once_and_are_linked_from_the_cache(pod, s3_lab, tmp_path):
    content = noise(50_000_000)
    s3_lab.put(URL, content)
    first, second = tmp_path / "data" / "x", tmp_path / "other"
    done = pod.get(first, URL)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"nemotron: input {first}: 1 file, 50.0 MB, of {URL} in ")
    assert first.readlink() == pod.cache / "bucket" / "data" / "x.bin"
    assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(content).digest()
    again = pod.run("get", inputs={str(first): URL, str(second): URL})
    assert again.out.count("1 of them from the cache") == 2
    assert second.read_bytes() == content
    assert len(gets(s3_lab)) == 1 and not pod.parts()


def test_without_a_mount_an_input_is_a_file_of_its_own(pod, s3_lab, tmp_path):
    s3_lab.put(URL, b"one")
    s3_lab.put("s3://bucket/many/a", b"a")
    path, many = tmp_path / "x", tmp_path / "many"
    told = {"inputs": {str(path): URL, str(many): "s3://bucket/many/"}, "cache": None}
    for count in (2, 2):  # a second start of the same container finds them
        assert pod.run("get", **told).code == 0
        assert (path.read_bytes(), path.is_symlink(), (many / "a").read_bytes()) == (b"one", False, b"a")
        assert len(gets(s3_lab)) == count
    s3_lab.put(URL, b"two")
    assert pod.run("get", **told).code == 0
    assert path.read_bytes() == b"two"
    assert not pod.parts() and not pod.cache.exists()


def test_what_was_there_before_is_not_replaced(pod, s3_lab, tmp_path):
    s3_lab.put(URL, b"theirs")
    path = tmp_path / "folder"
    (path / "mine").mkdir(parents=True)
    for cache in (str(pod.cache), None):
        refused = pod.get(path, URL, cache=cache)
        assert (refused.code, refused.err.count("\n")) == (1, 1)
        assert f"input {path}: something else is there already" in refused.err
        assert (path / "mine").is_dir()
    (path / "mine").rmdir()
    assert pod.get(path, URL).code == 0  # an empty folder is no loss
    assert path.read_bytes() == b"theirs"


def replaced(copy, content):
    stat = copy.stat()
    copy.write_bytes(content)
    os.utime(copy, (stat.st_mtime + 5, stat.st_mtime + 5))


@pytest.mark.parametrize("spoil", ["cut", "written", "longer", "gone", "no sidecar", "bad sidecar", "changed"])
def test_only_a_whole_copy_of_the_object_as_it_is_now_is_used(pod, s3_lab, tmp_path, spoil):
    s3_lab.put(URL, b"0123456789", modified=1_700_000_000)
    assert pod.get(tmp_path / "x", URL).code == 0
    copy, [sidecar] = pod.cache / "bucket" / "data" / "x.bin", list(pod.cache.rglob("*.json"))
    wanted = b"0123456789"
    if spoil == "changed":  # of the same size, within the same second
        wanted = b"abcdefghij"
        s3_lab.put(URL, wanted, modified=1_700_000_000)
    {
        "cut": lambda: os.truncate(copy, 5),
        "written": lambda: replaced(copy, b"0123456780"),
        "longer": lambda: replaced(copy, b"0123456789!"),
        "gone": copy.unlink,
        "no sidecar": sidecar.unlink,
        "bad sidecar": lambda: sidecar.write_text('{"etag": '),
    }.get(spoil, lambda: None)()
    assert pod.get(tmp_path / "x", URL).code == 0
    assert (tmp_path / "x").read_bytes() == wanted
    assert len(gets(s3_lab)) == 2
    assert pod.get(tmp_path / "x", URL).code == 0
    assert len(gets(s3_lab)) == 2


def test_a_prefix_is_a_folder_of_what_is_there_now(pod, s3_lab, tmp_path):
    names = {"a b+c", "ü/ß €", "100%", "%41", "deep/er/x", "~-_.!*'()", "empty"}
    s3_lab.page = 4
    for name in names:
        s3_lab.put(f"s3://bucket/set/{name}", b"" if name == "empty" else name.encode())
    s3_lab.put("s3://bucket/set/folder/", b"")
    s3_lab.put("s3://bucket/settle", b"another")
    path = tmp_path / "set"
    assert pod.get(path, "s3://bucket/set/").out.startswith(f"nemotron: input {path}: 7 files, ")

    def there():
        return {str(each.relative_to(path.resolve())) for each in path.resolve().rglob("*") if each.is_file()}

    assert there() == names
    assert (path / "ü" / "ß €").read_bytes() == "ü/ß €".encode()
    s3_lab.store.remove("bucket", "set/deep/er/x")
    s3_lab.put("s3://bucket/set/100%", b"changed")
    s3_lab.put("s3://bucket/set/new", b"new")
    (pod.cache / "bucket" / "set" / "mine").write_bytes(b"not from S3")
    before = len(gets(s3_lab))
    assert "6 of them" not in (done := pod.get(path, "s3://bucket/set/")).out
    assert (done.code, "5 of them from the cache" in done.out) == (0, True)
    assert there() == names - {"deep/er/x"} | {"new", "mine"}
    assert (path / "100%").read_bytes() == b"changed"
    assert len(gets(s3_lab)) == before + 2 and not pod.parts()


def test_a_download_that_breaks_off_is_no_copy_and_the_next_run_mends_it(pod, s3_lab, tmp_path):
    content = noise(24_000_000)
    s3_lab.put(URL, content)
    s3_lab.fault("GET /bucket/data*", "cut", times=1)
    s3_lab.fault("GET /bucket/data*", "500", times=None)
    broken = pod.get(tmp_path / "x", URL, patience=4)  # enough for the try that meets the second
    assert (broken.code, broken.err.count("\n")) == (1, 1)
    assert broken.err.startswith(f"nemotron: {URL} cannot be read (InternalError, HTTP 500)")
    assert not (tmp_path / "x").exists() and not (pod.cache / "bucket" / "data" / "x.bin").exists()
    assert not pod.parts()
    s3_lab._faults.clear()
    assert pod.get(tmp_path / "x", URL).code == 0
    assert (tmp_path / "x").read_bytes() == content


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_fetch_that_is_killed_holds_up_nobody(pod, s3_lab, tmp_path, how):
    s3_lab.put(URL, noise(1_000_000))
    stuck = s3_lab.fault("GET /bucket/data*", "timeout", seconds=2 if how == signal.SIGTERM else None, times=None)
    first = pod.start("get", inputs={str(tmp_path / "x"): URL})
    until(lambda: gets(s3_lab) and pod.parts())
    first.send_signal(how)
    assert ended(first, s3_lab).code == (143 if how == signal.SIGTERM else -signal.SIGKILL)
    stuck.times = 0
    assert bool(pod.parts()) == (how == signal.SIGKILL)
    assert not (tmp_path / "x").exists()
    assert pod.get(tmp_path / "x", URL).code == 0
    assert (tmp_path / "x").stat().st_size == 1_000_000
    assert not pod.parts()


def test_many_at_once_fetch_it_once_and_wait_for_the_one_that_lives(pod, s3_lab, tmp_path):
    s3_lab.put(URL, b"content")
    s3_lab.fault("GET /bucket/data*", "slow", seconds=3)
    running = [pod.start("get", inputs={str(tmp_path / f"x{n}"): URL}) for n in range(4)]
    assert [ended(each, s3_lab).code for each in running] == [0, 0, 0, 0]
    assert [(tmp_path / f"x{n}").read_bytes() for n in range(4)] == [b"content"] * 4
    assert len(gets(s3_lab)) == 1 and not pod.parts()


def test_one_that_waits_ends_when_it_is_told_to(pod, s3_lab, tmp_path):
    s3_lab.put(URL, b"content")
    location = data_cache.cache_location(pod.cache, "bucket", "data/x.bin")
    with data_cache.locked(location):
        waiting = pod.start("get", inputs={str(tmp_path / "x"): URL})
        files = Path("/proc", str(waiting.pid), "fd")
        until(lambda: any(each.resolve() == location.lock.resolve() for each in files.iterdir()))
        waiting.send_signal(signal.SIGTERM)
        assert ended(waiting, s3_lab).code == 143
    assert pod.get(tmp_path / "x", URL).code == 0


def test_where_files_cannot_be_locked_nobody_waits(tmp_path, monkeypatch):
    def refuse(file, how):
        raise OSError(errno.ENOLCK, "no locks here")

    location = data_cache.cache_location(tmp_path, "bucket", "x")
    with data_cache.locked(location):
        monkeypatch.setattr(fcntl, "flock", refuse)
        with data_cache.locked(location):
            assert location.lock.exists()


def test_a_link_that_another_node_puts_there_meanwhile_is_no_obstacle(tmp_path, monkeypatch):
    path, exists = tmp_path / "x", Path.exists

    def linked_meanwhile(self, **more):
        self.symlink_to(tmp_path)
        return exists(self, **more)

    monkeypatch.setattr(Path, "exists", linked_meanwhile)
    data._make_free(path)
    monkeypatch.undo()
    assert path.is_symlink()


def test_an_object_that_changes_while_it_is_fetched_is_fetched_as_it_is_then(pod, s3_lab, tmp_path):
    s3_lab.put(URL, b"old")
    s3_lab.fault("GET /bucket/data*", "slow", seconds=600)
    running = pod.start("get", inputs={str(tmp_path / "x"): URL})
    until(lambda: gets(s3_lab))
    s3_lab.put(URL, b"newer")
    s3_lab.released.set()
    assert ended(running, s3_lab).code == 0
    assert (tmp_path / "x").read_bytes() == b"newer"


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ({"x": "s3://bucket/none"}, "s3://bucket/none cannot be read (HTTP 404): there is no such object"),
        ({"x": "s3://bucket/none/"}, "s3://bucket/none/ has no objects"),
        ({"x": "s3://nowhere/none/"}, "NoSuchBucket"),
        ({"x": "s3://bucket/bad/"}, "its key cannot be the name of a file"),
        ({"x": "s3://bucket/../up"}, "cannot be the name of a file"),
        ({"x": "s3://bucket/a", "x/y": "s3://bucket/a"}, "lies in input"),
    ],
)
def test_an_input_that_cannot_be_fetched_is_one_line(pod, s3_lab, tmp_path, inputs, said):
    s3_lab.put("s3://bucket/a", b"")
    s3_lab.put("s3://bucket/bad/../../../up", b"")
    failed = pod.run("get", inputs={str(tmp_path / path): url for path, url in inputs.items()}, patience=1)
    assert (failed.code, failed.err.count("\n")) == (1, 1)
    assert said in failed.err
    assert not (tmp_path / "mount" / "up").exists() and not (tmp_path / "x").exists()


def test_without_keys_nothing_is_asked(pod, s3_lab, tmp_path):
    failed = pod.run("get", inputs={str(tmp_path / "x"): URL}, env={})
    assert (failed.code, failed.err.count("\n")) == (1, 1)
    assert "ACCESS_KEY" in failed.err and not s3_lab.calls
    names = {"AWS_ACCESS_KEY_ID": s3_lab.access_key, "AWS_SECRET_ACCESS_KEY": s3_lab.secret_key}
    s3_lab.put(URL, b"x")
    assert pod.run("get", inputs={str(tmp_path / "x"): URL}, env=names).code == 0


def test_what_lies_on_a_mount_already_is_used_where_it_is(pod, s3_lab, tmp_path):
    """`MOUNT/bucket/key` of the same content, sent whole or in parts, is not copied; another one is fetched."""
    large = noise(20_000_000)
    for name, content in {"same": b"a", "other": b"b", "large": large, "missing": b"c"}.items():
        s3_lab.put(f"s3://bucket/many/{name}", content)
    with tempfile.TemporaryFile() as file:
        file.write(large)
        file.seek(0)
        client(s3_lab).upload("bucket", "many/large", file)
    lustre = tmp_path / "lustre"
    (lustre / "bucket" / "many").mkdir(parents=True)
    for name, content in {"same": b"a", "other": b"x", "large": large}.items():
        (lustre / "bucket" / "many" / name).write_bytes(content)
    path, told = tmp_path / "in", {"staged": ["/nowhere", str(lustre)]}
    done = pod.run("get", inputs={str(path): "s3://bucket/many/"}, **told)
    assert (done.code, done.err) == (0, "")
    assert "4 files" in done.out and "2 of them as they lay on a mount" in done.out
    assert {each.name: each.read_bytes() for each in path.iterdir()} == {
        "same": b"a", "other": b"b", "large": large, "missing": b"c"
    }  # fmt: skip
    assert (path / "same").resolve() == lustre / "bucket" / "many" / "same"
    assert sorted(call.path for call in gets(s3_lab)) == ["/bucket/many/missing", "/bucket/many/other"]
    again = pod.run("get", inputs={str(path): "s3://bucket/many/"}, **told)
    assert "4 of them from the cache" in again.out, "it is not read again"
    same = lustre / "bucket" / "many" / "same"
    earlier = same.stat().st_mtime_ns
    same.write_bytes(b"z")
    within_the_second = earlier // 10**9 * 10**9 + (earlier + 5 * 10**8) % 10**9
    os.utime(same, ns=(within_the_second, within_the_second))
    s3_lab.put("s3://bucket/many/large", b"new")
    assert pod.run("get", inputs={str(path): "s3://bucket/many/"}, **told).code == 0
    assert ((path / "same").read_bytes(), (path / "large").read_bytes()) == (b"a", b"new")
    assert (lustre / "bucket" / "many" / "large").read_bytes() == large, "it is not ours to change"


def test_outputs_are_inputs_of_the_next_job_without_being_fetched(pod, s3_lab, tmp_path):
    """Those that are kept on the mount, and those that lie on it; until they change there."""
    own, shared = tmp_path / "pod" / "out", pod.job.parent.parent / "results"
    for folder, content in ((own, b"one"), (shared, b"two")):
        folder.mkdir(parents=True)
        (folder / "model.bin").write_bytes(content)
    kept = pod.job.parent.parent / "outputs" / "job-1"
    told = {"outputs": [str(shared)], "output_url": "s3://bucket/results/job-1", "kept": str(kept)}
    assert pod.run("put", **told).code == 0
    s3_lab.calls.clear()
    path = tmp_path / "in"
    done = pod.run("get", inputs={str(path): "s3://bucket/results/job-1/"})
    assert (done.code, "1 of them from the cache" in done.out, gets(s3_lab)) == (0, True, [])
    assert [each.read_bytes() for each in path.rglob("model.bin")] == [b"two"]
    (shared / "model.bin").write_bytes(b"changed")
    assert pod.run("get", inputs={str(path): "s3://bucket/results/job-1/"}).code == 0
    assert [each.read_bytes() for each in path.rglob("model.bin")] == [b"two"], "as it was uploaded"
    assert (shared / "model.bin").read_bytes() == b"changed"
