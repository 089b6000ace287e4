"""Records of jobs: written before a job starts, kept true until it has ended, read after."""

from __future__ import annotations

from nemo_runspec.records.lifecycle import Launcher
from nemo_runspec.records.record import STATES, JobRecord, State, Transition, Unreadable
from nemo_runspec.records.store import JobEnded, JobStore

__all__ = ["STATES", "JobEnded", "JobRecord", "JobStore", "Launcher", "State", "Transition", "Unreadable"]
