"""The first screen of `diagnose`, as pieces of text that every format arranges in its own way."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from redline.findings.finding import Findings
from redline.findings.verdict import WORTHWHILE
from redline.job.read_failures import Failure
from redline.ledger.accounts import COMMUNICATION, COMPUTE, IDLE, Account
from redline.ledger.job.combine import Diagnosis
from redline.ledger.job.evidence import IdleSite, kernel_shares, largest_transfer, largest_wait, places_of
from redline.ledger.job.first_screen import Outline, WaterfallBar
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.host_activity import HOST_ACCOUNTS
from redline.ledger.rank.kernel_table import KernelRow
from redline.report.diagnose import account_messages, capture_messages, fact_messages, loss_messages, unseen_messages
from redline.report.diagnose.diagnosed_job import DiagnosedJob
from redline.report.diagnose.finding_messages import second_cause, sentence, verdict_sentence
from redline.report.diagnose.findings_screen import Card, cards_of
from redline.report.diagnose.tables import shapes_or_kernel
from redline.report.display import Style
from redline.report.document import StackedBars, StackedPart
from redline.report.language import _, sentence_of, sentences
from redline.report.redaction.redactor import redacted_text
from redline.report.serving.serving_tables import verdict_text
from redline.report.text_parts import clipped, percent

if TYPE_CHECKING:
    from redline.report.diagnose.memory_screen import MemoryPeak

MOST_LOSSES = 2
_MOST_UNREAD = 4
_OF_SHORT_KERNELS = (Account.HOST, Account.KERNEL_LOSS, Account.QUEUE)


_FAINT = 0.0005  # of the step: less has no bar of its own
_BAR_STYLES = {
    **dict.fromkeys(Account, Style.LOST),
    **dict.fromkeys((Account.MATH, Account.MEMORY), Style.COMPUTE),
    **dict.fromkeys(COMMUNICATION, Style.TRAFFIC),
    **dict.fromkeys(IDLE, Style.IDLE),
}


@dataclass(frozen=True, kw_only=True)
class Screen:
    """Everything the first screen says."""

    headline: str
    verdict: str
    second: str  # a second cause that is worth much; "" for none
    facts: tuple[tuple[str, str], ...]
    predicted: bool  # nothing of it was measured
    altered: bool  # by a what-if, so that its times are not those of the measurement
    waterfall: StackedBars  # from the redline to the measured step; `of` says which accounts have no bar
    cards: tuple[Card, ...]
    replayed: bool  # findings are in the order of their forecasts
    explained: bool  # a finding is worth acting on, so that the largest accounts need no words of their own
    host: str  # where the host was for long while the device waited, where no finding names it; "" for nowhere
    losses: tuple[tuple[str, str], ...]  # account with its amount, and what stands behind it
    praise: tuple[str, ...]
    remarks: tuple[Card, ...]
    unseen: tuple[str, ...]
    memory: "MemoryPeak | None"  # None where no allocation was recorded, or nothing is known of any rank
    growth: str  # that memory grows with every step, for the verdict; "" where it was not seen to


def screen_of(result: DiagnosedJob) -> Screen:
    diagnosis, outline, findings, captured = result.diagnosis, result.outline, result.findings, result.captured
    amount = partial(_amount, *_unit(sum(bar.time_ns for bar in outline.waterfall)))
    no_mfu = outline.utilisation is None
    memory, left_out = _memory(result)
    return Screen(
        headline=_headline(diagnosis),
        verdict=sentences(
            [
                result.about,
                "" if result.serving is None else verdict_text(result.serving),
                verdict_sentence(findings.verdict, findings.findings, outline),
            ]
        ),
        second=second_cause(findings.verdict, findings.findings),
        facts=(
            *(() if captured is None else ((_("captured"), capture_messages.window_line(captured)),)),
            *_facts(diagnosis, outline, waiting_is_said=_says_who_is_late(findings, outline)),
        ),
        predicted=diagnosis.predicted,
        altered=bool(diagnosis.altered),
        waterfall=_waterfall(diagnosis, outline, amount),
        cards=cards_of(findings.findings),
        replayed=result.replayed is not None and not result.replayed.declined,
        explained=bool(findings.findings) and findings.verdict.worthwhile,
        host=_heaviest_on_host(diagnosis, outline, findings, amount),
        losses=tuple((_said(bar, amount), text) for bar, text in _losses(diagnosis, outline)),
        praise=tuple(map(sentence, findings.praise)),
        remarks=cards_of(findings.remarks),
        unseen=(
            *(() if captured is None else capture_messages.remarks(captured)),
            *(unseen_messages.unseen(remark, len(diagnosis.ranks), said_above=no_mfu) for remark in outline.unseen),
            *left_out,
            *_unread(result.failures),
            *(() if result.removed is None else (redacted_text(result.removed),)),
        ),
        memory=memory,
        growth=growth_of(diagnosis),
    )


def _unit(step_ns: float) -> tuple[str, float, int]:
    """The unit of all amounts of the waterfall, so that they can be compared by eye, and the digits after its point."""
    for unit, scale, below in (("ns", 1.0, 1e3), ("us", 1e3, 1e6), ("ms", 1e6, 1e10)):
        if step_ns < below:
            value = step_ns / scale
            return unit, scale, 0 if unit == "ns" else 3 if value < 100 else 2 if value < 1000 else 1
    return "s", 1e9, 3


def _amount(unit: str, scale: float, digits: int, time_ns: float) -> str:
    return f"{time_ns / scale:,.{digits}f} {unit}"


def _said(bar: WaterfallBar, amount: Callable[[float], str]) -> str:
    name, time = account_messages.name(bar.account), amount(bar.time_ns)
    return _("{account}, {time}, {share}").format(account=name, time=time, share=percent(bar.share))


def _waterfall(diagnosis: Diagnosis, outline: Outline, amount: Callable[[float], str]) -> StackedBars:
    step_ns = sum(bar.time_ns for bar in outline.waterfall)
    return StackedBars(
        title=fact_messages.waterfall_title(predicted=diagnosis.predicted, altered=bool(diagnosis.altered)),
        bars=tuple(
            StackedPart(
                code=bar.account,
                name=account_messages.name(bar.account),
                amount=amount(bar.time_ns),
                share=percent(bar.share),
                start=bar.before_ns / step_ns,
                end=(bar.before_ns + bar.time_ns) / step_ns,
                colour=account_messages.colour(bar.account),
                style=_BAR_STYLES[bar.account],
            )
            for bar in outline.waterfall
            if bar.share >= _FAINT
        ),
        total_name=_("= step"),
        total=amount(step_ns),
        of=account_messages.rest(
            [bar.account for bar in outline.waterfall if not bar.time_ns],
            [bar.account for bar in outline.waterfall if bar.time_ns and bar.share < _FAINT],
        ),
        limit=round(outline.waterfall[0].share, 5) or 1.0,  # where the arithmetic ends
    )


# --- facts ------------------------------------------------------------------------------------------------------------


def _headline(diagnosis: Diagnosis) -> str:
    ranks = diagnosis.ranks
    machines = dict.fromkeys((rank.facts.machine, rank.facts.machine_origin) for rank in ranks if rank.facts.machine)
    return fact_messages.headline(
        len(ranks),
        diagnosis.world_size,
        Counter(map(_device, ranks)),
        tuple(machines),
        synthetic=any(rank.origin.synthetic for rank in ranks),
        predicted=diagnosis.predicted,
        altered=diagnosis.altered,
    )


def _facts(diagnosis: Diagnosis, outline: Outline, *, waiting_is_said: bool) -> Iterator[tuple[str, str]]:
    ranks, steps = diagnosis.ranks, outline.steps
    counts = sorted(len(rank.ledger.start_ns) for rank in ranks)
    anchors = list(dict.fromkeys(rank.origin.step_anchor for rank in ranks))
    yield _("steps"), fact_messages.steps_line(steps, anchors, (counts[0], counts[-1]))
    yield _("window"), fact_messages.window_line(steps, several=len(ranks) > 1)
    yield _("device"), fact_messages.device_line(steps)
    if outline.utilisation is None:
        yield _("MFU"), fact_messages.no_mfu_line(outline.unseen, on_cpu=_on_cpu(diagnosis))
    else:
        yield _("MFU"), fact_messages.mfu_line(outline.utilisation)
        if outline.utilisation.recomputed_flops:
            yield _("HFU"), fact_messages.hfu_line(outline.utilisation)
    yield _("coverage"), _coverage(diagnosis)
    if outline.late is not None and not waiting_is_said:
        yield _("late"), loss_messages.late_line(outline.late)


def _says_who_is_late(findings: Findings, outline: Outline) -> bool:
    """What is said below the waterfall: findings, or where there are none the largest accounts."""
    if findings.findings:
        return any(Account.PEER_WAIT in finding.accounts for finding in findings.findings)
    return Account.PEER_WAIT in {bar.account for bar in outline.largest[:MOST_LOSSES]}


def _device(rank: Digest) -> str:
    on_cpu = rank.facts.device == "cpu"
    return fact_messages.device_name(rank.facts.device_name, on_cpu=on_cpu, unknown=rank.has_unknown_device)


def _coverage(diagnosis: Diagnosis) -> str:
    facts = [rank.facts for rank in diagnosis.ranks]
    kernel_ns = max(sum(of_rank.kernel_ns for of_rank in facts), 1)
    return fact_messages.coverage_line(
        sum(of_rank.kernels for of_rank in facts),
        sum(of_rank.known_work_ns for of_rank in facts) / kernel_ns,
        sum(of_rank.rated_ns for of_rank in facts) / kernel_ns,
        on_cpu=_on_cpu(diagnosis),
    )


def _on_cpu(diagnosis: Diagnosis) -> bool:
    return all(rank.facts.device == "cpu" for rank in diagnosis.ranks)


def _heaviest_on_host(
    diagnosis: Diagnosis, outline: Outline, findings: Findings, amount: Callable[[float], str]
) -> str:
    """A smaller cause that has a rule must not hide the function that takes most of the step."""
    bar = next((bar for bar in outline.waterfall if bar.account == Account.HOST and bar.share >= WORTHWHILE), None)
    named = {_function(finding.place) for finding in findings.findings}
    sites = [place.name for place in _largest_on_host(diagnosis) if place.by == "site"]
    if bar is None or not any(_function(site) not in named for site in sites):
        return ""
    places = loss_messages.where_the_host_was(_largest_on_host(diagnosis))
    return _("{amount}: {text}").format(amount=_said(bar, amount), text=places)


def _function(place: str) -> str:
    """A place without its line."""
    return place.rpartition(":")[0] or place


def _largest_on_host(diagnosis: Diagnosis) -> Sequence[IdleSite]:
    return [place for place in places_of(diagnosis, Account.HOST)[:3] if place.share >= WORTHWHILE]


# --- losses -----------------------------------------------------------------------------------------------------------


def _losses(diagnosis: Diagnosis, outline: Outline) -> Iterator[tuple[WaterfallBar, str]]:
    on_cpu = _on_cpu(diagnosis)
    largest = outline.largest[:MOST_LOSSES]
    brief = next((bar.account for bar in largest if bar.account in _OF_SHORT_KERNELS), None)  # said once, at the first
    for bar in largest:
        meaning = sentence_of(account_messages.meaning(bar.account, on_cpu=on_cpu))
        said = [meaning, _evidence(diagnosis, outline, bar.account)]
        if bar.account == brief and not on_cpu:
            facts = [rank.facts for rank in diagnosis.ranks]
            said.append(loss_messages.short_kernels(sum(f.kernels for f in facts), sum(f.short_kernels for f in facts)))
        yield bar, sentences(said)


def _evidence(diagnosis: Diagnosis, outline: Outline, account: Account) -> str:
    if account in HOST_ACCOUNTS:
        return loss_messages.where_the_host_was(places_of(diagnosis, account))
    if account in COMPUTE:
        return _kernels(diagnosis, account)
    if account == Account.TRANSFER:
        row = largest_transfer(diagnosis)
        return loss_messages.largest_transfer(row, predicted=diagnosis.predicted) if row else ""
    if account == Account.PEER_WAIT:
        return loss_messages.who_is_late(diagnosis.lateness, largest_wait(diagnosis))
    return _queue(diagnosis) if account == Account.QUEUE else ""


def _kernels(diagnosis: Diagnosis, account: Account) -> str:
    return loss_messages.kernels_behind(account, kernel_shares(diagnosis, account, most=2), _with_shapes)


def _queue(diagnosis: Diagnosis) -> str:
    facts = [rank.facts for rank in diagnosis.ranks]
    return loss_messages.queue_text(
        sum(rank.ledger.of(Account.QUEUE) for rank in diagnosis.ranks),
        sum(of_rank.first_queue_ns for of_rank in facts),
        max(of_rank.longest_queue_ns for of_rank in facts),
        sum(of_rank.kernels for of_rank in facts),
        sum(of_rank.graph_launches for of_rank in facts),
    )


def _with_shapes(row: KernelRow) -> str:
    return " ".join(word for word in (clipped(row.operator, loss_messages.NAME_LIMIT), shapes_or_kernel(row)) if word)


def _unread(failures: Sequence[Failure]) -> Iterator[str]:
    yield from (unseen_messages.unread(failure.message) for failure in failures[:_MOST_UNREAD])
    if len(failures) > _MOST_UNREAD:
        yield unseen_messages.more_unread(len(failures) - _MOST_UNREAD)


def _memory(result: DiagnosedJob) -> "tuple[MemoryPeak | None, tuple[str, ...]]":
    """The peak, and ranks whose memory cannot be told."""
    diagnosis = result.diagnosis
    if diagnosis.memory is None:
        return None, ()
    from redline.report.diagnose.memory_screen import left_out_lines, memory_peak  # of no use to other jobs

    peak = memory_peak(diagnosis, diagnosis.memory, redacted=result.removed is not None)
    return peak, tuple(left_out_lines(diagnosis.memory))


def growth_of(diagnosis: Diagnosis) -> str:
    if diagnosis.memory is None:
        return ""
    from redline.report.diagnose.memory_screen import growth_text

    return growth_text(diagnosis.memory, several=len(diagnosis.ranks) > 1)
