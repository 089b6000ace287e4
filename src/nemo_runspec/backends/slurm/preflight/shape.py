"""Checks a job's shape as Slurm would: its partitions, account and QoS, GPUs; and what exists instead."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nemo_runspec.backends.slurm.cluster import Answer, Section, whole
from nemo_runspec.backends.slurm.cluster.submit import explained
from nemo_runspec.backends.slurm.preflight import Draft, LoginRequest
from nemo_runspec.backends.slurm.preflight.login import has_slurm
from nemo_runspec.backends.slurm.values import gpus_in
from nemo_runspec.check import Check, CheckRequest, failed, ok, skipped, warning
from nemo_runspec.duration import span
from nemo_runspec.errors import UserError
from nemo_runspec.profiles.common import nodes_of

NOT_NOW = "configuration is not available"
"""`sbatch --test-only` says this also where nodes are only down; sbatch itself takes such a job (seen in 22.05)."""

_USABLE = ("idle", "mixed", "allocated", "completing", "planned")
_SOON = 120
"""Seconds of waiting that are not worth a word."""

_STATES = {"down": warning, "drain": failed, "inact": failed}
"""What a partition that is not up means: jobs wait in one that is down; the others take none (`man sinfo`)."""


def shape_checks(question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """A partition and a shape for each way to run that differs."""
    if not has_slurm(answer):
        yield from (skipped(name, "not checked: Slurm does not answer") for name in ("partition", "shape"))
        return
    for draft in request.drafts:
        of = f"{draft.role} " if len(request.drafts) > 1 else ""
        found = partition(f"{of}partition", draft.partition, answer)
        yield found
        yield _shape(f"{of}shape", draft, answer, known=found.verdict != "failed", question=question, request=request)
    yield from _build(question, answer)


def partition(name: str, wanted: str | None, answer: Answer) -> Check:
    """Checks whether the partitions a key names are there and up. Without a name, the cluster's default is meant."""
    if not wanted:
        return ok(name, "the cluster's default, as none is named")
    rows = {row[0]: row for row in answer["partitions"].rows if len(row) == 5}
    missing = [one for one in wanted.split(",") if one not in rows]
    if missing:
        error = explained("invalid partition specified", answer)
        return failed(name, f"there is no partition '{', '.join(missing)}'", error.remedy or "")
    for one in wanted.split(","):
        if rows[one][4] in _STATES:
            other = "wait until it is up, or set another partition"
            return _STATES[rows[one][4]](name, f"{one} is {rows[one][4]}", other)
    return ok(name, "; ".join(_about(rows[one], answer) for one in wanted.split(",")))


def _about(row: list[str], answer: Answer) -> str:
    name, limit, nodes, gres, _ = row
    states = ", ".join(f"{count} {state}" for one, count, state in _nodes(answer) if one == name)
    shown = (name, f"{nodes} nodes ({states})", f"up to {limit}", "" if gres == "(null)" else gres)
    return ", ".join(filter(None, shown))


def _nodes(answer: Answer) -> list[tuple[str, str, str]]:
    return [(row[0], row[1], row[2]) for row in answer["nodes"].rows if len(row) == 3]


def _shape(
    name: str, draft: Draft, answer: Answer, *, known: bool, question: CheckRequest, request: LoginRequest
) -> Check:
    """What `sbatch --test-only` says of the very options that a job would have."""
    if not known:
        return skipped(name, "not checked: the partition does not take jobs")
    section, note = answer[f"draft;{draft.role}"], ""
    # A wrong account or QoS is said elsewhere, and hides what else is wrong.
    hidden = any(check.verdict == "failed" for check in billing(question, request, answer))
    unbilled = answer[f"unbilled;{draft.role}"]
    if section.code and hidden and f"unbilled;{draft.role}" in answer:
        section, note = unbilled, ", but for account and QoS"
    if section.is_busy:
        return warning(name, "sbatch --test-only gave no answer in time", "the controller is busy: try again later")
    if section.code and (away := waits_for(section, draft, answer)):
        text = f"{described(question)}: not with the nodes that are up now ({away} are not)"
        return warning(name, text, "a job waits until they are back; sinfo -R tells why they are away")
    if section.code:
        error = refused(section, draft, answer)
        return failed(name, error.what, error.remedy or "", error.key)
    return ok(name, f"{described(question)}: Slurm takes it{note}{_start(section, answer)}")


def _start(section: Section, answer: Answer) -> str:
    """When it might start, where that is not now; `SLURM_TIME_FORMAT=%s` makes it seconds."""
    found = re.search(r"to start at ([0-9]{1,15}) ", f"{section.reason} ")
    wait = int(found.group(1)) - answer.ended if found else 0
    return f"; it would wait for some {span(60 * round(wait / 60))}" if wait >= _SOON else ""


def waits_for(section: Section, draft: Draft, answer: Answer) -> str:
    """How many of the partition's nodes are away, such as `1 of 4`; '' where Slurm does not say no just for that."""
    if NOT_NOW not in section.reason or too_many(draft, answer):
        return ""
    wanted = (draft.partition or "").split(",")
    nodes = [(whole(count) or 0, state) for one, count, state in _nodes(answer) if one in wanted or not draft.partition]
    if not nodes:
        return "some"  # sinfo gave no answer in time
    away = sum(count for count, state in nodes if state not in _USABLE)
    return f"{away} of {sum(count for count, _ in nodes)}" if away else ""


def refused(section: Section, draft: Draft, answer: Answer) -> UserError:
    """Why Slurm would take no such job, with what is known here of it."""
    error = explained(section.reason, answer)
    more = too_many(draft, answer) if NOT_NOW in section.reason else ""
    return UserError(f"{error.what}: {more}" if more else error.what, remedy=error.remedy, key=error.key)


def described(question: CheckRequest) -> str:
    """The shape in words."""
    env = question.env
    nodes, gpus = nodes_of(env), env.get("gpus_per_node")
    each = f" x {gpus} GPUs" if gpus else ", GPUs as the recipe asks" if gpus is None else ""
    return f"{nodes} node{'' if nodes == 1 else 's'}{each}, {env.get('time')}"


def _build(question: CheckRequest, answer: Answer) -> Iterator[Check]:
    wanted = question.env.get("build_partition")
    if wanted:
        yield partition("build partition", str(wanted), answer)


_ENFORCED = "AccountingStorageEnforce"


def billing(_question: CheckRequest, request: LoginRequest, answer: Answer) -> Iterator[Check]:
    """Both, as sacctmgr tells them."""
    account, qos = request.account, request.qos
    if not has_slurm(answer):
        yield from (skipped(name, "not checked: Slurm does not answer") for name in ("account", "QoS"))
    elif answer["accounts"].code:
        for name, value in (("account", account), ("QoS", qos)):
            yield skipped(name, f"{value or 'none is named'}; {_unknown(answer)}")
    else:
        yield _account(account, answer)
        yield _qos(account, qos, answer)


def _unknown(answer: Answer) -> str:
    """Why sacctmgr says nothing."""
    if _setting(answer, "AccountingStorageType").endswith("/none"):
        return "this cluster keeps no accounts, so that any is taken"
    return f"sacctmgr does not answer: {answer['accounts'].reason or 'no word'}"


def _account(wanted: str, answer: Answer) -> Check:
    mine, enforced = answer.column("accounts", 0), _enforced(answer, "associations")
    if wanted:
        return _own("account", wanted, mine, f"you may not use account '{wanted}'", enforced=enforced)
    default = answer["default"].said
    if default or not enforced:
        return ok("account", f"none is named; Slurm takes {default or 'any'}")
    return failed("account", "none is named, and you have no default account", _set("account", mine, "accounts"))


def _qos(account: str, wanted: str, answer: Answer) -> Check:
    everywhere = [row for row in answer["accounts"].rows if len(row) > 2]
    rows = [row for row in everywhere if account.casefold() in ("", row[0].casefold())]
    mine = list(dict.fromkeys(name for row in rows or everywhere for name in row[2].split(",") if name))
    if not wanted:
        return ok("QoS", f"none is named; {_listed(mine, 'QoS')}")
    exists = wanted.casefold() in map(str.casefold, answer["qos"].lines)
    text = f"you may not use QoS '{wanted}'" if exists else f"there is no QoS '{wanted}'"
    return _own("QoS", wanted, mine, text, enforced=_enforced(answer, "qos"))


def _own(name: str, wanted: str, mine: list[str], text: str, *, enforced: bool) -> Check:
    """Checks whether what is wanted is the user's; `text` where it is not."""
    if wanted.casefold() in map(str.casefold, mine):
        return ok(name, f"{wanted} is yours")
    kind = "accounts" if name == "account" else name
    return (failed if enforced else warning)(name, text, _set(name.lower(), mine, kind))


def _set(key: str, mine: list[str], kind: str) -> str:
    return f"set {key} in the profile; {_listed(mine, kind)}"


def _listed(mine: list[str], kind: str) -> str:
    return f"your {kind}: {', '.join(mine)}" if mine else "you have none: ask the site for one"


def _enforced(answer: Answer, what: str) -> bool:
    """True if Slurm refuses what is not so (`AccountingStorageEnforce` of slurm.conf); true where it is not told."""
    setting = _setting(answer, _ENFORCED)
    return not setting or what in setting.split(",") or "all" in setting.split(",")


def _setting(answer: Answer, name: str) -> str:
    return next((row[1].strip() for row in answer["config"].rows if row[0] == name), "")


_OPTION = re.compile(r"^#SBATCH --(gpus-per-node|gres)=(\S+)$", re.MULTILINE)


def too_many(draft: Draft, answer: Answer) -> str:
    """What is wrong where no node has so many; '' where one has, or where that is not known."""
    wanted, most = _wanted(draft), _most(draft, answer)
    if most is None or wanted <= most:
        return ""
    return f"{wanted} GPUs on a node are asked for, and none has more than {most}"


def _wanted(draft: Draft) -> int:
    options = [f"gpu:{count}" if name == "gpus-per-node" else count for name, count in _OPTION.findall(draft.script)]
    return max((gpus_in(gres) or 0 for gres in options), default=0)


def _most(draft: Draft, answer: Answer) -> int | None:
    """Out of sinfo's GRES, which stand in its rows whatever state the nodes are in (seen with 22.05)."""
    wanted = draft.partition.split(",") if draft.partition else answer.column("partitions", 0)
    rows = [row for row in answer["partitions"].rows if len(row) in (5, 6) and row[0] in wanted]
    return max((gpus_in(row[3]) or 0 for row in rows), default=None)
