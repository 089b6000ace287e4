"""Findings of the nodes in a health check, and who is at fault."""

import re
import time

from nemo_runspec.lines import text_lines

MYPY = False
if MYPY:
    from typing import Dict, List, Sequence, Set, Tuple

_NO_CAUSE = re.compile(r"Exited with|Terminated|CANCELLED|Killed")
_CAUSE = re.compile(r"\[ERROR\]|no such|not found|denied|timed out|unable|cannot|could not", re.IGNORECASE)

_LACKS = {
    "python": "there is no python, and on other nodes there is",
    "torch": "torch cannot be imported, and on other nodes it can",
    "gpus": "there is no nvidia-smi, and on other nodes there is",
    "network": "the check of the network fails, and on other nodes it does not",
}


class Findings:
    """What is known of some nodes.

    Args:
        nodes: their names.
        clock: seconds that a clock may be off.
    """

    def __init__(self, nodes: "Sequence[str]", clock: int) -> None:
        self._nodes = nodes
        self._clock = clock
        self.bad: "Dict[str, str]" = {}
        self.at: "Dict[str, str]" = {}
        self.done: "Set[str]" = set()
        self.common = ""
        self._has: "Dict[Tuple[str, str], str]" = {}
        self._reduce: "Dict[str, str]" = {}
        self._votes: "Dict[str, int]" = {}
        self._words: "Dict[str, str]" = {}

    def hear(self, node: str, word: str, text: str) -> None:
        """What a node has said, see node.sh."""
        if word == "begun":
            self.at[node] = "the first thing"
            self._compare_clock(node, text)
        elif word == "at":
            self.at[node] = text
        elif word == "bad":
            self.blame(node, text)
        elif word == "reduce":
            self._reduce[node] = "; ".join(filter(None, (self._reduce.get(node), text)))
        elif word == "accuse":
            self._vote(node, text)
        elif word == "unasked":
            from nemo_runspec.backends.slurm.jobside.batch import note

            note("health check: %s: not asked for: %s" % (node, text))
        elif word == "done":
            self.done.add(node)
        else:
            self._has[word, node] = text

    def blame(self, node: str, why: str) -> None:
        """A node is bad."""
        self.bad[node] = "; ".join(filter(None, (self.bad.get(node), why)))

    def judge(self, said: str) -> None:
        """Who is at fault.

        In this order: what a node says of itself; who has not answered; who lacks what others have; who is not reached;
        and whose sum is wrong. Each is asked only while none is found: a node that is bad makes others look bad.

        Args:
            said: by Slurm, of the check's step.
        """
        self._silent(said)
        for judge in (self._lacking, self._alone, self._sums):
            if not self.bad:
                judge()

    def _compare_clock(self, node: str, text: str) -> None:
        """Its clock against the one here, in whole seconds; a line is here within a moment."""
        off = int(text) - int(time.time()) if text.isdigit() else 0
        if abs(off) > self._clock:
            self.blame(node, "its clock is off by %d s" % off)

    def _vote(self, witness: str, text: str) -> None:
        """A connection that fails counts against both of its ends, a little more against the one that was to answer."""
        number, _, why = text.partition(" ")
        if not number.isdigit() or int(number) >= len(self._nodes):
            return
        accused = self._nodes[int(number)]
        self._votes[witness] = self._votes.get(witness, 0) + 2
        self._votes[accused] = self._votes.get(accused, 0) + 3
        self._words[accused] = "%s (says %s)" % (why, witness)

    def _silent(self, said: str) -> None:
        if self.bad:
            return
        if not self.at:
            import os

            os.write(2, said.encode("utf-8", "replace"))
            self.common = "it could not be started on any node"
        for node in self._nodes:
            if node not in self.at:
                self.blame(node, "the check could not be started" + _said_of(node, said))
        if self.bad:
            return  # who has begun may still wait for those
        for node in self._nodes:
            if node not in self.done:
                self.blame(node, "no answer while it was asked for: " + self.at[node])

    def _lacking(self) -> None:
        for what, words in _LACKS.items():
            if any(self._has.get((what, node)) for node in self._nodes):
                for node in self._nodes:
                    if not self._has.get((what, node)):
                        self.blame(node, words)

    def _alone(self) -> None:
        most = max(self._votes.values(), default=0)
        for node in [node for node in self._nodes if most and self._votes.get(node) == most]:
            if node in self._reduce:
                self.blame(node, "no all-reduce with it: " + self._reduce[node])
            else:
                self.blame(node, self._words.get(node, "reaches no other node"))

    def _sums(self) -> None:
        for node, text in self._reduce.items():
            self.blame(node, "all-reduce: " + text)


def _said_of(node: str, said: str) -> str:
    """What Slurm said of it: the line that most likely names the cause."""
    about = re.compile(r"(?<!\w)%s(?!\w)" % re.escape(node))
    lines: "List[str]" = [line for line in text_lines(said) if about.search(line) and not _NO_CAUSE.search(line)]
    line = next((line for line in lines if _CAUSE.search(line)), lines[0] if lines else "")
    return " (%s)" % line if line else ""
