"""Thresholds that a user sets, such as `idle>20%`: parsed, and held against what was measured.

What is not known crosses no threshold, and keeps none: it has a reason instead of a value.
"""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial

from redline.errors import UsageError
from redline.findings.finding import Finding, Findings
from redline.findings.registry import RULES
from redline.ledger.accounts import ACCOUNTS, IDLE, Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.first_screen import Outline, Unseen
from redline.values import dataclass

_WRITTEN = re.compile(
    r"\s*(?P<what>[A-Za-z][\w -]*?)\s*(?:(?P<sign>[<>]=?)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>%|ns|us|ms|s)?)?\s*"
)
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_TIMES = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_NEEDS_ROOFS = (Account.MATH, Account.MEMORY, Account.KERNEL_LOSS)
_NEEDS_HOST = tuple(account for account in IDLE if account is not Account.OTHER)


class Unit(StrEnum):
    """The kind of a quantity, and how its limit is written."""

    SHARE = "a share: write a percentage, such as 20%"
    TIME = "a time: write it with its unit, such as 150ms"
    COUNT = "a number: write it without a unit, such as 0"


@dataclass(frozen=True, kw_only=True)
class MeasuredJob:
    """All that thresholds are held against."""

    diagnosis: Diagnosis
    outline: Outline
    findings: Findings
    unread: int  # files that could not be read


@dataclass(frozen=True, kw_only=True)
class QuantityValue:
    """The value of a quantity in its unit: shares of 1, times in ns; None where it is not known."""

    value: float | None
    why_not: str = ""  # why it is not known, or only the least that it can be
    is_least: bool = False  # the true value may be larger
    least: float | None = None  # the least that it can be, where the value is the most
    is_there: bool = True  # False of a finding that is not


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """Something that a threshold can be set on."""

    name: str
    meaning: str
    unit: Unit
    read: Callable[[MeasuredJob], QuantityValue]


@dataclass(frozen=True, kw_only=True)
class Threshold:
    """One limit. Without a sign: that the finding is there at all."""

    text: str
    quantity: Quantity
    sign: str
    limit: float


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A threshold and what was measured: crossed, kept, or (None) not known."""

    threshold: Threshold
    reading: QuantityValue
    crossed: bool | None


def parse(text: str) -> Threshold:
    """Raises UsageError, which says what can be written."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise _unusable(text, "write a quantity and its limit, such as idle>20%")
    quantity = _find(text, written["what"])
    if written["sign"] is None:
        if not _is_code(quantity.name):
            raise _unusable(text, f"{quantity.name} needs a limit; it is {quantity.unit}")
        return Threshold(text=text, quantity=quantity, sign="", limit=0.0)
    if any(rule.code == quantity.name and not rule.claims_time for rule in RULES):
        raise _unusable(text, f"{quantity.name} claims no time; write it without a limit")
    limit = _limit(text, quantity, float(written["number"]), written["unit"] or "")
    return Threshold(text=text, quantity=quantity, sign=written["sign"], limit=limit)


def check(thresholds: Iterable[Threshold], measured: MeasuredJob) -> tuple[Outcome, ...]:
    readings = ((threshold, threshold.quantity.read(measured)) for threshold in thresholds)
    return tuple(
        Outcome(threshold=threshold, reading=reading, crossed=_crossed(threshold, reading))
        for threshold, reading in readings
    )


def _crossed(threshold: Threshold, reading: QuantityValue) -> bool | None:
    """None where the value lies somewhere on both sides of the limit."""
    if reading.value is None:
        return None
    compare = _SIGNS.get(threshold.sign)
    if compare is None:
        return reading.is_there
    least = reading.value if reading.least is None else reading.least
    most = math.inf if reading.is_least else reading.value
    crossed = {compare(value, threshold.limit) for value in (least, most)}
    return crossed.pop() if len(crossed) == 1 else None


def _unusable(text: str, advice: str) -> UsageError:
    return UsageError(f"{text!r}: {advice}")


def _find(text: str, what: str) -> Quantity:
    known = QUANTITIES.get(what.upper()) or QUANTITIES.get(re.sub(r"[_-]", " ", what).lower())
    if known is None and _is_code(what.upper()):
        raise _unusable(text, f"there is no finding {what!r}; `redline explain` lists all")
    if known is None:
        names = ", ".join(name for name in QUANTITIES if not _is_code(name))
        raise _unusable(
            text, f"there is no {what!r}; there are: {names}, and codes of findings such as {RULES[0].code}"
        )
    return known


def _limit(text: str, quantity: Quantity, number: float, unit: str) -> float:
    if quantity.unit is Unit.SHARE and unit == "%":
        return number / 100
    if quantity.unit is Unit.TIME and unit in _TIMES:
        return number * _TIMES[unit]
    if quantity.unit is Unit.COUNT and not unit:
        return number
    raise _unusable(text, f"{quantity.name} is {quantity.unit}")


# --- quantities -------------------------------------------------------------------------------------------------------


def _is_code(name: str) -> bool:
    return name.startswith("RL-")


def _account(account: Account, measured: MeasuredJob) -> QuantityValue:
    unseen = {remark.what for remark in measured.outline.unseen}
    value = next(bar.share for bar in measured.outline.waterfall if bar.account is account)
    why_not = ""
    if account in _NEEDS_ROOFS and measured.findings.verdict.math_share is None:
        why_not = "the work or the peak of most kernels is not known"
    elif account is Account.PEER_WAIT and Unseen.ONE_RANK in unseen:
        why_not = "one rank only, so waiting for others is in transfer"
    elif account in _NEEDS_HOST and Unseen.NO_HOST in unseen:
        why_not = "no launches in the trace, so why the device was idle cannot be said"
    return QuantityValue(value=value, why_not=why_not, is_least=bool(why_not))


def _idle(measured: MeasuredJob) -> QuantityValue:
    verdict = measured.findings.verdict
    if not verdict.unjudged_share:
        return QuantityValue(value=verdict.idle_share)
    why_not = "before the first recorded work, the device may have been busy with earlier work"
    least = max(verdict.idle_share - verdict.unjudged_share, 0.0)
    return QuantityValue(value=verdict.idle_share, least=least, why_not=why_not)


def _exposed(measured: MeasuredJob) -> QuantityValue:
    exposed = (Account.TRANSFER, Account.PEER_WAIT)
    return QuantityValue(value=sum(bar.share for bar in measured.outline.waterfall if bar.account in exposed))


def _utilisation(name: str, measured: MeasuredJob) -> QuantityValue:
    use = measured.outline.utilisation
    if use is not None:
        is_least = use.known_share < 0.99 or use.unrated_flops > 0
        why_not = f"{name} is only known to be at least {100 * getattr(use, name):.1f} %" if is_least else ""
        return QuantityValue(value=use.mfu if name == "mfu" else use.hfu, is_least=is_least, why_not=why_not)
    unseen = {remark.what: remark for remark in measured.outline.unseen}
    if Unseen.NO_PEAK in unseen or Unseen.NO_DTYPE_PEAK in unseen:
        return QuantityValue(value=None, why_not="the peak of the machine is not known; give it with `machine=...`")
    if Unseen.UNKNOWN_WORK in unseen and unseen[Unseen.UNKNOWN_WORK].detail:
        return QuantityValue(value=None, why_not="no shapes were recorded; profile with record_shapes=True")
    return QuantityValue(value=None, why_not="no matmul, convolution or attention whose shapes are known")


def _step(measured: MeasuredJob) -> QuantityValue:
    steps = measured.outline.steps
    return QuantityValue(value=steps.median_ns) if steps.longest_ns else QuantityValue(value=None, why_not=_NO_STEPS)


def _spread(measured: MeasuredJob) -> QuantityValue:
    steps = measured.outline.steps
    if not steps.longest_ns:
        return QuantityValue(value=None, why_not=_NO_STEPS)
    if measured.diagnosis.rank_steps < 2:
        return QuantityValue(value=None, why_not="only one step was seen")
    return QuantityValue(value=(steps.longest_ns - steps.shortest_ns) / steps.median_ns)


_NO_STEPS = "nothing in the trace takes any time"


def _bound(measured: MeasuredJob) -> QuantityValue:
    return QuantityValue(value=max((finding.share for finding in measured.findings.findings), default=0.0))


def _dropped(measured: MeasuredJob) -> QuantityValue:
    return QuantityValue(value=sum(sum(rank.origin.dropped.values()) for rank in measured.diagnosis.ranks))


def _found(code: str, measured: MeasuredJob) -> QuantityValue:
    every: Sequence[Finding] = (*measured.findings.findings, *measured.findings.remarks)
    shares = (QuantityValue(value=finding.share) for finding in every if finding.code == code)
    return next(shares, QuantityValue(value=0.0, is_there=False))


def _quantities() -> dict[str, Quantity]:
    share = partial(Quantity, unit=Unit.SHARE)
    count = partial(Quantity, unit=Unit.COUNT)
    every = [
        share(name="idle", meaning="of the average step, in which the device does nothing", read=_idle),
        share(name="exposed", meaning="of the average step: transfer and peer wait together", read=_exposed),
        *(
            share(name=str(account), meaning="of the average step: the account", read=partial(_account, account))
            for account in ACCOUNTS
        ),
        share(name="mfu", meaning="model FLOP utilisation", read=partial(_utilisation, "mfu")),
        share(name="hfu", meaning="hardware FLOP utilisation", read=partial(_utilisation, "hfu")),
        Quantity(name="step", meaning="median length of a step", unit=Unit.TIME, read=_step),
        share(name="spread", meaning="longest less shortest step, of the median", read=_spread),
        share(name="bound", meaning="of the average step: the bound of the largest finding", read=_bound),
        count(name="dropped", meaning="events that reading had to drop", read=_dropped),
        count(name="unread", meaning="files that could not be read", read=lambda job: QuantityValue(value=job.unread)),
        count(
            name="missing",
            meaning="ranks of the job without a trace",
            read=lambda job: QuantityValue(value=len(job.diagnosis.missing)),
        ),
        *(share(name=rule.code, meaning="bound of the finding", read=partial(_found, rule.code)) for rule in RULES),
    ]
    return {quantity.name: quantity for quantity in every}


QUANTITIES = _quantities()
"""By name, as they are listed to users; findings by their codes come last."""
