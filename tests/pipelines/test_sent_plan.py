"""The plan that a platform gets of a stage: told of every job that it comes after, in a preview as when it is sent."""

from __future__ import annotations

from dataclasses import replace

from job_records import record

import nemo_runspec
from nemo_runspec.pipelines.model import Handover
from nemo_runspec.pipelines.plans import PlannedStage, sent_plan
from nemo_runspec.planning.planned import Planned


def stage_of(plan, *needs, makers=()):
    handovers = tuple(Handover("data", maker, "rows") for maker in makers)
    return PlannedStage(None, Planned(plan, {}), handovers, {}, "new", needs=needs)


def test_jobs_outside_come_first_and_those_of_the_pipeline_once(project):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster")
    outside = record("maker", ("planned", "running"), executor="slurm", handle={"id": "41;cluster"})
    for ids in ({0: "<toy/fetch>"}, {0: "42"}):
        sent = sent_plan(stage_of(plan, outside, makers=(0, 0, 1)), ids)
        assert sent.target.dependencies == ("41", ids[0])
        assert replace(sent, target=plan.target) == plan


def test_a_stage_that_waits_for_nobody_is_as_it_was_planned(project):
    plan = nemo_runspec.plan("nano3/pretrain", config="tiny", profile="my-cluster")
    assert sent_plan(stage_of(plan, makers=(3,)), {0: "42"}) is plan
