"""The file store of artifacts: `latest` is moved in the store's own folders, and in no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from jobkit import NAME, plan_for

from nemo_runspec.artifacts.store import latest_path, register, resolve_latest, version_path
from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import Artifact


def plan_of(tmp_path, *artifacts: Artifact):
    return replace(plan_for(tmp_path), produces=artifacts)


def stored(root, name: str) -> Artifact:
    """An output that a job has written to the store."""
    path = root / name / NAME
    path.mkdir(parents=True, exist_ok=True)
    assert str(path) == version_path(str(root), name, NAME)
    return Artifact(name, "model", artifact=name, path=str(path))


def test_the_newest_is_what_was_written_last(tmp_path):
    root = tmp_path / "store"
    assert resolve_latest(str(root), "model") is None
    (root / "model" / "older").mkdir(parents=True)
    (root / "model" / "latest").symlink_to("older")
    model = stored(root, "model")
    nothing = Artifact("data", "data", artifact="data", path=version_path(str(root), "data", NAME))
    assert register(plan_of(tmp_path, model, nothing)) == [model.path]
    assert resolve_latest(str(root), "model") == model.path
    assert (root / "model" / "latest").readlink().name == NAME
    assert not (root / "data").exists()


@pytest.mark.parametrize("artifact", ["model", None])
def test_a_folder_that_is_not_the_stores_is_left_as_it_is(tmp_path, artifact):
    path = tmp_path / "out" / "model"
    path.mkdir(parents=True)
    assert register(plan_of(tmp_path, Artifact("model", "model", artifact=artifact, path=str(path)))) == []
    assert [p.name for p in path.parent.iterdir()] == ["model"]


def test_a_latest_that_cannot_be_moved_is_one_line_and_the_others_are_moved(tmp_path):
    root = tmp_path / "store"
    (root / "model" / "latest" / "full").mkdir(parents=True)
    model, data = stored(root, "model"), stored(root, "data")
    with pytest.raises(UserError, match=f"model/latest cannot be pointed at {NAME}: ") as caught:
        register(plan_of(tmp_path, model, data))
    assert str(caught.value).count("\n") == 0
    assert sorted(p.name for p in (root / "model").iterdir()) == ["latest", NAME]
    assert resolve_latest(str(root), "data") == data.path


def test_a_link_that_leads_nowhere_is_no_newest(tmp_path):
    for target in ("latest", "gone"):
        folder = tmp_path / target / "model"
        folder.mkdir(parents=True)
        (folder / "latest").symlink_to(target)
        assert resolve_latest(str(tmp_path / target), "model") is None
    assert latest_path("/r", "model") == "/r/model/latest"
