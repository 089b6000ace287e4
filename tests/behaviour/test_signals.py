"""Signals at any moment: from nemotron, from the platform, before the command, while it runs and after its end"""

from __future__ import annotations

from collections import Counter

import pytest

from behaviour.signal_storm import FIRST, MOMENTS, Storm, told


@pytest.mark.slow
def test_signals_at_random_moments(bench):
    """Whenever a job is told something: nothing is lost or told twice, its end is told as it was, nothing is left."""
    print(f"{bench.rig.name}: seeds {FIRST} to {FIRST + MOMENTS - 1}")
    failed, states, excused = [], Counter(), Counter()
    for seen, problems in Storm(bench).run(FIRST, MOMENTS):
        states[seen.shown.get("state", "?")] += 1
        excused.update(seen.excused)
        if problems:
            failed.append(seen.moment.seed)
            print(f"{bench.rig.name} seed {seen.moment.seed}:\n{told(seen, problems)}", flush=True)
    print(f"{bench.rig.name}: {MOMENTS} moments, failed {failed}; {dict(states)}; excused {dict(excused)}")
    assert failed == [], f"{bench.rig.name}: NEMOTRON_STORM_FIRST={failed[0]} NEMOTRON_STORM=1"
