"""Where a folder of this machine lies in a package."""

from __future__ import annotations

import pytest

from nemo_runspec.packaging.package_paths import places_in_package
from nemo_runspec.plans.model import Package

CODE = {"packager": "git", "subpath": "src"}
ALL = {"packager": "git"}
DATA = {"include_pattern": "data/*"}
LOCAL = {"include_pattern": "*.py", "relative_path": "src/local"}


def hybrid(**parts):
    return "hybrid", {"packager_sub_packagers": parts}


@pytest.mark.parametrize(
    ("package", "folder", "places"),
    [
        (("git", {}), "src", ("src",)),
        (("git", {}), ".", (".",)),
        (("git", {"packager_subpath": "src"}), "src/app", ("app",)),
        (("git", {"packager_subpath": "src"}), "other", ()),
        (("git", {"packager_include_pattern": "*", "packager_relative_path": "src"}), "src/a", ("a", "src/a")),
        (("pattern", {"packager_include_pattern": "**"}), "src", ("src",)),
        (("pattern", {"packager_include_pattern": ["*", "*"], "packager_relative_path": ["a", "src"]}), "src", (".",)),
        (("pattern", {}), "src", ()),
        (("none", {}), "src", ()),
        (hybrid(code=CODE), "src/app", ("code/app",)),
        (hybrid(code=CODE), "other", ()),
        (hybrid(data=DATA, code=CODE), "src", ("code", "data/src")),
        (hybrid(data=DATA, all=ALL), "src", ("all/src", "data/src")),
        (hybrid(code=CODE, local=LOCAL), "src/local", ("local", "code/local")),
        (hybrid(code={**CODE, "merge": "."}), "src/app", ("app",)),
    ],
)
def test_places(tmp_path, package, folder, places):
    kind, options = package
    assert places_in_package(Package(kind, str(tmp_path), options), tmp_path / folder) == places


def test_by_another_name(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert places_in_package(Package("git", str(tmp_path / "real")), tmp_path / "link/src") == ("src",)
