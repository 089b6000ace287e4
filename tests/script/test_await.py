"""How our shells wait for a child while signals come."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from nemo_runspec.backends.slurm import batch
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


ASKS = """
nemotron_id=1 nemotron_gates=$1/gates nemotron_signal='' nemotron_lead=0 nemotron_restarts=0 nemotron_began=0
nemotron_fate='' nemotron_phase=begin nemotron_signals=0
trap 'nemotron_batch_signal USR1' USR1
mkfifo "$1/silent"
exec {silent}<> "$1/silent"
(until grep -q '^State:.S' "/proc/$$/status"; do sleep 0.05; done; kill -USR1 $$) & # once it waits, in read
read -r -t 6 -u "$silent" answer
echo "status $?, $nemotron_signals signal, $nemotron_state, $nemotron_starts"
"""


def test_what_a_batch_shell_waits_for_with_a_limit_has_it_after_a_signal_too(tmp_path):
    """As the health check waits for nodes: what its trap does must not take the limit away."""
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 'RUNNING|None|N/A|3|123|'\necho 'of a second|line'\n")
    squeue.chmod(0o755)
    own = Path(batch.__file__).with_name(batch.NAME).read_text(encoding="utf-8")
    script = f"{shared_functions()}\n{own}\n{ASKS}"
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-c", script, "bash", str(tmp_path)], env=env, capture_output=True, text=True, timeout=120
    )
    said = "nemotron: SIGUSR1 came and is handed to the command\n"
    assert done.stdout == f"{said}status 142, 1 signal, RUNNING, 3\n", done.stderr
