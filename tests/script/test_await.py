"""How our shells wait for a child while signals come."""

from __future__ import annotations

import subprocess

from nemo_runspec.script.render import shared_functions

ROUNDS = """
signals=0
trap 'signals=$((signals + 1))' TERM
sleep 600 & # the next wait would wait for it
left=$!
for ((round = 0; round < 300; round++)); do
  sh -c 'kill -TERM $PPID; exit 7' &
  nemotron_await "$!" signals
  case $nemotron_ended in 7 | 143) ;; *) echo "$round: $nemotron_ended" ;; esac
done
kill "$left"
"""


def test_a_child_that_ends_as_a_signal_comes_is_not_waited_for_any_more():
    """Its status may be the signal's then."""
    script = f"{shared_functions()}\n{ROUNDS}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
