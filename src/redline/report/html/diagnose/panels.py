"""Panels of the page as values for their templates: requests of an engine, and the critical path."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from redline.findings.replayed import CriticalPathParts, PathPart
from redline.report.diagnose import account_messages
from redline.report.diagnose.replay_messages import beside_text, operator_text, part_phase
from redline.report.language import _, marked
from redline.report.markdown import capitalised
from redline.report.serving.account_names import REQUEST_ACCOUNT_NAMES, latency_name
from redline.report.serving.serving_tables import cause_lines, engine_line, requests_line
from redline.report.text_parts import percent
from redline.serving.causes import ENGINE_ACCOUNTS, SERVER_ACCOUNTS
from redline.serving.diagnose_serving import ServingDiagnosis
from redline.serving.request_ledger import LatencySplit, RequestAccount
from redline.units import format_ns

# --- requests ---------------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Accounts that are drawn as one: a picture of twenty colours says nothing."""

    name: str
    colour: str  # of an account of a step
    accounts: tuple[RequestAccount, ...]


def _alone(account: RequestAccount, colour: str) -> _Group:
    return _Group(REQUEST_ACCOUNT_NAMES[account], colour, (account,))


GROUPS = (
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


def request_panel(serving: ServingDiagnosis) -> dict[str, Any]:
    """Latencies as bars: each percentile divided by what the requests near it waited for."""
    bars = list(_request_bars(serving))
    seen = {part["name"]: part for bar in bars for part in bar["parts"]}
    return {
        "title": requests_line(serving),
        "engine": engine_line(serving),
        "bars": bars,
        "legend": [seen[name] for name in (_(group.name) for group in GROUPS) if name in seen],
        "causes": list(cause_lines(serving)),
    }


def _request_bars(serving: ServingDiagnosis) -> Iterator[dict[str, Any]]:
    """The name of a latency stands before the first of its percentiles."""
    before = None
    for split in serving.splits:
        longest_ns = max(other.near_ns for other in serving.splits if other.latency is split.latency)
        yield {
            "latency": "" if split.latency is before else latency_name(split.latency),
            "percentile": f"p{split.percentile}",
            "value": format_ns(round(split.value_ns)),
            "parts": list(_request_parts(split, longest_ns)),
        }
        before = split.latency


def _request_parts(split: LatencySplit, longest_ns: float) -> Iterator[dict[str, Any]]:
    """Widths are percent of the longest bar of the latency."""
    for group in GROUPS:
        share = split.share(*group.accounts)
        if share >= _FAINT:
            width = round(100 * share * split.near_ns / longest_ns, 2)
            yield {"name": _(group.name), "share": percent(share), "width": width, "colour": group.colour}


# --- the critical path ------------------------------------------------------------------------------------------------

_MOST_BESIDE = 3


def path_panel(path: CriticalPathParts) -> dict[str, Any]:
    groups = (
        (_("By phase"), _path_bars(path.phases, part_phase)),
        (_("By operator or kernel"), _path_bars(path.operators, operator_text)),
        (_("By rank"), _path_bars(path.ranks, lambda rank: _("rank {rank}").format(rank=rank))),
    )
    return {
        "accounts": _path_bars(path.accounts, account_messages.name),
        "tables": [(title, bars) for title, bars in groups if bars],
        "beside": list(map(capitalised, map(beside_text, path.beside[:_MOST_BESIDE]))),
    }


def _path_bars(parts: Sequence[PathPart], named: Callable[[str], str]) -> list[dict[str, Any]]:
    return [
        {
            "code": account_messages.colour(part.what),  # of an account; others are drawn in one colour
            "name": named(part.what),
            "time": format_ns(round(part.time_ns)),
            "share": percent(part.share),
            "percent": round(100 * part.share, 2),
        }
        for part in parts
    ]
