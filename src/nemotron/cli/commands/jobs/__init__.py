"""`nemotron jobs`: what has run and what runs, from any directory. A module for each command, or for a few."""

from __future__ import annotations

from nemo_runspec.records.cancel_request import GRACE
from nemotron.cli.click import Command, Parameter, TyperOption
from nemotron.cli.commands.jobs import (
    act,
    cloud,
    compare,
    complete,
    cost,
    forward,
    listing,
    logs,
    pull,
    ray,
    remove,
    retry,
    show,
    ssh,
    status,
)
from nemotron.cli.commands.jobs.output import sort_option
from nemotron.cli.commands.jobs.selector import conditions, everything, selecting, yes
from nemotron.cli.forms import formed, output_options
from nemotron.cli.parameters import argument, command, group, option
from nemotron.cli.text import literal

_JOB = "A job's name, the beginning or the last part of it, or 'last'; of a sweep or a pipeline that is its newest job."
_JOB_OR_SWEEP = "A name of a job, a sweep or a pipeline, the beginning or the last part of it, or 'last', the newest."
_JOBS = "Names of jobs, sweeps and pipelines, beginnings or last parts of them, or 'last', the newest."

_LIST = (
    "Every job, the newest first; a sweep or a pipeline is one line.\n\n"
    "With --state, --group, --sort, -o wide or csv each job of it has a line of its own. --json and -o yaml list "
    "every job, sweep and pipeline ('kind' says which is which) unless --limit is given."
)

_SHOW = (
    "One job: states with times, cause of failure, metrics, where its files lie.\n\n"
    "Of a sweep, the table of its runs, the best one first; of a pipeline, its steps."
)

_STATUS = (
    "How jobs are now: platforms are asked, one question per machine.\n\n"
    "With --watch the table renews itself until all are over; piped, each change is a line.\n\n"
    "Without names and conditions every job that is not over. 'list' and 'show' say what was last known and ask nobody."
)

_COMPARE = (
    "Jobs side by side: state, time, GPU-hours and the last value of each metric, then the values that differ.\n\n"
    "A sweep or a pipeline stands for all of its jobs."
)

_COST = (
    "GPU-hours that jobs have used: their GPUs, for as long as they ran, failed attempts included.\n\n"
    "The last column is what jobs have used that did not succeed."
)

_SSH = (
    "A shell in a running job, beside its command: with its variables, in its directory and container, on its first "
    "node or on the one named.\n\n"
    "With -- COMMAND that is run instead, without a terminal where nemotron has none. The exit code is that of the "
    "shell or the command; the job goes on."
)

_COMMAND = "What to run instead of a shell, after --, such as: -- nvidia-smi."

_LOGS = (
    "What a job has written.\n\n"
    "With -f until the job is over; Ctrl-C only stops following. Exit code 0, 130 after Ctrl-C: how the job "
    "itself ended is said on the error stream, and is the exit code of nemotron jobs wait."
)

_WAIT = (
    "Waits until jobs, sweeps and pipelines are over: those that are named, those that meet the conditions, over "
    "already or not, or with --all those that are not over.\n\n"
    "Exit code: its own, of several the first that is not 0 in the order they are named; 1 for "
    "one without, such as a lost one, 124 when the time of --timeout is up, 130 after Ctrl-C. "
    "The jobs go on in both cases."
)

_STOP = (
    "Ends jobs: TERM, some time, KILL. Jobs that are over stay as they are. A sweep starts no more runs, a pipeline "
    "no more steps.\n\n"
    "With conditions instead of names all that meet them and are not over; a terminal is asked first, elsewhere -y is "
    "needed.\n\n"
    "What their platforms keep of them stays: their records, logs and events there. "
    "Exit code: 0 when all are over, 2 where one could not be ended."
)

_CANCEL = (
    "Ends jobs as 'stop' does. What a cloud keeps of them is then deleted there, and said line by line.\n\n"
    "With conditions instead of names all that meet them and are not over; a terminal is asked first, elsewhere -y is "
    "needed. A job's log is fetched first, and its record here stays. "
    "A job that has succeeded or failed stays as it is. "
    "Exit code: 0 when all are over, 2 where one could not be ended."
)

_EVENTS = "What a job's platform has written down about it, the oldest first."

_REPLICAS = "The pods of a job: where each runs, and why one does not yet."

_DIAGNOSE = (
    "Why a job has failed, or does not start: kind, cause, what shows it, what to do, exit code.\n\n"
    "Kinds: user code, out of memory, image, capacity, credentials, node, eviction, storage; on Slurm some more."
)

_RETRY = (
    "Runs a job again: its stored plan on its stored package, under a new name.\n\n"
    "Of a sweep, only the runs that have failed or are lost; they take the places of the old ones in it. "
    "A pipeline goes on by its own command. "
    "Exit code: that of the new run, of several the first that is not 0.\n\n"
    "Of several names, or with conditions, each is submitted anew and left alone. Conditions mean jobs and sweeps that "
    "have failed or are lost, unless --state says otherwise; in a terminal that is asked first (-y does not ask)."
)

_PULL = (
    "Brings what a job has made here, from the machine that sees its files.\n\n"
    "What is here already, with the same size and time, is not read again, and what was half here goes on. "
    "The folders are said on standard output."
)

_WHAT = "outputs (by default), checkpoints, logs, the name of an output, or a path, below the job's directory or whole."

_FORWARD = (
    "Lets a port of this machine lead to one of a running job's node, such as Ray's dashboard, until Ctrl-C.\n\n"
    "What listens there must do so on the node's own address (0.0.0.0), not on its 127.0.0.1 alone."
)

_RAY = (
    "The Ray cluster of a job: its nodes with their resources, and the actors, tasks and placement groups on each.\n\n"
    "With --dashboard a port of this machine leads to Ray's dashboard, which listens on node 0's loopback alone, until "
    "Ctrl-C. Where it asks for the cluster's token, the file that has it is named."
)

_RM = (
    "Removes jobs that are over: their records, logs and files. What they have put elsewhere stays.\n\n"
    "Named jobs are removed together or, where one is not over, not at all; a sweep or a pipeline with all of its "
    "jobs. With conditions instead of names all jobs that meet them and are over, and sweeps and pipelines of which no "
    "job is left then."
)


def make(help_text: str) -> Command:
    """The group."""
    as_json = option("--json", "Machine-readable output.")
    return group(
        "jobs",
        help_text,
        *_looking(),
        *_following(as_json),
        *_ending_jobs(as_json),
        *_reaching(as_json),
        _removal(as_json),
    )


def _looking() -> tuple[Command, ...]:
    """How jobs are, and were."""
    return (
        command(
            "list", _LIST, selecting(formed(listing.call)), *conditions(), *_amount(), sort_option(), *output_options()
        ),
        command(
            "show",
            _SHOW,
            formed(show.call),
            argument("job", _JOB_OR_SWEEP, complete=complete.jobs_and_groups),
            _sort(),
            option("--script", "The exact texts that were sent, and nothing else."),
            *output_options(),
        ),
        command(
            "status",
            _STATUS,
            selecting(formed(status.call)),
            _jobs(required=False),
            *conditions(),
            _watch(),
            sort_option(),
            *output_options(),
        ),
        command("compare", _COMPARE, formed(compare.call), _jobs(), *output_options()),
        command(
            "cost",
            _COST,
            selecting(formed(cost.call)),
            option("--by", f"{', '.join(cost.BY)}; by default {cost.USUAL}.", value="KEY", complete=cost.complete_by),
            *conditions(),
            *output_options(),
        ),
    )


def _following(as_json: Parameter) -> tuple[Command, ...]:
    """What one says, and why."""
    return (
        command("logs", _LOGS, logs.call, _job(), _follow(), _number("--tail", "Only the last N lines."), _platform()),
        command(
            "wait",
            _WAIT,
            selecting(act.wait),
            *_chosen(),
            option("--timeout", "Wait no longer than this, such as 10m.", value="TIME"),
            as_json,
        ),
        command("events", _EVENTS, cloud.events, _job(), as_json),
        command("replicas", _REPLICAS, cloud.replicas, _job(), as_json),
        command(
            "ray",
            _RAY,
            ray.call,
            _job(),
            option("--dashboard", "Lead a port of this machine to its dashboard, until Ctrl-C."),
            as_json,
        ),
        command("diagnose", _DIAGNOSE, cloud.diagnose, _job(), as_json),
    )


def _ending_jobs(as_json: Parameter) -> tuple[Command, ...]:
    """What ends jobs, or begins them again."""
    return (
        command("stop", _STOP, selecting(act.stop), *_ending(), as_json),
        command("cancel", _CANCEL, selecting(act.cancel), *_ending(), as_json),
        command(
            "retry",
            _RETRY,
            selecting(retry.retry),
            *_chosen("All that have failed or are lost."),
            yes(),
            as_json,
        ),
    )


def _reaching(as_json: Parameter) -> tuple[Command, ...]:
    """Ways to a job's node and files."""
    return (
        command(
            "ssh",
            _SSH,
            ssh.call,
            _job(),
            argument("command", _COMMAND, required=False, many=True),
            option(
                "--node", "The node by its number, or as the platform names it; by default the first.", value="NODE"
            ),
        ),
        command(
            "pull",
            _PULL,
            pull.call,
            _job(),
            argument("what", _WHAT, required=False, complete=complete.what),
            option("--to", "The folder; by default one with the job's name, here.", value="DIR"),
            option("--dry-run", "Say what it is and how much; bring nothing."),
            as_json,
        ),
        command(
            "forward",
            _FORWARD,
            forward.call,
            _job(),
            argument("ports", "PORT of the job's node, or PORT-HERE:PORT-THERE, such as 8265 or 9000:8265."),
            option("--node", "The node, as the scheduler names it; by default the first.", value="NODE"),
        ),
    )


def _removal(as_json: Parameter) -> Command:
    return command("rm", _RM, selecting(remove.call), _jobs(required=False), *_rm_options(), *conditions(), as_json)


def _job() -> Parameter:
    return argument("job", _JOB, complete=complete.jobs)


def _jobs(*, required: bool = True) -> Parameter:
    return argument("jobs", _JOBS, complete=complete.jobs_and_groups, many=True, required=required)


def _chosen(all_of_them: str = "All that are not over.") -> list[Parameter]:
    return [_jobs(required=False), everything(all_of_them), *conditions()]


def _ending() -> list[Parameter]:
    return [*_chosen(), _grace(), yes()]


def _amount() -> list[Parameter]:
    return [_number("--limit", f"At most N lines; {listing.USUAL} without --limit or --all."), everything()]


def _rm_options() -> list[Parameter]:
    return [
        option("--force", "Also jobs whose state is unknown or whose record cannot be read."),
        option("--dry-run", "Say what would be removed; remove nothing."),
    ]


def _sort() -> Parameter:
    return option("--sort", "A sweep's runs by this metric, overridden key, 'time' or 'index'.", value="KEY")


def _grace() -> Parameter:
    return option("--grace", f"Seconds between TERM and KILL, {GRACE:g} by default.", value="S")


def _follow() -> Parameter:
    return TyperOption(
        param_decls=["follow", "-f", "--follow"],
        type=bool,
        is_flag=True,
        default=False,
        help="Go on until the job is over.",
    )


def _watch() -> Parameter:
    return TyperOption(
        param_decls=["watch", "-w", "--watch"],
        type=bool,
        is_flag=True,
        default=False,
        help="Go on until all are over; the exit code is that of 'wait'.",
    )


def _platform() -> Parameter:
    return option("--platform", "What the platform wrote about the job instead, such as Slurm's batch log.")


def _number(long: str, help_text: str) -> Parameter:
    return TyperOption(
        param_decls=[long.lstrip("-"), long], type=int, default=None, metavar="N", help=literal(help_text)
    )
