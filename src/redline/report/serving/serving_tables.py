"""What is known of a serving engine, in words: how long requests take, what they wait for, where its own time goes."""

from collections.abc import Iterable, Iterator

from redline.report.document import Block, Entries, Entry, LabelledLines, Paragraph, ReportTable
from redline.report.language import _, sentences
from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES, STEP_ACCOUNT_NAMES, latency_name
from redline.report.serving.cause_messages import cause_text, share_text
from redline.report.text_parts import percent
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.serving.request_ledger import PERCENTILES, SLOWEST, Latency, LatencySplit, RequestAccount, slowest
from redline.serving.step_ledger import StepAccount
from redline.units import format_ns

_MOST_ACCOUNTS = 4  # of a latency
_FAINT = 0.005


def latency_table(serving: ServingDiagnosis) -> ReportTable:
    """A row per latency: its percentiles, and what the slowest requests waited for."""
    rows = []
    for latency in Latency:
        splits = {split.percentile: split for split in serving.splits if split.latency is latency}
        if splits:
            cells = [format_ns(round(splits[one].value_ns)) for one in PERCENTILES]
            rows.append((latency_name(latency), *cells, waited_for(splits[SLOWEST])))
    head = (_("latency"), *(f"p{one}" for one in PERCENTILES), _("what the slowest waited for"))
    return ReportTable(title=requests_line(serving), head=head, rows=tuple(rows))


def waited_for(split: LatencySplit) -> str:
    """The largest accounts of the requests near a percentile."""
    shares = sorted(((split.share(account), account) for account in RequestAccount), reverse=True)
    return _listed(
        (_(REQUEST_ACCOUNT_NAMES[account]), share) for share, account in shares[:_MOST_ACCOUNTS] if share >= _FAINT
    )


def _listed(shares: Iterable[tuple[str, float]]) -> str:
    return ", ".join(" ".join((name, percent(share))) for name, share in shares)


def verdict_text(serving: ServingDiagnosis) -> str:
    """What the slowest requests wait for most, and what to do about it where that is known."""
    split = slowest(serving.splits, Latency.END_TO_END)
    if split is None:
        return _("No request was seen from beginning to end.")
    most = max(RequestAccount, key=split.share)
    said = _("The slowest requests take {time}, {share} of it for: {account}.").format(
        time=format_ns(round(split.value_ns)), share=percent(split.share(most)), account=_(REQUEST_ACCOUNT_NAMES[most])
    )
    if not serving.causes:
        return said
    first = serving.causes[0]
    advice = _("{title} ({code}).").format(title=cause_text(first).title, code=first.code)
    return sentences([said, advice])


def engine_line(serving: ServingDiagnosis) -> str:
    """Where the engine's own time goes; what was not asked for is no loss."""
    steps = serving.steps
    idle_ns = steps.amounts_ns[StepAccount.IDLE]
    asked_ns = max(steps.window_ns - idle_ns, 1)
    shares = sorted(
        ((steps.amounts_ns[account] / asked_ns, account) for account in StepAccount if account != StepAccount.IDLE),
        reverse=True,
    )
    told = _listed((_(STEP_ACCOUNT_NAMES[account]), share) for share, account in shares if share >= _FAINT)
    return _(
        "{steps:,} steps of {engine} in {window}, median {median}: {accounts}; nothing was asked for {idle}"
    ).format(
        steps=steps.steps,
        engine=serving.engine,
        window=format_ns(steps.window_ns),
        median=format_ns(round(steps.median_ns)),
        accounts=told,
        idle=format_ns(idle_ns),
    )


def metrics_line(serving: ServingDiagnosis) -> str:
    """How far the engine's own figures are from what was recorded; empty where it exports none."""
    if not serving.metrics:
        return ""
    most = max(serving.metrics, key=lambda check: check.difference)
    return _(
        "means of {requests:,} requests differ from what the engine exports by at most {difference} ({name}: "
        "{exported} there, {recorded} here)"
    ).format(
        requests=most.requests,
        difference=percent(most.difference),
        name=most.name,
        exported=format_ns(round(most.exported_ns)),
        recorded=format_ns(round(most.recorded_ns)),
    )


def cause_lines(serving: ServingDiagnosis) -> Iterator[tuple[str, str, str]]:
    """Title with its share, what shows it, and the option that changes it."""
    for cause in serving.causes:
        text = cause_text(cause)
        yield f"{cause.code} {text.title}: {share_text(cause)}", text.evidence, text.fix


def requests_line(serving: ServingDiagnosis) -> str:
    line = _("requests: {requests:,} from beginning to end, {tokens:,} new tokens").format(
        requests=serving.requests, tokens=serving.new_tokens
    )
    beside = []
    if serving.left_out:
        beside.append(_("{count:,} left out: they had begun before, or did not end").format(count=serving.left_out))
    if serving.engines > 1:
        beside.append(_("of {count:,} engines, the one with the most steps").format(count=serving.engines))
    if serving.dropped_lines:
        beside.append(_("{count:,} lines of the log could not be read").format(count=serving.dropped_lines))
    return "; ".join([line, *beside])


def request_blocks(serving: ServingDiagnosis | None) -> Iterator[Block | tuple[Block, ...]]:
    """How long requests take, and why; nothing where there was no engine."""
    if serving is None:
        return
    lines = ((_("engine"), engine_line(serving)), (_("metrics"), metrics_line(serving)))
    yield latency_table(serving), LabelledLines(lines=lines)
    if not serving.causes:
        yield Paragraph(text=_("No rule names a cause for what requests wait for."))
    yield Entries(
        title=_("why requests wait, what costs the slowest most first"),
        entries=tuple(
            Entry(head=f"{title}.", lines=(evidence,), fix=_("Fix: {fix}").format(fix=fix))
            for title, evidence, fix in cause_lines(serving)
        ),
    )
