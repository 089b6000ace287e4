"""Whether the account and the QoS exist and this user may use them, and what exists instead."""

from __future__ import annotations

from collections.abc import Iterator

from nemo_runspec.backends.slurm.preflight.asking import Answer, Asked
from nemo_runspec.backends.slurm.preflight.login import has_slurm
from nemo_runspec.doctor.check import Check, Question, failed, ok, skipped, warning

_ENFORCED = "AccountingStorageEnforce"


def checks(_question: Question, asked: Asked, answer: Answer) -> Iterator[Check]:
    """Both, as sacctmgr tells them."""
    account, qos = asked.account, asked.qos
    if not has_slurm(answer):
        yield from (skipped(name, "not checked: Slurm does not answer") for name in ("account", "QoS"))
    elif answer["accounts"].code:
        because = _unknown(answer)
        yield from (
            skipped(name, f"{value or 'none is named'}; {because}")
            for name, value in (("account", account), ("QoS", qos))
        )
    else:
        yield _account(account, answer)
        yield _qos(account, qos, answer)


def _unknown(answer: Answer) -> str:
    """Why sacctmgr says nothing."""
    if _setting(answer, "AccountingStorageType").endswith("/none"):
        return "this cluster keeps no accounts, so that any is taken"
    return f"sacctmgr does not answer: {answer['accounts'].reason or 'no word'}"


def _account(wanted: str, answer: Answer) -> Check:
    mine = answer.column("accounts", 0)
    shown = f"your accounts: {', '.join(mine)}" if mine else "you have none: ask the site for one"
    if not wanted:
        default = answer["default"].said
        if default or not _enforced(answer, "associations"):
            return ok("account", f"none is named; Slurm takes {default or 'any'}")
        return failed(
            "account", "none is named, and you have no default account", f"set account in the profile; {shown}"
        )
    if wanted.casefold() in map(str.casefold, mine):
        return ok("account", f"{wanted} is yours")
    verdict = failed if _enforced(answer, "associations") else warning
    return verdict("account", f"you may not use account '{wanted}'", f"set account in the profile; {shown}")


def _qos(account: str, wanted: str, answer: Answer) -> Check:
    whole = [row for row in answer["accounts"].rows if len(row) > 2]
    rows = [row for row in whole if account.casefold() in ("", row[0].casefold())]
    mine = list(dict.fromkeys(name for row in rows or whole for name in row[2].split(",") if name))
    shown = f"your QoS: {', '.join(mine)}" if mine else "you have none: ask the site for one"
    if not wanted:
        return ok("QoS", f"none is named; {shown}")
    if wanted.casefold() in map(str.casefold, mine):
        return ok("QoS", f"{wanted} is yours")
    exists = wanted.casefold() in map(str.casefold, answer["qos"].lines)
    seen = f"you may not use QoS '{wanted}'" if exists else f"there is no QoS '{wanted}'"
    verdict = failed if _enforced(answer, "qos") else warning
    return verdict("QoS", seen, f"set qos in the profile; {shown}")


def _enforced(answer: Answer, what: str) -> bool:
    """Whether Slurm refuses what is not so (`AccountingStorageEnforce` of slurm.conf); true where it is not told."""
    setting = _setting(answer, _ENFORCED)
    return not setting or what in setting.split(",") or "all" in setting.split(",")


def _setting(answer: Answer, name: str) -> str:
    return next((row[1].strip() for row in answer["config"].rows if row[0] == name), "")
