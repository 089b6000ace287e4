"""A job is made once, whatever becomes of the requests that make it."""

from __future__ import annotations

import pytest

from nemo_runspec.backends.cloud.submit_once import submit_once
from nemo_runspec.transport.web import NotKnown


class Platform:
    """Takes requests; `lost`: how many of them make the job and lose the answer, `broken`: how many make none."""

    def __init__(self, lost: int = 0, broken: int = 0, late: int = 0) -> None:
        self.lost, self.broken, self.late = lost, broken, late
        self.jobs: list[int] = []
        self.slept: list[float] = []

    def create(self) -> int:
        if self.broken:
            self.broken -= 1
            raise NotKnown("the connection broke")
        self.jobs.append(len(self.jobs) + 1)
        if self.lost:
            self.lost -= 1
            raise NotKnown("the connection broke")
        return self.jobs[-1]

    def find(self) -> int | None:
        """The oldest job; the first `late` looks do not show it yet."""
        if self.jobs and self.late:
            self.late -= 1
            return None
        return self.jobs[0] if self.jobs else None

    def submit(self, *, before=(0.0,), sent=False) -> tuple[int, bool]:
        after = ((0.5, 1.5),) * 3
        told = self.slept.append
        return submit_once(
            self.create, self.find, before=before, after=after, say=lambda _: None, sent=sent, sleep=told
        )


def test_a_job_that_is_there_is_adopted():
    platform = Platform()
    platform.jobs = [7]
    assert platform.submit() == (7, False)
    assert platform.jobs == [7]


def test_a_request_whose_answer_is_lost_is_not_repeated():
    platform = Platform(lost=1, late=1)
    assert platform.submit() == (1, False)
    assert (platform.jobs, platform.slept) == ([1], [0.5, 1.5])


def test_a_request_that_broke_is_repeated_and_a_twin_is_possible():
    platform = Platform(broken=2)
    assert platform.submit() == (1, True)


def test_of_two_jobs_the_first_is_ours():
    """One that showed late is found once the second was made."""
    platform = Platform(lost=1, late=2)
    assert platform.submit() == (1, True)
    assert platform.jobs == [1, 2]


def test_what_may_have_been_sent_before_is_looked_for_longer():
    platform = Platform(late=2)
    platform.jobs = [7]
    assert platform.submit(before=(0.0, 0.5, 1.5), sent=True) == (7, False)
    assert Platform().submit(before=(0.0, 0.5), sent=True) == (1, True)


def test_in_the_end_it_is_not_known():
    platform = Platform(broken=3)
    with pytest.raises(NotKnown):
        platform.submit()
    assert platform.slept == [0.5, 1.5] * 3
