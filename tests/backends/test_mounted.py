"""Where a container's path lies outside it."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.mounted import outside

MOUNTS = ("/lustre/me:/data", "/raid:/data/fast/", "volume:/kept:ro", "/:/host")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/data", "/lustre/me"),
        ("/data/a/b", "/lustre/me/a/b"),
        ("/data/fast/a", "/raid/a"),
        ("/data/../data/a", "/lustre/me/a"),
        ("/database/a", None),
        ("/kept/a", "volume/a"),
        ("/host/etc/fstab", "/etc/fstab"),
        ("/opt/a", None),
    ],
)
def test_the_innermost_mount_says_where(path, place):
    assert outside(path, MOUNTS) == place
