"""A node's talk with the others: TCP connections, then an all-reduce where torch is there. Runs inside the job.

Run by whatever Python from 3.7 a job finds. Each node leaves its address in a folder that all share, and connects to
the nodes 1, 2, 4, … places before and after it: a node that nobody reaches has several witnesses, at a cost that grows
with the logarithm of their number. What it finds it says as `node.sh` does.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_CONNECT = 5.0
_REDUCE = 30.0


def main() -> None:
    """Arguments: this node's name, folder, its number, how many nodes, GPUs per node, torch (yes or ''), seconds."""
    name, folder, node, nodes, gpus, torch, seconds = sys.argv[1:8]
    meeting = Meeting(name, Path(folder), int(node), int(nodes), float(seconds))
    if meeting.nodes > 1:
        meeting.greet_others()
    if torch and not meeting.accused:
        meeting.reduce(int(gpus))


class Meeting:
    """One node among `nodes`, which meet in `folder`.

    Args:
        seconds: how long it waits for what others leave there.
    """

    def __init__(self, name: str, folder: Path, node: int, nodes: int, seconds: float) -> None:
        self.name, self.folder, self.node, self.nodes, self.seconds = name, folder, node, nodes, seconds
        self.accused: set[int] = set()

    def say(self, word: str, text: str) -> None:
        """A line for the batch script."""
        sys.stdout.write("\t".join(("nemotron-health", self.name, word, " ".join(text.split()))) + "\n")
        sys.stdout.flush()

    def accuse(self, other: int, text: str) -> None:
        """Says what is wrong between this node and another."""
        self.accused.add(other)
        self.say("accuse", f"{other} {text}")

    def greet_others(self) -> None:
        """Connects to its partners, and stays until they have connected to it."""
        listener = self._listen()
        partners = self._partners()
        there = self._wait("address", partners)
        for other in sorted(partners - set(there)):
            self.accuse(other, "has not given its address")
        threads = [threading.Thread(target=self._greet, args=entry) for entry in there.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._leave("met", "")
        self._wait("met", set(there) - self.accused)
        listener.close()

    def reduce(self, gpus: int) -> None:
        """Every GPU, or every node without any, adds its number to a sum that all must have in the end.

        Where the sum over all nodes does not come about, each node tries it with its neighbour on either side: the bad
        one fails with both.
        """
        self.say("at", "all-reduce")
        import torch  # type: ignore[import-not-found]  # noqa: F401  # slow: all have it before the clock runs

        self._leave("torch", "")
        self._wait("torch", set(range(self.nodes)))
        problem = self._sum("all", range(self.nodes), gpus)
        self._leave("sum", problem)
        others = self._wait("sum", set(range(self.nodes)))
        if problem and self.nodes == 1:
            self.say("bad", f"all-reduce: {problem}")
        elif len(others) < self.nodes or any(others.values()):
            self.say("reduce", problem or "others have no sum")
            for pair in (pair for turn in _turns(self.nodes) for pair in turn if self.node in pair):
                self._try_neighbour(pair, gpus)

    def _try_neighbour(self, pair: tuple[int, int], gpus: int) -> None:
        other = sum(pair) - self.node
        self.say("at", f"all-reduce with node {other}")
        problem = self._sum(f"pair{pair[0]}", pair, gpus)
        if problem:
            self.accuse(other, f"all-reduce with it: {problem}")

    def _sum(self, what: str, members: Sequence[int], gpus: int) -> str:
        """What is wrong with the sum over these nodes, which meet at the first of them; '' for nothing."""
        place = self._rendezvous(what, members)
        if place is None:
            return f"node {members[0]} has not given its port"
        count = gpus or 1
        first = list(members).index(self.node) * count
        children = [_start(Rank(first + index, len(members) * count, index, place)) for index in range(count)]
        said = [_end(*child) for child in children]
        words = [f"{f'GPU {index}: ' if gpus else ''}{word or 'its process died'}" for index, word in enumerate(said)]
        return "; ".join(words[index] for index in range(count) if said[index] != "fine")

    # TCP

    def _partners(self) -> set[int]:
        steps = [1 << power for power in range(self.nodes.bit_length())]
        found = {(self.node + sign * step) % self.nodes for step in steps if step < self.nodes for sign in (1, -1)}
        return found - {self.node}

    def _listen(self) -> socket.socket:
        listener = socket.socket()
        listener.bind(("", 0))
        listener.listen(64)
        threading.Thread(target=_serve, args=(listener,), daemon=True).start()
        self._leave("address", f"{_address(self.name)} {listener.getsockname()[1]}")
        return listener

    def _greet(self, other: int, text: str) -> None:
        host, port = text.split()
        word = f"{self.folder} from {self.node}".encode()
        try:
            with socket.create_connection((host, int(port)), _CONNECT) as connection:
                connection.sendall(word)
                answer = connection.recv(4096)
        except OSError as problem:
            self.accuse(other, f"cannot be reached at {host}:{port}: {problem}")
            return
        if answer != word[::-1]:
            self.accuse(other, f"something else answers at {host}:{port}")

    # The folder

    def _leave(self, what: str, text: str) -> None:
        draft = self.folder / f"{what}.{self.node}.tmp"
        draft.write_text(text)
        draft.rename(draft.with_suffix(""))

    def _wait(self, what: str, others: set[int]) -> dict[int, str]:
        """What other nodes have left, by their numbers; those that have not in time are missing."""
        found: dict[int, str] = {}
        until = time.monotonic() + self.seconds
        while set(found) != others and time.monotonic() < until:
            list(self.folder.iterdir())  # a network file system looks again only when the folder is read
            for other in others - set(found):
                with suppress(OSError):
                    found[other] = (self.folder / f"{what}.{other}").read_text()
            time.sleep(0.1)
        return found

    # All-reduce

    def _rendezvous(self, what: str, members: Sequence[int]) -> str | None:
        if self.node == members[0]:
            with socket.socket() as free:
                free.bind(("", 0))
                port = free.getsockname()[1]
            self._leave(what, f"{_address(self.name) if len(members) > 1 else '127.0.0.1'} {port}")
        return self._wait(what, {members[0]}).get(members[0])


@dataclass(frozen=True)
class Rank:
    """One of `world` processes that add up. `index`: its GPU; `place`: the first one's address and port."""

    rank: int
    world: int
    index: int
    place: str


def _start(rank: Rank) -> tuple[int, int]:
    """A process of its own, as torch and its libraries may crash; its words come out of the pipe.

    CUDA works in it only because this process has never asked for it.
    """
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    try:
        said = _add_up(rank)
    except Exception as problem:  # noqa: BLE001 (whatever it is, it is what the check reports)
        said = f"{type(problem).__name__}: {str(problem)[:300]}"
    os.write(into, said.encode())
    os._exit(0)


def _end(child: int, out: int) -> str:
    with os.fdopen(out) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def _turns(nodes: int) -> list[list[tuple[int, int]]]:
    """Every node with each of its neighbours in a ring, in turns: in each, a node is in one pair at most."""
    ring = [(node, (node + 1) % nodes) for node in range(nodes)]
    even = nodes - nodes % 2
    return [ring[0:even:2], ring[1:even:2], ring[even:]]


def _serve(listener: socket.socket) -> None:
    """Gives everyone their words back, from the last to the first, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                connection.settimeout(_CONNECT)
                connection.sendall(connection.recv(4096)[::-1])
            except OSError:
                continue


def _add_up(rank: Rank) -> str:
    """`fine`, or what came out instead. Raises what torch raises."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist  # type: ignore[import-not-found]

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", rank.index) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method="tcp://{}:{}".format(*rank.place.split()),
        rank=rank.rank,
        world_size=rank.world,
        timeout=timedelta(seconds=_REDUCE),
    )
    numbers = torch.full((1 << 20,), float(rank.rank), device=device)
    dist.all_reduce(numbers)
    wanted, least, most = rank.world * (rank.world - 1) / 2, numbers.min().item(), numbers.max().item()
    dist.destroy_process_group()
    return "fine" if least == most == wanted else f"the sum is {least:g} to {most:g}, not {wanted:g}"


def _address(name: str) -> str:
    """The address under which other nodes reach this one."""
    for known in (name, socket.gethostname()):
        try:
            found = [str(entry[4][0]) for entry in socket.getaddrinfo(known, None, socket.AF_INET)]
        except OSError:
            continue
        for text in found:
            if not text.startswith("127."):
                return text
    return name


if __name__ == "__main__":
    main()
