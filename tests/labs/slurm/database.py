"""MariaDB for slurmdbd: made once and kept as a tar in the tests' cache, as making it takes longer than all the rest."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from labs.slurm.process import CLEAN

_USERS = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE OR REPLACE USER slurm@localhost IDENTIFIED BY 'lab';
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
FLUSH PRIVILEGES;
"""


def unpack(data: Path) -> None:
    """Fills `data` with an empty database's files."""
    data.mkdir()
    subprocess.run(["tar", "--extract", "--file", str(_empty_database()), "--directory", str(data)], check=True)


def command(base: Path) -> list[str]:
    """The command line of a MariaDB that answers on its namespace's own 127.0.0.1."""
    return [
        "mariadbd", "--no-defaults", "--user=root", f"--datadir={base}/database", f"--socket={base}/run/database",
        f"--pid-file={base}/run/mariadbd.pid", "--bind-address=127.0.0.1", "--port=3306",
        "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0",
        "--innodb-lock-wait-timeout=900", "--skip-log-bin", "--performance-schema=OFF", "--skip-name-resolve=OFF",
        f"--init-file={_init_file(base)}",
    ]  # fmt: skip


def ready(base: Path) -> bool:
    """True once it answers."""
    ping = ["mariadb-admin", "--no-defaults", f"--socket={base}/run/database", "--user=root", "ping"]
    return subprocess.run(ping, capture_output=True, env=CLEAN, check=False).returncode == 0


def _init_file(base: Path) -> Path:
    file = base / "etc" / "users.sql"
    file.write_text(_USERS)
    return file


def _empty_database() -> Path:
    cache = Path(os.environ.get("NEMOTRON_TEST_CACHE", Path.home() / ".cache" / "nemotron-tests"))
    cache.mkdir(parents=True, exist_ok=True)
    version = subprocess.run(["mariadbd", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    made = cache / f"mariadb-{version}.tar"
    with (cache / "mariadb.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            _make(made)
    return made


def _make(target: Path) -> None:
    scratch = Path(tempfile.mkdtemp(prefix="nemo-db-"))
    try:
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={scratch}/data", "--skip-test-db",
             "--auth-root-authentication-method=normal", "--innodb-log-file-size=8M"],
            check=True, capture_output=True, env=CLEAN,
        )  # fmt: skip
        new = target.with_suffix(".new")
        subprocess.run(["tar", "--create", "--file", str(new), "--directory", f"{scratch}/data", "."], check=True)
        new.replace(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
