"""The job-side programs as a pod runs them, and what they are told."""

from __future__ import annotations

import json
import os
import random
import ssl
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from nemo_runspec.backends.cloud.code.upload import data_program
from nemo_runspec.backends.cloud.storage.s3 import S3, Keys

PYTHON = os.environ.get("JOB_PYTHON", sys.executable)
"""An interpreter of a job's image; JOB_PYTHON names an older one."""


def client(lab: Any, **settings: Any) -> S3:
    """A client with the lab's keys."""
    return S3(Keys(lab.access_key, lab.secret_key), lab.endpoint, lab.region, **settings)


def noise(size: int, seed: int = 1) -> bytes:
    """Bytes that do not compress and do not repeat."""
    return random.Random(seed).randbytes(size)


@dataclass
class Ended:
    """What a run of the program said."""

    code: int
    out: str
    err: str


class Pod:
    """A job's directory with the programs in it, and a mount beside it."""

    def __init__(self, folder: Path, lab: Any) -> None:
        self.lab = lab
        self.job = folder / "mount" / "jobs" / "job-1"
        self.cache = folder / "mount" / "s3"
        self.folder = folder
        self.job.mkdir(parents=True)
        (self.job / "data.pyz").write_bytes(data_program())

    def start(
        self, action: str, *options: str, env: dict[str, str] | None = None, **told: Any
    ) -> subprocess.Popen[str]:
        """Starts `data.pyz`; `told` is its data.json, beyond the service. `env` replaces the keys."""
        told = {
            "job": "job-1",
            "endpoint": self.lab.endpoint,
            "region": self.lab.region,
            "cache": str(self.cache),
            **told,
        }
        options_file = self.job / f"data-{random.randrange(10**9)}.json"
        options_file.write_text(json.dumps(told))
        keys = {"ACCESS_KEY": self.lab.access_key, "SECRET_KEY": self.lab.secret_key} if env is None else env
        return subprocess.Popen(
            [PYTHON, str(self.job / "data.pyz"), action, str(options_file), *options],
            env={"PATH": os.environ["PATH"], "LC_ALL": "C", **keys},
            cwd="/",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run(self, action: str, *options: str, env: dict[str, str] | None = None, **told: Any) -> Ended:
        """Runs it to its end; what it says never has a key."""
        return ended(self.start(action, *options, env=env, **told), self.lab)

    def get(self, path: Path, url: str, **told: Any) -> Ended:
        """Fetches one input."""
        return self.run("get", inputs={str(path): url}, **told)

    def parts(self) -> list[Path]:
        """What is not whole."""
        left = [each for each in self.folder.rglob("*") if each.name.endswith((".partial", ".parts"))]
        return [each for each in left if not each.is_dir() or any(each.iterdir())]


def ended(process: subprocess.Popen[str], lab: Any) -> Ended:
    """Waits for a process that was started."""
    out, err = process.communicate(timeout=240)
    assert lab.secret_key not in out + err and lab.access_key not in out + err
    assert "Traceback" not in err, err
    return Ended(process.returncode, out, err)


def self_signed(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """A certificate for 127.0.0.1 that nobody trusts, and a server's context with it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    dates = [datetime(year, 1, 1, tzinfo=timezone.utc) for year in (2020, 2100)]
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, *dates).add_extension(names, critical=True)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    certificate, both = folder / "certificate.pem", folder / "both.pem"
    certificate.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(pem))
    both.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + certificate.read_bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(both)
    return certificate, context
