"""Files on their way to a machine: whole or not at all, and never twice."""

from __future__ import annotations

import io
import os
import secrets
import shlex
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from nemo_runspec.digests import blocks_of, digest_of
from nemo_runspec.errors import UserError
from nemo_runspec.lines import text_lines
from nemo_runspec.spinner import uploading
from nemo_runspec.transport.base import Done, Host

_PUT = """\
set -eo pipefail
umask 077
folder={folder}
parent=${{folder%/*}}
mkdir -p -- "${{parent:-/}}"
if [ -d "$folder" ]; then beside=$folder; else beside=${{parent:-/}}; fi
new=$(mktemp -d -- "$beside/.put-XXXXXXXX")
trap 'rm -rf -- "$new"' EXIT
tar -x -p -m -o -f - -C "$new"
rm -- "$new/{last}"
if [ ! -e "$folder" ] && mv -T -- "$new" "$folder" 2>/dev/null; then exit 0; fi
cd -- "$new"
find . -type d -print0 | while IFS= read -r -d '' place; do
    mkdir -p -- "$folder/$place"
    find "$place" -mindepth 1 -maxdepth 1 ! -type d -exec mv -f -t "$folder/$place" -- {{}} +
done
"""
"""`last` is the archive's last member: tar takes one that was cut off between two members without a word."""

_PUT_FILE = """\
set -eo pipefail
umask 077
file={file}
parent=${{file%/*}}
mkdir -p -- "${{parent:-/}}"
new=$(mktemp -- "${{parent:-/}}/.put-XXXXXXXX")
trap 'rm -f -- "$new"' EXIT
cat >"$new"
size=$(wc -c <"$new")
if [ "$size" -ne {size} ]; then echo "$size of {size} bytes arrived" >&2; exit 1; fi
sum=$(sha256sum <"$new")
if [ "${{sum%% *}}" != {sha256} ]; then echo "what arrived is not what was sent" >&2; exit 1; fi
chmod {mode:o} -- "$new"
mv -f -T -- "$new" "$file"
"""

_PUT_FOLDER = """\
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

_SAME = """\
file={file}
[ -f "$file" ] && [ "$(wc -c <"$file")" -eq {size} ] && sum=$(sha256sum <"$file") && [ "${{sum%% *}}" = {sha256} ] &&
chmod {mode:o} -- "$file" && echo same
"""

_HAVE = """\
n=0
while IFS= read -r -d '' path; do
    case $path in "~/"*) path=$HOME/${path#??} ;; esac
    if [ -e "$path" ] || [ -L "$path" ]; then echo "$n"; fi
    n=$((n + 1))
done
"""


def there(path: str) -> str:
    """A path as a word of a script. `~/` at its beginning is the home directory there.

    Raises:
        ValueError: a relative path, which means another place to each script.
    """
    if path.startswith("~/"):
        return '"$HOME"/' + shlex.quote(path[2:])
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is neither absolute nor below ~/")
    return shlex.quote(path)


def put(host: Host, files: Mapping[str, tuple[bytes | Path, int]], folder: str, *, timeout: float = 300.0) -> None:
    """Puts many small files into a folder in one round trip. A folder that is new appears at once, as a whole.

    In a folder that is there, each file is replaced as a whole, and all of them only once everything has arrived.
    Folders are made for their owner only. A path that is a symbolic link here is the same link there.

    Args:
        files: path below the folder → content (bytes, or a file here) and mode, such as 0o600.
        folder: absolute, or below `~/`.
        timeout: seconds.

    Raises:
        Unreachable: as `Host.run`. What was there before is still there then.
        UserError: it cannot be written there, or a file here cannot be read.
    """
    last = f".whole-{secrets.token_hex(8)}"
    script = _PUT.format(folder=there(_trimmed(folder)), last=last)
    _check(host.run(script, data=_archive(files, last), timeout=timeout), host, folder)


def put_file(host: Host, path: Path, remote: str, mode: int = 0o600, *, timeout: float = 3600.0) -> bool:
    """Sends a large file, unless it is there already with the same content. False where nothing was sent.

    It is streamed into a file beside `remote`, its size and SHA-256 are compared, and only then it gets its name.

    Args:
        remote: the file's path there, absolute or below `~/`.
        timeout: seconds.

    Raises:
        Unreachable: as `Host.run`. What was there before is still there then.
        UserError: it cannot be written there, or cannot be read here, or has changed meanwhile.
    """
    try:
        size, sha256 = path.stat().st_size, digest_of(path)
    except OSError as error:
        raise _unreadable(path, error) from None
    names = {"file": there(remote), "size": size, "sha256": sha256, "mode": mode}
    if host.run(_SAME.format(**names), timeout=timeout).text.strip() == "same":
        return False
    _check(host.run(_PUT_FILE.format(**names), data=_blocks(path), timeout=timeout), host, remote)
    return True


def put_folder(host: Host, folder: Path, place: str, name: str) -> None:
    """Sends a folder without git's own data, readable for all, whole or not at all; what is there stays.

    Args:
        place: absolute.
        name: what it is, for a person.

    Raises:
        Unreachable: the connection broke; nothing of it is there.
        UserError: it cannot be written there, or be read here.
    """
    script = _PUT_FOLDER.format(place=there(place), last=_LAST)
    with _packed(folder) as blocks:
        done = host.run(script, data=uploading(blocks, name), timeout=3600.0)
    if done.code:
        raise UserError(f"{name} cannot be put there: {done.said}", where=f"{host.name}:{place}")


_LAST = ".whole.nemotron"


@contextmanager
def _packed(folder: Path) -> Iterator[Iterator[bytes]]:
    """The folder as a tar stream without git's own data; a mark comes last, as tar takes a stream cut short for whole.

    Raises:
        UserError: it cannot be read.
    """
    with TemporaryDirectory() as scratch:
        Path(scratch, _LAST).touch()
        command = ("tar", "-c", "-f", "-", "--exclude-vcs", "-C", str(folder), ".", "-C", scratch, _LAST)
        # macOS' own tar would add a file `._NAME` for each with extended attributes.
        bare = {**os.environ, "COPYFILE_DISABLE": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=bare) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            stream = process.stdout
            yield iter(lambda: stream.read(1 << 20), b"")
            reason = process.stderr.read().decode(errors="replace").strip()
            if process.wait():
                raise UserError(f"{folder} cannot be packed: {reason}", where=str(folder))


def have(host: Host, paths: Iterable[str], *, timeout: float = 60.0) -> set[str]:
    """Which of the paths are there, in one round trip; a link that leads nowhere is there.

    Args:
        paths: absolute, or below `~/`.
        timeout: seconds.

    Raises:
        Unreachable: as `Host.run`.
    """
    asked = list(paths)
    for path in asked:
        there(path)
    data = b"".join(os.fsencode(path) + b"\0" for path in asked)
    done = host.run(_HAVE, data=data, timeout=timeout)
    _check(done, host, "files")
    return {asked[int(number)] for number in done.text.split()}


def _check(done: Done, host: Host, place: str) -> None:
    if done.code:
        said = text_lines(done.said)
        raise UserError(
            f"{place} cannot be written on {host.name}: {said[-1] if said else f'exit status {done.code}'}",
            remedy="check that the folder is yours there, and space and quota",
        )


def _trimmed(folder: str) -> str:
    return folder.rstrip("/") or "/"


def _archive(files: Mapping[str, tuple[bytes | Path, int]], last: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT, errors="surrogateescape") as tar:
        for name, (source, mode) in files.items():
            if name.startswith("/") or ".." in name.split("/") or not name.strip("./"):
                raise ValueError(f"{name!r} is no file below a folder")
            _add(tar, name, source, mode)
        _add(tar, last, b"", 0o600)
    return out.getvalue()


def _add(tar: tarfile.TarFile, name: str, source: bytes | Path, mode: int) -> None:
    if isinstance(source, Path) and source.is_symlink():
        add_member(tar, name, b"", mode, kind=tarfile.SYMTYPE, linkname=os.readlink(source))  # noqa: PTH115
        return
    add_member(tar, name, source if isinstance(source, bytes) else _read(source), mode)


def add_member(
    tar: tarfile.TarFile,
    name: str,
    content: bytes,
    mode: int,
    *,
    changed: int = 0,
    kind: bytes = tarfile.REGTYPE,
    linkname: str = "",
) -> None:
    """Adds what lies in memory, or a folder, or a link. `changed`: seconds since 1970; `kind`: of tarfile."""
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.mtime, member.type, member.linkname = len(content), mode, changed, kind, linkname
    tar.addfile(member, io.BytesIO(content))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read: {error.strerror or error}")


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        yield from blocks_of(path)
    except OSError as error:
        raise _unreadable(path, error) from None
