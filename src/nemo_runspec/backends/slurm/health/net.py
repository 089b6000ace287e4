"""A node's talk with the others: TCP connections, then an all-reduce where torch is there. Runs inside the job.

Alone: standard library only, for any Python from 3.6. Each node leaves its address in a folder all share. It connects
to the nodes 1, 2, 4, … places before and after it, so that a node nobody reaches has several witnesses, at a cost that
grows with the logarithm of their number.
"""

import os
import socket
import sys
import threading
import time

_CONNECT = 5.0
_REDUCE = 60.0


def main():
    name, folder, node, nodes, gpus, torch, seconds = sys.argv[1:8]
    check = Check(name, folder, int(node), int(nodes), float(seconds))
    if check.nodes > 1:
        check.meet()
    if torch and not check.accused:
        check.reduce(int(gpus))


class Check:
    """One node among `nodes`, which meet in `folder`."""

    def __init__(self, name, folder, node, nodes, seconds):
        self.name, self.folder, self.node, self.nodes, self.seconds = name, folder, node, nodes, seconds
        self.accused = set()

    def say(self, word, text):
        sys.stdout.write("nemotron-health\t%s\t%s\t%s\n" % (self.name, word, text))
        sys.stdout.flush()

    def accuse(self, other, text):
        """`other`: a node's number."""
        self.accused.add(other)
        self.say("accuse", "%d %s" % (other, text))

    # TCP

    def meet(self):
        listener = self.listen()
        partners = self.partners()
        there = self.wait("address", partners)
        for other in sorted(partners - set(there)):
            self.accuse(other, "has not given its address")
        threads = [threading.Thread(target=self.greet, args=(other, text)) for other, text in there.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.leave("met", "")
        self.wait("met", set(there))  # they may still be connecting to this node
        listener.close()

    def partners(self):
        """Numbers of the nodes this one talks with."""
        steps = [1 << power for power in range(self.nodes.bit_length())]
        found = {(self.node + sign * step) % self.nodes for step in steps if step < self.nodes for sign in (1, -1)}
        return found - {self.node}

    def listen(self):
        listener = socket.socket()
        listener.bind(("", 0))
        listener.listen(64)
        thread = threading.Thread(target=self.serve, args=(listener,))
        thread.daemon = True
        thread.start()
        self.leave("address", "%s %d" % (address(self.name), listener.getsockname()[1]))
        return listener

    def serve(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
                connection.settimeout(_CONNECT)
                connection.sendall(connection.recv(4096)[::-1])
                connection.close()
            except socket.timeout:
                continue
            except OSError:
                return

    def greet(self, other, text):
        host, port = text.split()
        word = ("%s from %d" % (self.folder, self.node)).encode()
        try:
            connection = socket.create_connection((host, int(port)), _CONNECT)
            connection.sendall(word)
            answer = connection.recv(4096)
            connection.close()
        except OSError as problem:
            self.accuse(other, "cannot be reached at %s:%s: %s" % (host, port, problem))
            return
        if answer != word[::-1]:
            self.accuse(other, "answers something else at %s:%s" % (host, port))

    # The folder

    def leave(self, what, text):
        path = os.path.join(self.folder, "%s.%d" % (what, self.node))
        with open(path + ".tmp", "w") as file:
            file.write(text)
        os.rename(path + ".tmp", path)

    def wait(self, what, others):
        """What the other nodes have left, by their numbers; those that have not within `seconds` are missing."""
        found, until = {}, time.time() + self.seconds
        while set(found) != others and time.time() < until:
            os.listdir(self.folder)  # a network file system looks again only when the folder is read
            for other in others - set(found):
                try:
                    with open(os.path.join(self.folder, "%s.%d" % (what, other))) as file:
                        found[other] = file.read()
                except OSError:
                    continue
            time.sleep(0.1)
        return found

    # All-reduce

    def reduce(self, gpus):
        """Every GPU, or every node where torch sees none, adds its number to a sum that all must have in the end."""
        self.say("at", "all-reduce")
        place = self.rendezvous()
        if place is None:
            self.say("bad", "all-reduce: node 0 has not given its port")
            return
        import torch

        count = gpus if torch.cuda.is_available() else 1
        children = [self.start_rank(index, count, place) for index in range(count)]
        for index, (pid, result) in enumerate(children):
            said = os.fdopen(result).read()
            os.waitpid(pid, 0)
            if said != "fine":
                who = "GPU %d" % index if torch.cuda.is_available() else "process"
                self.say("reduce", "%s: %s" % (who, said or "died"))

    def rendezvous(self):
        if self.node == 0:
            free = socket.socket()
            free.bind(("", 0))
            port = free.getsockname()[1]
            free.close()
            self.leave("reduce", "%s %d" % (address(self.name) if self.nodes > 1 else "127.0.0.1", port))
        return self.wait("reduce", {0}).get(0)

    def start_rank(self, index, count, place):
        """A process of its own: torch and its libraries may crash. Its words come out of the pipe that is returned."""
        out, inside = os.pipe()
        pid = os.fork()
        if pid:
            os.close(inside)
            return pid, out
        try:
            said = add_up(self.node * count + index, self.nodes * count, index, place)
        except Exception as problem:  # whatever it is, it is the finding
            said = "%s: %s" % (type(problem).__name__, " ".join(str(problem).split())[:300])
        os.write(inside, said.encode())
        os._exit(0)


def add_up(rank, world, index, place):
    """`fine`, or what came out. Raises what torch raises."""
    from datetime import timedelta

    import torch
    import torch.distributed as dist

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", index) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if cuda else "gloo",
        init_method="tcp://%s:%s" % tuple(place.split()),
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=_REDUCE),
    )
    numbers = torch.full((1 << 20,), float(rank), device=device)
    dist.all_reduce(numbers)
    wanted = world * (world - 1) / 2
    least, most = numbers.min().item(), numbers.max().item()
    dist.destroy_process_group()
    return "fine" if least == most == wanted else "the sum is %s to %s, not %s" % (least, most, wanted)


def address(name):
    """The address under which other nodes reach this one."""
    for known in (name, socket.gethostname()):
        try:
            found = [entry[4][0] for entry in socket.getaddrinfo(known, None, socket.AF_INET)]
        except OSError:
            continue
        for text in found:
            if not text.startswith("127."):
                return text
    return name


if __name__ == "__main__":
    main()
