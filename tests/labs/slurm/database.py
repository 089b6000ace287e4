"""MariaDB for slurmdbd.

The first lab's database, accounts and all, is kept as a tar in the tests' cache (96 MB), as making it takes longer than
all the rest together.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from labs.cache import CACHE
from labs.slurm.process import CLEAN, LabError

_USERS = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER slurm@localhost IDENTIFIED BY 'lab';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
FLUSH PRIVILEGES;
"""


def command(base: Path) -> list[str]:
    """The command line of a MariaDB that answers on its namespace's own 127.0.0.1."""
    (base / "etc" / "users.sql").write_text(_USERS)
    return [
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={base}/database", f"--socket={base}/run/database",
        f"--pid-file={base}/run/mariadbd.pid", _own_temporary(base), "--bind-address=127.0.0.1", "--port=3306",
        "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900", "--skip-log-bin", "--performance-schema=OFF",
        f"--init-file={base}/etc/users.sql",
    ]  # fmt: skip


def ready(base: Path) -> bool:
    """True once it answers."""
    ping = ["mariadb-admin", "--no-defaults", f"--socket={base}/run/database", "--user=root", "ping"]
    return subprocess.run(ping, capture_output=True, env=CLEAN, check=False).returncode == 0


@contextmanager
def kept(accounts: str) -> Iterator[Path]:
    """The tar of a database with these accounts, which may not exist yet; locked until the end."""
    CACHE.mkdir(parents=True, exist_ok=True)
    versions = subprocess.check_output(["dpkg-query", "--show", "mariadb-server", "slurmdbd"])
    digest = hashlib.sha256(versions + accounts.encode() + _USERS.encode()).hexdigest()[:12]
    with (CACHE / "slurm-database.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield CACHE / f"slurm-database-{digest}.tar"


def make(base: Path) -> None:
    """Makes an empty database.

    Raises:
        LabError: it could not be made, with what was said.
    """
    done = subprocess.run(
        ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={base}/database", "--skip-test-db",
         "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M", _own_temporary(base)],
        capture_output=True, env=CLEAN, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise LabError(f"mariadb-install-db ended with {done.returncode}:\n{done.stdout}{done.stderr}")


def _own_temporary(base: Path) -> str:
    """A server that starts deletes every `#sql*` in its temporary folder: in /tmp, other labs' servers lost theirs."""
    folder = base / "database.tmp"
    folder.mkdir(exist_ok=True)
    return f"--tmpdir={folder}"


def pack(data: Path, tar: Path) -> None:
    """Keeps a database that is not running."""
    new = tar.with_suffix(".new")
    subprocess.run(["tar", "--create", "--sparse", "--file", str(new), "--directory", str(data), "."], check=True)
    new.replace(tar)


def unpack(tar: Path, data: Path) -> None:
    """Makes a database from one that was kept."""
    data.mkdir()
    subprocess.run(["tar", "--extract", "--file", str(tar), "--directory", str(data)], check=True)
