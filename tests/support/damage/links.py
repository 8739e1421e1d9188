"""Damage to what ties a trace together: device records, links from launch to kernel, ranks, groups, several files."""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, TypeVar

from redline.timeline.problems import Reason
from tests.support.damage.case import Made, Recipe, edit_trace, reads
from tests.support.damage.text import (
    DEVICE_WORK,
    RUNTIME,
    Edits,
    Event,
    NoSuitableEventError,
    TraceText,
    drop_key,
    has_key,
    set_value,
)

COLLECTIVE_ARGS = (
    "Collective name",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "dtype",
    "In split size",
    "Out split size",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
)
OTHER_RANK = "rank-1.pt.trace.json"
GRAPH_KERNELS = 4

T = TypeVar("T")


def _some(found: Iterable[T]) -> list[T]:
    items = list(found)
    if not items:
        raise NoSuitableEventError("nothing in the seed fits")
    return items


def _left_out(gone: Callable[[TraceText], list[Event]], *also: Reason, note: str = "") -> Callable[[TraceText], Made]:
    def make(trace: TraceText) -> Made:
        lost = gone(trace)
        return Made(data=trace.without(lost), expected=reads(also=also, lost=lost, note=note))

    return make


# missing records


def _device_records(trace: TraceText) -> list[Event]:
    _some(trace.kernels)
    on_device = DEVICE_WORK | {"gpu_user_annotation"}
    return [e for e in trace.events if e.category in on_device or (e.category == "ac2g" and e.phase == "f")]


def _device_records_and_arrows(trace: TraceText) -> list[Event]:
    arrows = [e for e in trace.events if e.category == "ac2g" and e.phase == "s"]
    return [*_device_records(trace), *arrows]


def _all_of_cuda(trace: TraceText) -> list[Event]:
    calls = [e for e in trace.events if e.category in RUNTIME]
    return [*_device_records_and_arrows(trace), *calls]


def _one_category(trace: TraceText) -> list[Event]:
    """The fills or else the copies, with their calls and arrows."""
    for category in ("gpu_memset", "gpu_memcpy"):
        work = [e for e in trace.timed if e.category == category]
        if work:
            ids = {e.correlation for e in work}
            arrows = [e for e in trace.events if e.category == "ac2g" and e.fields.get("id") in ids]
            calls = [e for e in trace.timed if e.category in RUNTIME and e.correlation in ids]
            return [*work, *arrows, *calls]
    raise NoSuitableEventError("no copy in the seed")


def _steps(trace: TraceText) -> list[Event]:
    return [e for e in trace.timed if e.name.startswith("ProfilerStep")]


def _arrows(trace: TraceText) -> list[Event]:
    return _some(e for e in trace.events if e.category == "ac2g")


# links


def _nccl_kernels(trace: TraceText) -> list[Event]:
    return _some(e for e in trace.kernels if "nccl" in e.name.lower())


def _without_keys(text: str, keys: Iterable[str]) -> str:
    for key in keys:
        text = drop_key(text, key) if has_key(text, key) else text
    return text


def _no_collective_args(trace: TraceText) -> Made:
    edits: Edits = {e.index: _without_keys(e.text, COLLECTIVE_ARGS) for e in _nccl_kernels(trace)}
    return Made(data=trace.render(edits), expected=reads(note="coalesced collectives: matched by order"))


def _no_args(trace: TraceText) -> Made:
    kernels = _nccl_kernels(trace)
    edits: Edits = {e.index: e.without("args") for e in kernels}
    return Made(data=trace.render(edits), expected=reads({Reason.NO_CORRELATION: len(kernels)}))


def _no_correlation(trace: TraceText) -> Made:
    kernels = _some(e for e in trace.kernels if e.correlation is not None)
    edits: Edits = {e.index: e.without("correlation") for e in kernels}
    edits |= dict.fromkeys((e.index for e in trace.events if e.category == "ac2g"), None)
    return Made(data=trace.render(edits), expected=reads({Reason.NO_CORRELATION: len(kernels)}))


def _reuse(trace: TraceText, linked: list[Event], correlation: Any) -> Made:
    """Give these kernels, their launches and arrows one correlation id."""
    edits: Edits = {}
    for kernel in linked:
        for event in (kernel, trace.launches[kernel.correlation]):
            edits[event.index] = event.with_value("correlation", str(correlation))
    old = {kernel.correlation for kernel in linked}
    for event in trace.events:
        if event.category == "ac2g" and event.fields.get("id") in old:
            edits[event.index] = event.with_value("id", str(correlation))
    return Made(data=trace.render(edits), expected=reads(also=[Reason.REUSED_CORRELATION]))


def _linked(trace: TraceText) -> list[Event]:
    return _some(e for e in trace.kernels if e.correlation in trace.launches)


def _reused_once(trace: TraceText) -> Made:
    """Two kernels, the second launched after the first began: the nearest launch is the right one."""
    linked = sorted(_linked(trace), key=lambda e: e.ts)
    first = linked[0]
    second = _some(e for e in linked if trace.launches[e.correlation].ts > first.end)[0]
    return _reuse(trace, [first, second], first.correlation)


def _one_correlation(trace: TraceText) -> Made:
    return _reuse(trace, _linked(trace), 1)


def _graph(trace: TraceText) -> tuple[Event, list[Event]]:
    """Four kernels as of one graph: they begin after the first of their launches."""
    first, *others = sorted(_linked(trace), key=lambda e: e.ts)[: 1 + GRAPH_KERNELS]
    launch = trace.launches[first.correlation]
    return first, [e for e in others if e.ts > launch.end]


def _graph_kernels(trace: TraceText) -> Made:
    """A graph captured before the profiler started: kernels whose launch was never seen."""
    kernels = _graph(trace)[1]
    gone = [trace.launches[e.correlation] for e in kernels]
    gone += [flow for e in kernels for flow in trace.flows(e.correlation)]
    return Made(data=trace.without(gone), expected=reads(lost=gone, note="kernels without a launch are kept"))


def _graph_launch(trace: TraceText) -> Made:
    """A graph: one launch, several kernels of its correlation id."""
    first, others = _graph(trace)
    launch = trace.launches[first.correlation]
    edits: Edits = {launch.index: launch.named("cudaGraphLaunch")}
    gone = [trace.launches[e.correlation] for e in others]
    for event in others:
        edits[event.index] = event.with_value("correlation", str(first.correlation))
        edits |= {flow.index: None for flow in trace.flows(event.correlation)}
    edits |= {event.index: None for event in gone}
    return Made(data=trace.render(edits), expected=reads(lost=gone, note="one launch of many kernels is not reuse"))


# ranks and groups


def _info(trace: TraceText) -> dict[str, Any]:
    if not trace.has_rank:
        raise NoSuitableEventError("no rank in the seed")
    return dict(trace.metadata("distributedInfo"))


def _with_info(trace: TraceText, **changes: object) -> TraceText:
    return trace.with_metadata("distributedInfo", json.dumps(_info(trace) | changes))


def _no_info(trace: TraceText) -> TraceText:
    _info(trace)
    return trace.without_metadata("distributedInfo")


def _info_without_rank(trace: TraceText) -> TraceText:
    info = {key: value for key, value in _info(trace).items() if key != "rank"}
    return trace.with_metadata("distributedInfo", json.dumps(info))


def _info_at_the_end(trace: TraceText) -> TraceText:
    info = _info(trace)
    return trace.without_metadata("distributedInfo").with_tail_metadata("distributedInfo", json.dumps(info))


def _cut_config(trace: TraceText) -> TraceText:
    """The groups as a string that ends in the middle, as above 128 ranks."""
    ranks = list(range(129))
    config = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 129, "ranks": ranks}]
    return _with_info(trace, pg_config=json.dumps(config)[:400])


# several ranks


def _shifted(text: str, event: Event, shift: Decimal) -> str:
    return set_value(text, "ts", str(event.ts + shift)) if shift and "ts" in event.fields else text


def _other_ids(text: str, event: Event, offset: int) -> str:
    number = event.args.get("External id")
    return set_value(text, "External id", str(number + offset)) if offset and isinstance(number, int) else text


def _two_ranks(*, shift_us: str = "0", id_offset: int = 0, note: str) -> Callable[[TraceText], Made]:
    """The seed, and beside it the same seen from another rank."""

    def make(trace: TraceText) -> Made:
        shift = Decimal(shift_us)
        edits: Edits = {e.index: _other_ids(_shifted(e.text, e, shift), e, id_offset) for e in trace.events}
        other = _with_info(trace, rank=1) if trace.has_rank else trace
        files = ((OTHER_RANK, other.render(edits)),)
        return Made(data=trace.render(), expected=reads(extra_files=files, note=note))

    return make


MISSING = (
    Recipe("F17-no-device-records", _left_out(_device_records, Reason.NO_DEVICE_EVENTS)),
    Recipe("F18-no-device-records-or-arrows", _left_out(_device_records_and_arrows, Reason.NO_DEVICE_EVENTS)),
    Recipe("F18-nothing-of-cuda", _left_out(_all_of_cuda, note="the same as a run on the CPU: nothing is missing")),
    Recipe("F26-no-such-category", _left_out(_one_category)),
    Recipe("F27-no-steps", _left_out(_steps)),
)

LINKS = (
    Recipe("F29-no-collective-arguments", _no_collective_args),
    Recipe("F29-collective-without-arguments", _no_args),
    Recipe("F30-no-arrows", _left_out(_arrows, note="arrows repeat the correlation ids")),
    Recipe("F30-no-correlation", _no_correlation),
    Recipe("F30-reused-correlation", _reused_once),
    Recipe("F30-one-correlation", _one_correlation),
    Recipe("F35-kernels-without-launch", _graph_kernels),
    Recipe("F35-graph-launch", _graph_launch),
)

RANKS = (
    edit_trace("F23-no-distributed-info", _no_info, also=[Reason.RANK_INFERRED]),
    edit_trace("F23-no-rank", _info_without_rank, also=[Reason.RANK_INFERRED]),
    edit_trace("F23-rank-minus-one", lambda trace: _with_info(trace, rank=-1), also=[Reason.RANK_INFERRED]),
    edit_trace("F23-rank-string", lambda trace: _with_info(trace, rank="worker"), also=[Reason.RANK_INFERRED]),
    edit_trace("F25-metadata-after-events", _info_at_the_end),
    edit_trace("F31-group-config-cut", _cut_config, {Reason.TRUNCATED_GROUP_CONFIG: 1}),
    edit_trace(
        "F33-file-name-of-other-rank",
        _with_info,
        file_name="rank-3.pt.trace.json",
        note="the rank in the trace wins over the one in a name or a log line",
    ),
)

SEVERAL_RANKS = (
    Recipe("F28-other-external-ids", _two_ranks(id_offset=100_000, note="ranks are never joined on external ids")),
    Recipe("F36-clock-of-host", _two_ranks(shift_us="347.125", note="hosts differ by hundreds of us")),
    Recipe("F36-clock-of-die", _two_ranks(shift_us="11560000", note="a raw offset of 11.56 s")),
    Recipe("F37-same-pids", _two_ranks(note="both ranks have the same pids and tids")),
)

RECIPES: tuple[Recipe, ...] = (*MISSING, *LINKS, *RANKS, *SEVERAL_RANKS)
