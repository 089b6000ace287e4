"""The network check of a node: TCP connections to others, then an all-reduce where torch is there. Runs inside the job.

Run by whatever Python from 3.7 a job finds, as one text (`script/programs.py`). Each node leaves its address in a
folder that all share, and connects to the nodes 1, 2, 4 and so on places before and after it: a node that nobody
reaches has several witnesses, at a cost that grows with the logarithm of their number. It reports as `node.sh` does.
"""

from __future__ import annotations

import os
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nemo_runspec.jobside.address import address

_CONNECT = 5.0
_REDUCE = 30.0


def main() -> None:
    """Arguments: this node's name, folder, number; how many nodes, GPUs per node, torch (or ''), seconds."""
    name, folder, number, nodes, gpus, torch, seconds = sys.argv[1:8]
    node = Node(name, address(), Path(folder), int(number), int(nodes), float(seconds))
    if node.nodes > 1:
        node.check_connections()
    if torch and not node.accused:
        node.check_all_reduce(int(gpus))


class Node:
    """One node among `nodes`, which leave messages for each other in `folder`.

    Args:
        address: under which the others reach it.
        seconds: how long it waits for the messages of others.
    """

    def __init__(self, name: str, address: str, folder: Path, number: int, nodes: int, seconds: float) -> None:
        self.name, self.address, self.folder = name, address, folder
        self.number, self.nodes, self.seconds = number, nodes, seconds
        self.accused: set[int] = set()

    def report(self, word: str, text: str) -> None:
        """A line for the batch script."""
        sys.stdout.write("\t".join(("nemotron-health", self.name, word, " ".join(text.split()))) + "\n")
        sys.stdout.flush()

    def accuse(self, other: int, text: str) -> None:
        """Reports what is wrong between this node and another."""
        self.accused.add(other)
        self.report("accuse", f"{other} {text}")

    def check_connections(self) -> None:
        """Connects to its peers, and stays until they have connected to it."""
        with _Echo(("", 0), _Answer) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self._publish("address", f"{self.address} {server.server_address[1]}")
            peers = self._peers()
            addresses = self._messages("address", peers)
            for peer in sorted(peers - set(addresses)):
                self.accuse(peer, "has not given its address")
            threads = [threading.Thread(target=self._connect, args=entry) for entry in addresses.items()]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self._publish("met", "")
            self._messages("met", set(addresses) - self.accused)
            server.shutdown()

    def check_all_reduce(self, gpus: int) -> None:
        """Every GPU, or every node without any, adds its number to a sum that all must have in the end.

        Where the sum over all nodes does not come about, each node tries it with its neighbour on either side: the bad
        one fails with both.
        """
        self.report("at", "all-reduce")
        import torch  # type: ignore[import-not-found]  # noqa: F401  # slow: all have it before the clock runs

        everybody = set(range(self.nodes))
        self._publish("torch", "")
        self._messages("torch", everybody)
        problem = self._sum("all", range(self.nodes), gpus)
        self._publish("sum", problem)
        sums = self._messages("sum", everybody)
        if problem and self.nodes == 1:
            self.report("bad", f"all-reduce: {problem}")
        elif len(sums) < self.nodes or any(sums.values()):
            self.report("reduce", problem or "others have no sum")
            for pair in (pair for turn in _turns(self.nodes) for pair in turn if self.number in pair):
                self._sum_with_neighbour(pair, gpus)

    def _sum_with_neighbour(self, pair: tuple[int, int], gpus: int) -> None:
        other = sum(pair) - self.number
        self.report("at", f"all-reduce with node {other}")
        problem = self._sum(f"pair{pair[0]}", pair, gpus)
        if problem:
            self.accuse(other, f"all-reduce with it: {problem}")

    def _sum(self, what: str, members: Sequence[int], gpus: int) -> str:
        """What is wrong with the sum over these nodes, whose rendezvous is the first of them; '' for nothing."""
        rendezvous = self._rendezvous(what, members)
        if rendezvous is None:
            return f"node {members[0]} has not given its port"
        count = gpus or 1
        first = list(members).index(self.number) * count
        children = [_start(Rank(first + index, len(members) * count, index, rendezvous)) for index in range(count)]
        results = [_end(*child) for child in children]
        labels = [f"GPU {index}: " if gpus else "" for index in range(count)]
        wrong = (index for index in range(count) if results[index] != "fine")
        return "; ".join(f"{labels[index]}{results[index] or 'its process died'}" for index in wrong)

    def _rendezvous(self, what: str, members: Sequence[int]) -> str | None:
        if self.number == members[0]:
            with socket.socket() as free:
                free.bind(("", 0))
                port = free.getsockname()[1]
            self._publish(what, f"{self.address if len(members) > 1 else '127.0.0.1'} {port}")
        return self._messages(what, {members[0]}).get(members[0])

    def _peers(self) -> set[int]:
        steps = [1 << power for power in range(self.nodes.bit_length())]
        found = {(self.number + sign * step) % self.nodes for step in steps if step < self.nodes for sign in (1, -1)}
        return found - {self.number}

    def _connect(self, peer: int, address: str) -> None:
        host, port = address.split()
        word = f"{self.folder} from {self.number}".encode()
        try:
            with socket.create_connection((host, int(port)), _CONNECT) as connection:
                connection.sendall(word)
                answer = connection.recv(4096)
        except OSError as problem:
            self.accuse(peer, f"cannot be reached at {host}:{port}: {problem}")
            return
        if answer != word[::-1]:
            self.accuse(peer, f"something else answers at {host}:{port}")

    def _publish(self, what: str, text: str) -> None:
        draft = self.folder / f"{what}.{self.number}.tmp"
        draft.write_text(text)
        draft.rename(draft.with_suffix(""))

    def _messages(self, what: str, nodes: set[int]) -> dict[int, str]:
        """What these nodes have published, by their numbers; those that have not in time are missing."""
        found: dict[int, str] = {}
        until = time.monotonic() + self.seconds
        while set(found) != nodes and time.monotonic() < until:
            list(self.folder.iterdir())  # a network file system looks again only when the folder is read
            for node in nodes - set(found):
                with suppress(OSError):
                    found[node] = (self.folder / f"{what}.{node}").read_text()
            time.sleep(0.1)
        return found


class _Echo(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_: object) -> None:
        """A connection that breaks is for the other end to report."""


class _Answer(socketserver.BaseRequestHandler):
    """Gives everyone their word back, from the last to the first."""

    def handle(self) -> None:
        self.request.settimeout(_CONNECT)
        self.request.sendall(self.request.recv(4096)[::-1])


@dataclass(frozen=True)
class Rank:
    """One of `world` processes that add up. `index`: its GPU; `rendezvous`: the first one's address and port."""

    rank: int
    world: int
    index: int
    rendezvous: str


def _start(rank: Rank) -> tuple[int, int]:
    """A process of its own, as torch and its libraries may crash; its result comes out of the pipe.

    CUDA works in it only because this process has never asked for it.
    """
    out, into = os.pipe()
    child = os.fork()
    if child:
        os.close(into)
        return child, out
    try:
        result = _add_up(rank)
    except Exception as problem:  # noqa: BLE001 (whatever it is, it is what the check reports)
        result = f"{type(problem).__name__}: {str(problem)[:300]}"
    os.write(into, result.encode())
    os._exit(0)


def _end(child: int, out: int) -> str:
    with os.fdopen(out) as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    return result


def _turns(nodes: int) -> list[list[tuple[int, int]]]:
    """Every node with each of its neighbours in a ring, in turns: in each, a node is in one pair at most."""
    ring = [(node, (node + 1) % nodes) for node in range(nodes)]
    even = nodes - nodes % 2
    return [ring[0:even:2], ring[1:even:2], ring[even:]]


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
        init_method="tcp://{}:{}".format(*rank.rendezvous.split()),
        rank=rank.rank,
        world_size=rank.world,
        timeout=timedelta(seconds=_REDUCE),
    )
    numbers = torch.full((1 << 20,), float(rank.rank), device=device)
    dist.all_reduce(numbers)
    wanted, least, most = rank.world * (rank.world - 1) / 2, numbers.min().item(), numbers.max().item()
    dist.destroy_process_group()
    return "fine" if least == most == wanted else f"the sum is {least:g} to {most:g}, not {wanted:g}"


if __name__ == "__main__":
    main()
