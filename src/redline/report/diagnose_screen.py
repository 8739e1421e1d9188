"""The first screen of `diagnose`, as pieces of text that every format arranges in its own way."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from redline.analysis.accounts import COMPUTE, Account
from redline.analysis.job.combine import Diagnosis
from redline.analysis.job.evidence import kernel_shares, largest_transfer, largest_wait, places_of
from redline.analysis.job.outline import Bar, Outline
from redline.analysis.rank.digest import Digest
from redline.analysis.rank.doing import HOST_ACCOUNTS
from redline.analysis.rank.kernel_table import KernelRow
from redline.findings.finding import Findings
from redline.report import diagnose_words as say
from redline.report.diagnose_tables import shapes_or_kernel
from redline.report.findings_screen import Card, cards_of
from redline.report.findings_words import sentence, verdict_sentence
from redline.report.words import percent, printable
from redline.trace.job import Failure

MOST_LOSSES = 2
_MOST_UNREAD = 4
_OF_SHORT_KERNELS = (Account.HOST, Account.KERNEL_LOSS, Account.QUEUE)


_FAINT = 0.0005  # of the step: less has no bar of its own


@dataclass(frozen=True, kw_only=True)
class Line:
    """One row of the waterfall; positions are shares of the step."""

    account: str
    time: str
    share: str
    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Everything the first screen says."""

    headline: str
    verdict: str
    facts: tuple[tuple[str, str], ...]
    waterfall: tuple[Line, ...]
    rest: str  # which accounts hold nothing, or too little to be seen; "" for none
    step: str
    unit: str
    cards: tuple[Card, ...]
    losses: tuple[tuple[str, str], ...]  # where there are no findings: account, amount, and what stands behind it
    praise: tuple[str, ...]
    remarks: tuple[Card, ...]
    unseen: tuple[str, ...]


def screen_of(diagnosis: Diagnosis, outline: Outline, findings: Findings, failures: Sequence[Failure] = ()) -> Screen:
    step_ns = sum(bar.time_ns for bar in outline.waterfall)
    unit, scale, digits = _unit(step_ns)
    no_mfu = outline.utilisation is None
    return Screen(
        headline=_headline(diagnosis),
        verdict=verdict_sentence(findings.verdict, findings.findings, outline),
        facts=tuple(_facts(diagnosis, outline, waiting_is_said=not findings.findings)),
        waterfall=tuple(_line(bar, step_ns, scale, digits) for bar in outline.waterfall if bar.share >= _FAINT),
        rest=say.rest(
            [bar.account for bar in outline.waterfall if not bar.time_ns],
            [bar.account for bar in outline.waterfall if bar.time_ns and bar.share < _FAINT],
        ),
        step=f"{step_ns / scale:,.{digits}f}",
        unit=unit,
        cards=cards_of(findings.findings),
        losses=tuple(
            (f"{bar.account}, {bar.time_ns / scale:,.{digits}f} {unit}, {percent(bar.share)}", text)
            for bar, text in (() if findings.findings else _losses(diagnosis, outline))
        ),
        praise=tuple(map(sentence, findings.praise)),
        remarks=cards_of(findings.remarks),
        unseen=(
            *(say.unseen(remark, len(diagnosis.ranks), said_above=no_mfu) for remark in outline.unseen),
            *_unread(failures),
        ),
    )


def _unit(step_ns: float) -> tuple[str, float, int]:
    """The unit of all amounts of the waterfall, so that they can be compared by eye, and the digits after its point."""
    for unit, scale, below in (("ns", 1.0, 1e3), ("us", 1e3, 1e6), ("ms", 1e6, 1e10)):
        if step_ns < below:
            value = step_ns / scale
            return unit, scale, 0 if unit == "ns" else 3 if value < 100 else 2 if value < 1000 else 1
    return "s", 1e9, 3


def _line(bar: Bar, step_ns: float, scale: float, digits: int) -> Line:
    return Line(
        account=str(bar.account),
        time=f"{bar.time_ns / scale:,.{digits}f}",
        share=percent(bar.share),
        start=bar.before_ns / step_ns,
        end=(bar.before_ns + bar.time_ns) / step_ns,
    )


# --- facts ------------------------------------------------------------------------------------------------------------


def _headline(diagnosis: Diagnosis) -> str:
    ranks = diagnosis.ranks
    machines = dict.fromkeys((rank.facts.machine, rank.facts.machine_origin) for rank in ranks if rank.facts.machine)
    return say.headline(
        len(ranks),
        diagnosis.world_size,
        Counter(map(_device, ranks)),
        tuple(machines),
        synthetic=any(rank.origin.synthetic for rank in ranks),
    )


def _facts(diagnosis: Diagnosis, outline: Outline, *, waiting_is_said: bool) -> Iterator[tuple[str, str]]:
    ranks, steps = diagnosis.ranks, outline.steps
    counts = sorted(len(rank.ledger.start_ns) for rank in ranks)
    anchors = ", ".join(dict.fromkeys(printable(rank.origin.step_anchor, 60) for rank in ranks))
    yield "steps", say.steps_line(steps, anchors, (counts[0], counts[-1]))
    yield "window", say.window_line(steps, several=len(ranks) > 1)
    yield "device", say.device_line(steps)
    if outline.utilisation is None:
        yield "MFU", say.no_mfu_line(outline.unseen, on_cpu=_on_cpu(diagnosis))
    else:
        yield "MFU", say.mfu_line(outline.utilisation)
        if outline.utilisation.recomputed_flops:
            yield "HFU", say.hfu_line(outline.utilisation)
    yield "coverage", _coverage(diagnosis)
    said = {bar.account for bar in outline.largest[:MOST_LOSSES]} if waiting_is_said else set()
    if outline.late is not None and Account.PEER_WAIT not in said:
        yield "late", say.late_line(outline.late)


def _device(rank: Digest) -> str:
    if rank.facts.device == "cpu":
        return say.ON_CPU
    return printable(rank.facts.device_name, 60) or say.NO_DEVICE_NAME


def _coverage(diagnosis: Diagnosis) -> str:
    facts = [rank.facts for rank in diagnosis.ranks]
    kernel_ns = max(sum(one.kernel_ns for one in facts), 1)
    return say.coverage_line(
        sum(one.kernels for one in facts),
        sum(one.known_work_ns for one in facts) / kernel_ns,
        sum(one.rated_ns for one in facts) / kernel_ns,
        on_cpu=_on_cpu(diagnosis),
    )


def _on_cpu(diagnosis: Diagnosis) -> bool:
    return all(rank.facts.device == "cpu" for rank in diagnosis.ranks)


# --- losses -----------------------------------------------------------------------------------------------------------


def _losses(diagnosis: Diagnosis, outline: Outline) -> Iterator[tuple[Bar, str]]:
    on_cpu = _on_cpu(diagnosis)
    largest = outline.largest[:MOST_LOSSES]
    brief = next((bar.account for bar in largest if bar.account in _OF_SHORT_KERNELS), None)  # said once, at the first
    for bar in largest:
        sentences = [say.meaning(bar.account, on_cpu=on_cpu) + ".", _evidence(diagnosis, outline, bar.account)]
        if bar.account == brief and not on_cpu:
            facts = [rank.facts for rank in diagnosis.ranks]
            sentences.append(say.short_kernels(sum(f.kernels for f in facts), sum(f.short_kernels for f in facts)))
        yield bar, " ".join(sentence for sentence in sentences if sentence)


def _evidence(diagnosis: Diagnosis, outline: Outline, account: Account) -> str:
    if account in HOST_ACCOUNTS:
        return say.where_the_host_was(places_of(diagnosis, account))
    if account == Account.UNRATED:
        return f"{_kernels(diagnosis, account)} {say.why_unrated(outline.unseen)}".strip()
    if account in COMPUTE:
        return _kernels(diagnosis, account)
    if account == Account.TRANSFER:
        row = largest_transfer(diagnosis)
        return say.largest_transfer(row) if row else ""
    if account == Account.PEER_WAIT:
        return say.who_is_late(diagnosis.lateness, largest_wait(diagnosis))
    return _queue(diagnosis) if account == Account.QUEUE else ""


def _kernels(diagnosis: Diagnosis, account: Account) -> str:
    return say.kernels_behind(account, kernel_shares(diagnosis, account), _with_shapes)


def _queue(diagnosis: Diagnosis) -> str:
    facts = [rank.facts for rank in diagnosis.ranks]
    return say.queue_words(
        sum(rank.ledger.of(Account.QUEUE) for rank in diagnosis.ranks),
        sum(one.first_queue_ns for one in facts),
        max(one.longest_queue_ns for one in facts),
        sum(one.kernels for one in facts),
        sum(one.graph_launches for one in facts),
    )


def _with_shapes(row: KernelRow) -> str:
    return " ".join(word for word in (printable(row.operator, say.NAME_LIMIT), shapes_or_kernel(row)) if word)


def _unread(failures: Sequence[Failure]) -> Iterator[str]:
    yield from (say.unread(failure.message) for failure in failures[:_MOST_UNREAD])
    if len(failures) > _MOST_UNREAD:
        yield say.more_unread(len(failures) - _MOST_UNREAD)
