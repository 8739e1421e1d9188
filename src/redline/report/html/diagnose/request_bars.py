"""Latencies of requests as bars: each percentile divided by what the requests near it waited for."""

from collections.abc import Iterator
from dataclasses import dataclass

from redline.report.language import _
from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES, latency_name
from redline.report.serving.serving_tables import cause_lines, engine_line, requests_line
from redline.report.text_parts import percent
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.serving.latencies import LatencySplit
from redline.serving.request_ledger import RequestAccount
from redline.units import format_ns

_COLOURS = {  # of the accounts of a step; alike is alike
    RequestAccount.TOKENISE: "input",
    RequestAccount.TO_ENGINE: "transfer",
    RequestAccount.QUEUE: "queue",
    RequestAccount.PREFILL: "math",
    RequestAccount.OTHERS_PREFILL: "peer-wait",
    RequestAccount.DECODE: "memory",
    RequestAccount.PREEMPTED: "sync",
    RequestAccount.RECOMPUTE: "kernel-loss",
    RequestAccount.NOT_SCHEDULED: "unrated-compute",
    RequestAccount.SCHEDULE: "host",
    RequestAccount.PREPARE: "host",
    RequestAccount.SAMPLE: "copy",
    RequestAccount.OUTPUTS: "host",
    RequestAccount.BETWEEN: "host",
    RequestAccount.WORKER: "other",
    RequestAccount.TO_SERVER: "transfer",
    RequestAccount.DETOKENISE: "input",
    RequestAccount.NETWORK: "transfer",
}
_FAINT = 0.002


@dataclass(frozen=True, kw_only=True)
class BarPart:
    """One account in a bar."""

    name: str
    share: str
    width: float  # percent of the longest bar of its latency
    colour: str


@dataclass(frozen=True, kw_only=True)
class RequestBar:
    """One percentile of one latency."""

    latency: str  # "" where the bar above is of the same
    percentile: str
    value: str
    parts: tuple[BarPart, ...]


@dataclass(frozen=True, kw_only=True)
class RequestPanel:
    """What the page says of requests."""

    title: str
    engine: str
    bars: tuple[RequestBar, ...]
    legend: tuple[BarPart, ...]
    causes: tuple[tuple[str, str, str], ...]


def request_panel(serving: ServingDiagnosis) -> RequestPanel:
    bars = tuple(_bars(serving))
    seen = {part.name: part for bar in bars for part in bar.parts}
    return RequestPanel(
        title=requests_line(serving),
        engine=engine_line(serving),
        bars=bars,
        legend=tuple(seen[name] for name in map(_, REQUEST_ACCOUNT_NAMES.values()) if name in seen),
        causes=tuple(cause_lines(serving)),
    )


def _bars(serving: ServingDiagnosis) -> Iterator[RequestBar]:
    before = None
    for split in serving.splits:
        longest = max(one.near_ns for one in serving.splits if one.latency is split.latency)
        yield RequestBar(
            latency="" if split.latency is before else latency_name(split.latency),
            percentile=f"p{split.percentile}",
            value=format_ns(round(split.value_ns)),
            parts=tuple(_parts(split, longest)),
        )
        before = split.latency


def _parts(split: LatencySplit, longest_ns: float) -> Iterator[BarPart]:
    for account in RequestAccount:
        if split.share(account) >= _FAINT:
            yield BarPart(
                name=_(REQUEST_ACCOUNT_NAMES[account]),
                share=percent(split.share(account)),
                width=round(100 * split.amounts_ns[account] / longest_ns, 2),
                colour=_COLOURS[account],
            )
