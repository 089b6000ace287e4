"""`nemotron dgxcloud …`: what run:ai has for the profile's application."""

from __future__ import annotations

import pytest
from runai_workloads import profile, workload


@pytest.fixture
def here(runai_lab, project):
    profile(project, runai_lab)
    workload(runai_lab, "their-training", "Completed")
    return runai_lab


def test_what_there_is(here, nemotron_process):
    [project] = [row for row in listed(nemotron_process, "projects") if row["project"] == here.project]
    assert (project["id"], project["phase"]) == (here.mine.id, "Ready")
    assert "data" in {row["claim"] for row in listed(nemotron_process, "pvcs")}
    [found] = [row for row in listed(nemotron_process, "workloads") if row["workload"] == "their-training"]
    assert (found["phase"], found["type"], found["project"]) == ("Completed", "Training", here.project)
    assert listed(nemotron_process, "credentials") is not None


def listed(nemotron_process, name):
    return nemotron_process("dgxcloud", name, "--json").succeeds().json


@pytest.mark.parametrize("columns", ["80", "120"])
def test_as_a_table(here, nemotron_process, columns):
    out = nemotron_process("dgxcloud", "workloads", "--profile", "dgx", COLUMNS=columns).succeeds().out
    assert out.splitlines()[0].split()[:2] == ["WORKLOAD", "PHASE"]
    assert max(map(len, out.splitlines())) <= int(columns)


def test_refusals(here, project, nemotron_process):
    nemotron_process("dgxcloud", "pvcs", RUNAI_LAB_SECRET="wrong").refuses("run:ai")
    profile(project, here, '\n[other]\nextends = "dgx"\n')
    nemotron_process("dgxcloud", "pvcs").refuses("2 profiles of executor 'dgxcloud'", "--profile dgx|other")
