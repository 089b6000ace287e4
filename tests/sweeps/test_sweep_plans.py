"""Plans of a sweep are the plans their overrides make alone, although files and git are looked at once for all."""

from __future__ import annotations

from dataclasses import replace

from support import make_repository

from nemo_runspec.planning.build import build_plan
from nemo_runspec.planning.codec import plan_to_json
from nemo_runspec.planning.request import plan_request
from nemo_runspec.planning.sweep import combinations, plan_each


def test_each_is_the_plan_it_would_be_alone(trains):
    make_repository(trains.folder)
    (trains.folder / "new.txt").write_text("x")
    request = plan_request("mine/train", profile="box", overrides=["run.env.packager=git,none", "lr=1,2"])
    runs = combinations(request)
    together = [planned.plan for planned in plan_each(request, runs)]
    alone = [build_plan(replace(request, overrides=overrides)).plan for overrides in runs]
    for one, other in zip(together, alone, strict=True):
        assert plan_to_json(one).replace(one.name, "NAME") == plan_to_json(other).replace(other.name, "NAME")
    assert [plan.package.kind for plan in together] == ["git", "git", "none", "none"]
    assert together[0].package.untracked
    assert len({plan.name for plan in together}) == 4
