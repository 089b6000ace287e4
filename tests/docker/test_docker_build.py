"""`nemotron docker build` in a real engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
import support
from lab_docker import BASE, Engine, needs_docker
from support import Project

from nemo_runspec.backends.docker.build import BuildFailure, follow


def docker_build(box: Project, *words: str, **environment: str) -> support.Outcome:
    return support.process(box, "docker", "build", *words, **environment)


def labels(engine: Engine, image: str) -> dict[str, Any]:
    return engine.client().inspect_image(image)["Config"]["Labels"]


@needs_docker
class TestWithAnEngine:
    def recipe(self, box: Project, dockerfile: str) -> None:
        box.recipe("mine/stage")
        box.write("recipes/mine/stage/Dockerfile", dockerfile)

    def test_the_image_is_built_from_the_recipes_folder(self, box, docker_engine):
        self.recipe(
            box,
            f"ARG WHICH=none\nFROM {BASE}\nARG WHICH\nLABEL which=$WHICH\nCOPY . /there\nRUN ls -A /there; echo ok\n",
        )
        box.write("recipes/mine/stage/.dockerignore", "config\n*.secret\n")
        box.write("recipes/mine/stage/key.secret", "x")
        out = docker_build(box, "mine/stage", "--build-arg", "WHICH=a b").succeeds()
        assert labels(docker_engine, "nemotron/mine-stage:latest") == {"which": "a b"}
        listed = out.out.partition("Running in")[2].splitlines()
        assert "main.py" in listed
        assert "config" not in listed
        assert "key.secret" not in listed
        assert out.out.index("Step 1/6") < out.out.index("ok\n") < out.out.index("nemotron/mine-stage:latest: built")

    def test_words_a_tag_and_the_environment(self, box, docker_engine):
        self.recipe(box, f"FROM {BASE}\nARG WHICH\nLABEL which=$WHICH\n")
        words = ("mine", "stage", "--tag", "lab/own:1", "--build-arg", "WHICH")
        docker_build(box, *words, WHICH="mine").succeeds()
        assert labels(docker_engine, "lab/own:1") == {"which": "mine"}
        docker_build(box, "mine", "stage", "--build-arg", "WHICH").refuses("--build-arg WHICH")

    def test_steps_are_kept_unless_they_are_not_wanted(self, box):
        self.recipe(box, f"FROM {BASE}\nRUN date +%N\n")
        docker_build(box, "mine/stage").succeeds()
        assert "Using cache" in docker_build(box, "mine/stage").succeeds().out
        assert "Using cache" not in docker_build(box, "mine/stage", "--no-cache").succeeds().out

    def test_a_failed_build_ends_with_its_step(self, box, docker_engine):
        self.recipe(box, f"FROM {BASE}\nRUN echo before\nRUN echo why >&2; exit 7\nRUN echo after\n")
        out = docker_build(box, "mine/stage", "--tag", "lab/failed")
        assert out.code == 1
        assert "why" in out.out
        assert "after" not in out.out.partition("Step 3")[2]
        last = next(line for line in out.out.splitlines() if line.startswith("error: "))
        step = "Step 3/4 : RUN echo why >&2; exit 7"
        assert last == f"error: lab/failed:latest: the build failed: {step}: exit code 7: why"
        assert last.removeprefix("error: ") in out.err  # how the job ended, in the same words
        assert docker_engine.containers() == []

    def test_a_dockerfile_that_cannot_be_read_is_a_failed_build(self, box):
        self.recipe(box, "NONSENSE here\n")
        out = docker_build(box, "mine/stage")
        assert out.code == 1
        assert "unknown instruction: NONSENSE" in out.err
        assert "Traceback" not in out.err


def test_a_recipe_without_a_dockerfile_names_the_path(project, nemotron):
    project.recipe("mine/stage")
    nemotron("docker", "build", "mine/stage").refuses(
        "mine/stage has no Dockerfile", str(project.folder / "recipes/mine/stage/Dockerfile")
    )


def test_an_unknown_recipe_is_an_error(nemotron):
    nemotron("docker", "build", "nano3", "pretrai").refuses("nano3/pretrain")


def test_a_pull_inside_a_build_says_what_is_new():
    written: list[str] = []
    events = [
        {"stream": "Step 1/1 : FROM x"}, {"status": "Pulling from x", "id": "1"},
        *({"id": "a", "status": "Downloading", "progressDetail": {"current": i, "total": 9}} for i in range(9)),
        {"id": "a", "status": "Pull complete"}, {"aux": {"ID": "sha"}},
    ]  # fmt: skip
    assert follow(events, written.append) is None
    assert "".join(written) == "Step 1/1 : FROM xPulling from x\n0 of 1 layers\n1 of 1 layers\n"


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("Step 2/3 : RUN x", "Step 2/3 : RUN x: boom"),
        ("", "boom"),
        (f"Step 2/3 : RUN {'x' * 100}", f"Step 2/3 : RUN {'x' * 65}…: boom"),
    ],
)
def test_a_failure_in_words(step, text):
    assert str(BuildFailure(step, "boom")) == text
    assert json.dumps(text)
