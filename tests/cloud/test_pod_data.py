"""Inputs and outputs on S3, as a pod brings them: the real programs against a real server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pod_process import HeldUpload, cloud_plan, loaded, name_service, node, start, without

from nemo_runspec.backends.cloud.pod.program import DATA, node_program, pod_files

COPY = """
    import os, pathlib, sys
    data, made = pathlib.Path(os.environ["DATA"]), pathlib.Path(os.environ["MADE"])
    made.mkdir(exist_ok=True)
    (made / f"copy-{os.environ['NODE_RANK']}").write_bytes((data / "x.txt").read_bytes())
    sys.exit(int(os.environ.get("CODE", "0")))
"""


MAKE = """
    import os, pathlib
    made = pathlib.Path(os.environ["MADE"])
    made.mkdir()
    (made / "model").write_text("weights")
"""


@pytest.fixture
def with_data(tmp_path, s3_lab):
    """Makes a cargo with an input and an output, and the environment of its pods."""
    s3_lab.put("s3://bucket/in/x.txt", b"hello\n")

    def make(**values):
        target = {
            "inputs": {str(tmp_path / "data"): "s3://bucket/in/"},
            "outputs": (str(tmp_path / "made"),),
            "output_url": "s3://bucket/out",
            "s3_endpoint": s3_lab.endpoint,
            "s3_region": s3_lab.region,
        }
        cargo = loaded(cloud_plan(tmp_path, COPY, target=target, **values))
        keys = {"ACCESS_KEY": s3_lab.access_key, "SECRET_KEY": s3_lab.secret_key}
        return cargo, {**keys, "DATA": str(tmp_path / "data"), "MADE": str(tmp_path / "made")}

    return make


@pytest.mark.parametrize("code", [0, 5])
def test_inputs_come_and_outputs_go_also_when_the_job_has_failed(with_data, s3_lab, code):
    cargo, env = with_data()
    pod = start(cargo, CODE=str(code), **env)
    assert pod.wait() == code, pod.text
    (url,) = s3_lab.urls("s3://bucket/out/")
    assert s3_lab.get(url) == b"hello\n"
    assert (pod.end.exit_code, pod.end.reason) == (code, "")


def test_a_container_that_reads_cloud_metadata(tmp_path):
    """Each bucket with where it is, and the keys as they are there: they stand in no file of the job."""
    secret = 'a"b\\c&$(id)/+='
    target = {"cloud_metadata": ("bucket", "other"), "s3_endpoint": "https://s3.example.com", "s3_region": "eu-1"}
    script = "import json, os\nprint('TOLD', json.dumps(json.loads(os.environ['CLOUD_METADATA'])))\n"
    cargo = loaded(cloud_plan(tmp_path, script, target=target))
    for keys in (("ACCESS_KEY", "SECRET_KEY"), ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")):
        pod = start(cargo, **dict(zip(keys, ("AKIA", secret), strict=True)))
        assert pod.wait() == 0, pod.text
        [line] = [line for line in pod.text.splitlines() if "TOLD" in line]
        place = {"cloud_region": "eu-1", "endpoint_url": "https://s3.example.com"}
        place |= {"access_key": "AKIA", "secret_key": secret}
        assert json.loads(line.partition("TOLD ")[2]) == {"aws": {"bucket": place, "other": place}}


def test_both_nodes_find_the_inputs_and_lose_no_output(with_data, s3_lab, tmp_path):
    cargo, env = with_data(nodes=2)
    env["PATH"] = name_service(tmp_path, "worker-0.my-job-ab12-job-svc")
    pods = [start(cargo, **node(index, **env)) for index in (0, 1)]
    assert [pod.wait() for pod in pods] == [0, 0], pods[0].text + pods[1].text
    assert {url.rpartition("/")[2] for url in s3_lab.urls("s3://bucket/out/")} >= {"copy-0"}


def test_input_that_is_not_there_ends_the_job_before_it_starts(with_data, s3_lab):
    cargo, env = with_data()
    s3_lab.reset()
    pod = start(cargo, **env)
    assert pod.wait() == 1
    assert "Traceback" not in pod.text
    assert pod.end.phase == "start" and pod.end.reason.startswith("inputs: ")
    assert pod.end.reason_code == "inputs"


def test_outputs_that_cannot_be_copied_are_a_failure(with_data, s3_lab):
    cargo, env = with_data()
    s3_lab.fault("PUT *", "403", times=None)
    pod = start(cargo, **env)
    assert pod.wait() == 1
    assert pod.end.phase == "command" and pod.end.reason.startswith("outputs: ")
    assert pod.end.reason_code == "outputs"
    assert s3_lab.secret_key not in pod.text


def test_outputs_of_a_pods_own_disk_are_on_the_mount_also_when_they_cannot_be_copied(tmp_path, s3_lab, own):
    data = {"output_url": "s3://bucket/out", "s3_endpoint": s3_lab.endpoint, "s3_region": s3_lab.region}
    plan = cloud_plan(tmp_path, MAKE, target={"outputs": (str(own / "out"),), **data})
    s3_lab.fault("PUT *", "403", times=None)
    keys = {"ACCESS_KEY": s3_lab.access_key, "SECRET_KEY": s3_lab.secret_key}
    pod = start(loaded(plan), MADE=str(own / "out"), **keys)
    assert pod.wait() == 1
    kept = Path(plan.job_dir).parents[1] / "outputs" / plan.name
    assert pod.end.reason.startswith("outputs: ") and pod.end.reason.endswith(f"; 1 file is kept in {kept}")
    assert (kept / "out" / "model").read_text() == "weights"


@pytest.mark.parametrize("shared", [True, False])
def test_outputs_are_kept_where_the_jobs_directory_is_on_a_mount(tmp_path, shared):
    plan = cloud_plan(tmp_path, target={"outputs": ("/out",), "output_url": "s3://b/o", "shared": shared})
    told = json.loads(next(file.text for file in pod_files(plan, node_program("lepton")) if file.name == DATA))
    assert told["kept"] == (str(tmp_path / "run" / "outputs" / plan.name) if shared else None)


@pytest.mark.parametrize("code", [0, 5])
def test_stop_does_not_end_an_upload_that_has_begun(with_data, s3_lab, tmp_path, code):
    cargo, env = with_data(env={"NEMOTRON_STOP_SECONDS": "0"})
    upload = HeldUpload(tmp_path)
    pod = start(cargo, CODE=str(code), PATH=upload.path, **env)
    try:
        upload.wait_for(pod)
        pod.term()
        pod.wait_for("still ran 0 s later")  # the signal has been heeded by now
    finally:
        upload.let_go()
    assert pod.wait() == code, pod.text
    (url,) = s3_lab.urls("s3://bucket/out/")
    assert s3_lab.get(url) == b"hello\n"
    assert (pod.end.exit_code, pod.end.received, pod.end.reason) == (code, "TERM", "")


def test_image_without_python_is_said(with_data, tmp_path):
    cargo, env = with_data()
    pod = start(cargo, **env, PATH=without(tmp_path, "python3", "python"))
    assert pod.wait() == 1
    assert pod.end.reason == "the image has no python3 (3.6 or later), which data on S3 needs"
    assert pod.end.reason_code == "image"
