"""How a job's files come into its pods, by whatever way, and what is said when they do not."""

from __future__ import annotations

import base64
import socket
import subprocess
import tarfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from labs.pods import needs_mounts
from pod_process import PodProcess, cloud_plan, loaded, node, start, start_as_variables, with_code, without

from nemo_runspec.backends.cloud.code.upload import JobUpload, Part
from nemo_runspec.backends.cloud.pod.program import boot_program, node_program
from nemo_runspec.script.pod_marker import read_ends

CHECK = """
    import os, pathlib, sys
    import mine
    print("environment:", *sorted(name for name in os.environ if "UPLOAD" in name or "BOOT" in name))
    print("code:", mine.NAME, pathlib.Path.cwd().name)
    print(pathlib.Path("/proc/%d/cmdline" % os.getppid()).read_bytes().count(b"nemotron-end"))
    sys.exit(3)
"""


@pytest.fixture
def package(tmp_path):
    """An archive with one module in it."""
    module = tmp_path / "mine.py"
    module.write_text('NAME = "mine"\n')
    archive = tmp_path / "code.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(module, "mine.py")
    return archive


@pytest.mark.parametrize("begin", [start, start_as_variables], ids=["lepton", "run:ai"])
def test_files_and_code_arrive_and_the_end_is_told(tmp_path, package, begin):
    plan = with_code(cloud_plan(tmp_path, CHECK), package)
    pod = begin(loaded(plan, archive=package))
    assert pod.wait() == 3
    assert "environment:\n" in pod.text and "code: mine code\n" in pod.text
    end = pod.end
    assert (end.node, end.exit_code, end.rank, end.phase, end.reason) == (0, 3, None, "command", "")
    lines = pod.text.splitlines()
    assert end.lines == len(lines) - 1 and lines[-1].startswith("nemotron-end: ")
    assert Path(plan.job_dir, "logs", "node-0.log").read_text().splitlines() == lines
    assert sorted(path.name for path in Path(plan.job_dir).parent.iterdir()) == [plan.name], "nothing is left beside it"


@pytest.mark.parametrize("kind", ["lepton", "dgxcloud"])
def test_program_is_short_and_holds_nothing_that_kubernetes_rewrites(kind):
    program = boot_program(node_program(kind))
    assert len(program) <= 4000
    assert "$$" not in program and "$(" not in program
    subprocess.run(["bash", "-n", "-c", program], check=True)


def test_second_start_finds_the_files_there(tmp_path):
    plan = cloud_plan(tmp_path, "import os; open(os.environ['NEMOTRON_JOB_DIR'] + '/ran', 'a').write('x')")
    cargo = loaded(plan)
    assert start(cargo).wait() == 0
    gone = replace(cargo, parts=(replace(cargo.parts[0], transport="volume", words=()),))
    again = start(gone, NEMOTRON_POD_ATTEMPT="1")
    assert (again.wait(), again.end.attempt) == (0, 1)
    assert Path(plan.job_dir, "ran").read_text() == "xx"


def broken(cargo: JobUpload, **values: object) -> JobUpload:
    """The cargo with another first part."""
    return replace(cargo, parts=(replace(cargo.parts[0], **values), *cargo.parts[1:]))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sha256": "0" * 64}, "the job package did not arrive whole"),
        ({"words": ("H4sIAAAA",)}, "the job package did not arrive whole"),
        ({"transport": "volume", "words": ()}, "does run_dir_here name the same directory?"),
        ({"transport": "s3", "words": ("http://127.0.0.1:9/x",)}, "the job package cannot be downloaded: "),
    ],
    ids=["another digest", "cut off", "not on the volume", "no server"],
)
def test_what_did_not_arrive_is_one_line_and_an_end(tmp_path, change, said):
    plan = cloud_plan(tmp_path)
    pod = start(broken(loaded(plan), **change))
    assert pod.wait() == 1
    first, second = pod.text.splitlines()
    assert first.startswith("nemotron: ") and said in first
    assert second.startswith("nemotron-end: ")
    end = pod.end
    assert (end.exit_code, end.phase, end.lines) == (1, "start", 1) and said in end.reason
    assert not Path(plan.job_dir).exists()
    assert not list(Path(plan.job_dir).parent.glob("*.partial.*"))


@pytest.mark.parametrize("missing", ["base64", "tar", "gzip", "sha256sum"])
def test_program_that_the_image_lacks_is_named(tmp_path, missing):
    pod = start(loaded(cloud_plan(tmp_path)), PATH=without(tmp_path, missing))
    assert pod.wait() == 1
    assert f"the image has no {missing}" in pod.end.reason
    assert pod.end.reason_code == "image"


def test_directory_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "run").write_text("a file\n")
    pod = start(loaded(cloud_plan(tmp_path)))
    assert pod.wait() == 1
    assert "mkdir failed: " in pod.end.reason and "Not a directory" in pod.end.reason
    assert pod.end.reason_code == "files"


def test_image_without_anything_to_download_with_is_said(tmp_path):
    cargo = broken(loaded(cloud_plan(tmp_path)), transport="s3", words=("http://127.0.0.1:9/x",))
    pod = start(cargo, PATH=without(tmp_path, "curl", "wget", "python3"))
    assert pod.wait() == 1
    assert "no curl, wget or python3" in pod.end.reason
    assert pod.end.reason_code == "image"


@needs_mounts
def test_full_disk_is_said_and_the_end_too(tmp_path):
    plan = cloud_plan(tmp_path)
    big = tmp_path / "big"
    big.write_bytes(bytes(4 << 20))
    archive = tmp_path / "big.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(big, "big")
    (tmp_path / "run").mkdir()
    cargo = loaded(with_code(plan, archive), archive=archive)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", tmp_path / "run"], check=True)
    try:
        pod = start(cargo)
        assert pod.wait() == 1
        assert pod.text.count("\n") == 2 and "No space left on device" in pod.end.reason
        assert not list((tmp_path / "run" / "jobs").glob("*.partial.*"))
    finally:
        subprocess.run(["umount", "-l", tmp_path / "run"], check=True)


def test_nodes_do_not_wait_for_a_first_node_that_has_failed(tmp_path):
    cargo = broken(loaded(cloud_plan(tmp_path, nodes=2)), sha256="0" * 64)
    second = start(cargo, **node(1))
    first = start(cargo, **node(0))
    assert (first.wait(), second.wait()) == (1, 1)
    assert second.end.reason == f"node 0 failed: {first.end.reason}"
    assert [first.end.reason_code, second.end.reason_code] == ["files", ""]


def test_nodes_wait_no_longer_than_they_are_told(tmp_path):
    cargo = replace(loaded(cloud_plan(tmp_path, nodes=2)), patience=1)
    pod = start(cargo, **node(1))
    assert pod.wait() == 1
    assert "in 1 s: do all nodes see it?" in pod.end.reason
    assert pod.end.reason_code == "files"


def test_node_that_does_not_know_which_it_is_does_not_take_itself_for_the_first(tmp_path):
    plan = cloud_plan(tmp_path, nodes=2)
    pod = start(loaded(plan))
    assert pod.wait() == 1
    assert "nothing says which of 2 nodes this is" in pod.end.reason
    assert pod.end.reason_code == ""
    assert not Path(plan.job_dir).exists()


def test_stop_while_another_node_fetches_the_files_is_heeded(tmp_path):
    pod = start(loaded(cloud_plan(tmp_path, nodes=2)), **node(1))
    while not (children := Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text()):
        assert pod.process.poll() is None
    assert children
    pod.term()
    assert pod.wait() == 143
    assert (pod.end.phase, pod.end.exit_code) == ("start", 143)


def test_stop_while_files_are_fetched_leaves_nothing_behind(tmp_path):
    plan = cloud_plan(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:  # one that never answers
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        pod = start(broken(loaded(plan), transport="s3", words=(url,)))
        server.accept()[0].close()  # curl tries again
        connection, _ = server.accept()
        pod.term()
        assert pod.wait() == 143
        connection.settimeout(120)
        while connection.recv(1000):  # its end: nobody holds it open any more
            continue
        connection.close()
    assert pod.end.reason == "the job was told to stop (SIGTERM) before it had started"
    assert (pod.end.reason_code, pod.end.received) == ("", "TERM")
    assert not list(Path(plan.job_dir).parent.glob("*.partial.*"))


def answer_after_silence(server: socket.socket, content: bytes, pod: PodProcess) -> None:
    """Leaves the first that asks waiting in the middle of the answer, and gives later ones all of it.

    There is a third where we were not quick enough for the second.
    """
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(content)
    server.settimeout(0.1)
    asked: list[socket.socket] = []
    while pod.process.poll() is None:
        with suppress(OSError):  # nobody asks now, or who asked has gone
            asked.append(server.accept()[0])
            asked[-1].recv(10_000)
            asked[-1].sendall(head + (content if len(asked) > 1 else content[:100]))
            if len(asked) > 1:
                asked[-1].close()
    assert len(asked) > 1, pod.text
    asked[0].close()


@pytest.mark.slow
@pytest.mark.parametrize("missing", [(), ("curl",), ("curl", "wget")], ids=["curl", "wget", "python3"])
def test_download_that_stands_still_is_begun_again(tmp_path, missing):
    cargo = loaded(cloud_plan(tmp_path))
    content = base64.b64decode("".join(cargo.parts[0].words))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        env = {"PATH": without(tmp_path, *missing), "NEMOTRON_STALL_SECONDS": "5"}
        pod = start(broken(cargo, transport="s3", words=(url,)), **env)
        try:
            answer_after_silence(server, content, pod)
            assert pod.wait() == 0, pod.text
        finally:
            pod.kill()


def test_word_that_kubernetes_would_rewrite_is_refused(tmp_path):
    from nemo_runspec.backends.cloud.code.upload import pod_arguments
    from nemo_runspec.errors import UserError

    with pytest.raises(UserError, match="Kubernetes rewrites"):
        pod_arguments(JobUpload((Part("job", "", 0, "s3", ("http://x/$(HOME)",)),), "/job"))


def test_ends_stay_readable_in_a_whole_log():
    assert read_ends(b"[rank0] nemotron-end: node=0 exit_code=0 phase=command reason=\nnemotron-end: node=0\n") == {}
