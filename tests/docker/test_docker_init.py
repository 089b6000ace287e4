"""`nemotron init` asks the engine, and what it writes runs in it."""

from __future__ import annotations

from lab_docker import BASE, needs_docker
from support import process

pytestmark = needs_docker


def test_what_it_writes_runs(box):
    box.env_file.unlink()
    told = process(
        box, "init", "--executor", "docker", "-y", "--container-image", BASE, "--recipe", "demo/train"
    ).succeeds()
    assert "answers; 0 GPUs for containers" in told.err
    assert f'[docker]\nexecutor = "docker"\ncontainer_image = "{BASE}"\n' in box.env_file.read_text()
    assert ", all right\n" in process(box, "env", "check").succeeds().out
    process(box, "doctor", "docker").succeeds()
    assert "y = 2.5" in process(box, "demo", "train", "-c", "tiny", "--run", "docker").succeeds().out


def test_images_that_are_there_are_offered(box):
    box.env_file.unlink()
    process(box, "init", "--executor", "docker").refuses("--container-image", BASE)
