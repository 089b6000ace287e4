"""What a health check could not finish: a job that it has put back and held, and whose batch script was killed then.

The check does all of it itself, see `batch.sh`, in some 20 ms of the time that Slurm leaves a batch script (KillWait).
Where that was too short, the file `status/held` in the job's directory says which nodes the job is to stay away from.
"""

from __future__ import annotations

import shlex

from nemo_runspec.backends.slurm.cluster.answer import PRELUDE, read_sections
from nemo_runspec.backends.slurm.cluster.job import Asked
from nemo_runspec.errors import UserError
from nemo_runspec.transport.base import Host

_SCRIPT = """
[ -s "$held" ] || exit 0
nodes=$(cat "$held")
said=$(timeout 20 squeue --noheader --states=all --jobs="$id" --format=$'%F\037%T\037%r') || exit 1
state=$(sed -n "s/^${id%%_*}\x1f//p" <<< "$said" | tail -n 1)
case $state in
  PENDING$'\037'JobHeldUser)
    timeout 20 scontrol update "JobId=$id" "ExcNodeList=$nodes" && timeout 20 scontrol release "$id" || exit 1
    ;;
  '' | COMPLETING*) exit 0 ;;
esac
rm -f "$held"
section excluded 0 "$nodes"
"""


def exclude_and_release(host: Host, job: Asked) -> str:
    """Lets a job go on that its health check has left held, without the bad nodes. It may be called at any time.

    Returns:
        The nodes that the job stays away from now, such as `n2,n5`; '' where there was nothing to do.

    Raises:
        UserError: Slurm does not answer, or refuses. Unreachable: the host does not answer.
    """
    words = (f"id={shlex.quote(job.id.partition(';')[0])}", f"held={shlex.quote(job.job_dir)}/status/held")
    done = host.run("\n".join((PRELUDE, *words, _SCRIPT)))
    if done.code:
        said = done.said or "Slurm does not answer"
        raise UserError(
            f"job {job.id} is held after its health check, and cannot be released: {said}",
            where=host.name,
            remedy=f"scontrol release {job.id}",
        )
    return next((section.said for section in read_sections(done.text) if section.name == "excluded"), "")
