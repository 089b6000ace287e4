"""Repositories of `${auto_mount:…}` on their way into a job's directory on the cluster: one commit, no history."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nemo_runspec.errors import UserError
from nemo_runspec.planning.model import AutoMount
from nemo_runspec.remote.provider import Say
from nemo_runspec.transport.base import Host

_SECONDS = 3600.0
_BLOCK = 1 << 20
_SCRIPT = """\
set -eo pipefail
place={place}
if [ -d "$place" ]; then exit 0; fi
umask 022
mkdir -p -- "${{place%/*}}"
new=$(mktemp -d -- "${{place%/*}}/.new-XXXXXXXX")
trap 'rm -rf -- "$new"' EXIT
tar -x -o -f - -C "$new"
[ -e "$new/{last}" ] || {{ echo "they did not arrive whole" >&2; exit 1; }}
rm -- "$new/{last}"
chmod 755 "$new"
mv -T -- "$new" "$place"
"""
_LAST = ".whole.nemotron"


def send_mounts(host: Host, job_dir: str, mounts: Sequence[AutoMount], say: Say) -> None:
    """Puts what is mounted below the job's directory; what is there stays. One round trip for each.

    Raises:
        UserError: it cannot be written there. Unreachable: the connection broke; nothing of that one is there.
    """
    for mount in {mount.there: mount for mount in mounts if mount.there}.values():
        place = f"{job_dir}/{mount.there}"
        say(f"sending {mount.url} at {(mount.commit or mount.ref)[:12]} to {host.name}")
        with _packed(Path(mount.path)) as blocks:
            done = host.run(_SCRIPT.format(place=shlex.quote(place), last=_LAST), data=blocks, timeout=_SECONDS)
        if done.code:
            raise UserError(f"{mount.url} cannot be put there: {done.said}", where=f"{host.name}:{place}")


@contextmanager
def _packed(folder: Path) -> Iterator[Iterator[bytes]]:
    """The folder as a tar stream without git's own data; a mark comes last, as tar takes a stream cut short for whole.

    Raises:
        UserError: it cannot be read.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, _LAST).touch()
        words = ("tar", "-c", "-f", "-", "--exclude-vcs", "-C", str(folder), ".", "-C", scratch, _LAST)
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            stream = process.stdout
            yield iter(lambda: stream.read(_BLOCK), b"")
            said = process.stderr.read().decode(errors="replace").strip()
            if process.wait():
                raise UserError(f"{folder} cannot be packed: {said}", where=str(folder))
