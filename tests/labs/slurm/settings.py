"""What the daemons of a lab are told: slurm.conf and the files beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

CPUS, MEMORY_MB, GPUS = 64, 1_000_000, 8
"""What every node claims to have."""

_SLURM_CONF = """\
ClusterName=lab
SlurmctldHost=login({login})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job waits until its first credential has expired: 120 s where nothing is said.
AuthInfo=socket={base}/run/munge/munge.socket.2,cred_expire=5
CredType=cred/munge
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/nodes/%n/spool
SlurmctldPidFile={base}/run/slurmctld.pid
SlurmdPidFile={base}/nodes/%n/slurmd.pid
SlurmctldLogFile={base}/log/slurmctld.log
SlurmdLogFile={base}/log/%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=1
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
InactiveLimit=0
KillWait=2
MinJobAge=3600
SlurmctldTimeout=30
SlurmdTimeout={node_timeout}
EnforcePartLimits=ALL
JobRequeue=1
PlugStackConfig={base}/etc/plugstack.conf
GresTypes=gpu
NodeName=DEFAULT CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
{nodes}
PartitionName=DEFAULT Nodes=ALL State=UP PriorityTier=10 PreemptMode=OFF
PartitionName=batch Default=YES MaxTime=7-00:00:00
PartitionName=interactive MaxTime=04:00:00 MaxNodes=2
PartitionName=cpu MaxTime=1-00:00:00
PartitionName=backfill MaxTime=7-00:00:00 PriorityTier=1 PreemptMode=REQUEUE
"""
_WITH_ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={login}
AccountingStoragePort=6819
AccountingStoragePass={base}/run/munge/munge.socket.2
AccountingStorageTRES=gres/gpu
AccountingStorageEnforce=associations,qos,limits
"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
AuthInfo=socket={base}/run/munge/munge.socket.2
DbdHost=login
DbdAddr={login}
DbdPort=6819
SlurmUser=root
LogFile={base}/log/slurmdbd.log
PidFile={base}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=3306
StorageUser=slurm
StoragePass=lab
StorageLoc=slurm_acct_db
"""
ACCOUNTS = """\
add cluster lab
modify qos normal set priority=10
add qos short priority=100 maxwall=00:10:00 flags=denyonlimit
add qos huge priority=1
add account acme description=acme organization=lab
add account idle description=idle organization=lab
add user root account=acme defaultaccount=acme qos=normal,short
add user ana account=acme defaultaccount=acme qos=normal,short
"""
"""Commands of sacctmgr. `acme` is the account to use; `idle` has no users; nobody may use the QoS `huge`."""


@dataclass(frozen=True)
class Settings:
    """What a lab's files depend on.

    Args:
        login: the login node's address. `addresses`: those of the compute nodes, by name.
        node_timeout: seconds of silence after which a node is set DOWN; a job on it ends soon after.
        plugin: the compiled SPANK plugin.
    """

    base: Path
    login: str
    outer: str
    addresses: dict[str, str]
    accounting: bool
    node_timeout: int
    plugin: Path

    def write(self) -> None:
        """Writes all files into `base/etc`; `hosts` in place, as it is mounted in every machine."""
        etc = self.base / "etc"
        (etc / "hosts").write_text(self._hosts())
        (etc / "slurm.conf").write_text(self._slurm_conf())
        (etc / "gres.conf").write_text(self._gres_conf())
        (etc / "plugstack.conf").write_text(
            f"required {self.plugin} registry={self.base}/registry state={self.base}/containers\n"
        )
        dbd = etc / "slurmdbd.conf"
        dbd.touch(mode=0o600)
        dbd.write_text(_SLURMDBD_CONF.format(base=self.base, login=self.login))

    def _slurm_conf(self) -> str:
        nodes = "\n".join(f"NodeName={name} NodeAddr={address}" for name, address in self.addresses.items())
        text = _SLURM_CONF + (_WITH_ACCOUNTING if self.accounting else "")
        return text.format(
            base=self.base, login=self.login, node_timeout=self.node_timeout, nodes=nodes,
            cpus=CPUS, memory=MEMORY_MB, gpus=GPUS,
        )  # fmt: skip

    def _gres_conf(self) -> str:
        return f"NodeName={','.join(self.addresses)} Name=gpu File={self.base}/dev/nvidia[0-{GPUS - 1}]\n"

    def _hosts(self) -> str:
        known = {"localhost": "127.0.0.1", "login": self.login, "outside": self.outer, **self.addresses}
        return "".join(f"{address} {name}\n" for name, address in known.items())


def write_users(base: Path, users: Sequence[str]) -> None:
    """Writes `passwd` and `group` of the cluster's machines, where root's home is `home/root`.

    Args:
        users: exist on those machines only; their user ids count from 2001.
    """
    etc = base / "etc"
    home = base / "home" / "root"
    home.mkdir(parents=True)
    kept = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    lines = [f"root:x:0:0:root:{home}:/bin/bash", *kept]
    groups = Path("/etc/group").read_text().splitlines()
    for number, user in enumerate(users, 2001):
        lines.append(f"{user}:x:{number}:{number}:{user}:{_home(base, user, number)}:/bin/bash")
        groups.append(f"{user}:x:{number}:")
    (etc / "passwd").write_text("\n".join(lines) + "\n")
    (etc / "group").write_text("\n".join(groups) + "\n")


def _home(base: Path, user: str, number: int) -> Path:
    home = base / "home" / user
    home.mkdir()
    os.chown(home, number, number)
    return home
