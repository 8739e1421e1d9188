"""Latencies of requests as bars: each percentile divided by what the requests near it waited for."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from redline.report.language import _, marked
from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES, latency_name
from redline.report.serving.serving_tables import cause_lines, engine_line, requests_line
from redline.report.text_parts import percent
from redline.serving.causes import ENGINE_ACCOUNTS, SERVER_ACCOUNTS
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.serving.latencies import LatencySplit
from redline.serving.request_ledger import RequestAccount
from redline.units import format_ns


class _Group(NamedTuple):
    """Accounts that are drawn as one: a picture of twenty colours says nothing."""

    name: str
    colour: str  # of an account of a step
    accounts: tuple[RequestAccount, ...]


def _alone(account: RequestAccount, colour: str) -> _Group:
    return _Group(REQUEST_ACCOUNT_NAMES[account], colour, (account,))


_GROUPS = (
    _alone(RequestAccount.NETWORK, "transfer"),
    _Group(marked("server"), "input", SERVER_ACCOUNTS),
    _alone(RequestAccount.CURRENT_STEP, "sync"),
    _alone(RequestAccount.QUEUE, "queue"),
    _alone(RequestAccount.PREFILL, "math"),
    _alone(RequestAccount.OTHERS_PREFILL, "peer-wait"),
    _alone(RequestAccount.DECODE, "memory"),
    _alone(RequestAccount.SAMPLE, "copy"),
    _Group(marked("lost its place"), "kernel-loss", (RequestAccount.PREEMPTED, RequestAccount.RECOMPUTE)),
    _alone(RequestAccount.NOT_SCHEDULED, "unrated-compute"),
    _Group(marked("engine's Python"), "host", ENGINE_ACCOUNTS),
    _Group(REQUEST_ACCOUNT_NAMES[RequestAccount.WORKER], "other", (RequestAccount.WORKER, RequestAccount.RECORDING)),
)
_FAINT = 0.002


@dataclass(frozen=True, kw_only=True)
class BarPart:
    """One group of accounts in a bar."""

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
        legend=tuple(seen[name] for name in (_(group.name) for group in _GROUPS) if name in seen),
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
    for group in _GROUPS:
        share = split.share(*group.accounts)
        if share >= _FAINT:
            yield BarPart(
                name=_(group.name),
                share=percent(share),
                width=round(100 * share * split.near_ns / longest_ns, 2),
                colour=group.colour,
            )
