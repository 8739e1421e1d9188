"""The accounts of the ledger in words: their names, what they mean, and which of them hold nothing."""

from collections.abc import Mapping, Sequence

from redline.findings.match import COMPUTE
from redline.ledger.accounts import Account
from redline.report.language import _, clauses, listed, marked

NAME: Mapping[Account, str] = {
    Account.MATH: marked("math"),
    Account.MEMORY: marked("memory"),
    Account.KERNEL_LOSS: marked("kernel loss"),
    Account.UNRATED: marked("unrated compute"),
    Account.TRANSFER: marked("transfer"),
    Account.PEER_WAIT: marked("peer wait"),
    Account.COPY: marked("copy"),
    Account.INPUT: marked("input"),
    Account.SYNC: marked("sync"),
    Account.HOST: marked("host"),
    Account.QUEUE: marked("queue"),
    Account.OTHER: marked("other"),
}
MEANING: Mapping[Account, str] = {
    Account.MATH: marked("arithmetic at the machine's peak"),
    Account.MEMORY: marked("memory traffic at full bandwidth, beyond the arithmetic"),
    Account.KERNEL_LOSS: marked("compute ran longer than its FLOPs and bytes need"),
    Account.UNRATED: marked("efficiency unknown: no FLOPs or no peak for this compute"),
    Account.TRANSFER: marked("only communication with other ranks ran"),
    Account.PEER_WAIT: marked("only a collective ran, waiting for a rank that had not arrived"),
    Account.COPY: marked("only memory was copied or set"),
    Account.INPUT: marked("the device waited for the data loader"),
    Account.SYNC: marked("after a sync, the device waited for the host to resume"),
    Account.HOST: marked("the device waited for the host to launch work"),
    Account.QUEUE: marked("work was submitted, but the device had not started it"),
    Account.OTHER: marked("nothing ran, and nothing in the trace says why"),
}
CPU_MEANING: Mapping[Account, str] = {
    Account.INPUT: marked("the main thread was in the data loader"),
    Account.HOST: marked("no compute operator was running: Python, dispatch, or unrecorded code"),
}


def name(account: str) -> str:
    """Also of what findings claim without knowing which account of compute it is."""
    return _("compute") if account == COMPUTE else _(NAME[Account(account)])


def colour(account: str) -> str:
    """As style.css names it: kernel-loss."""
    return str(account).replace(" ", "-")


def meaning(account: Account, *, on_cpu: bool) -> str:
    known = {**MEANING, **CPU_MEANING} if on_cpu else MEANING
    return _(known[account])


def rest(empty: Sequence[Account], faint: Sequence[Account]) -> str:
    """Which accounts have no bar."""
    parts = [_("nothing in {accounts}").format(accounts=listed(map(name, empty)))] if empty else []
    if faint:
        parts.append(_("below 0.05 % in {accounts}").format(accounts=listed(map(name, faint))))
    return clauses(parts)
