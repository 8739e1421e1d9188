"""The devices that did the work of a trace, those included whose profiler writes unknown categories, or none.

Such work is told by who launched it and whose process it is. A lane without known work is a device's where arrows from
launches end, or correlation ids of calls stand; and in a trace without known device work, where its process is none of
the host's. Two examples:

- Ascend writes "Ascend Hardware" as a process of its own, spans without category: a device. "CANN" beside it has the
  threads of the host, and says so by its label: the host. "Overlap Analysis" holds sums of both: nothing of its own.
- A thread "queue 3" of the process that runs the operators, spans of category "x", no ids: a thread or a device,
  nothing tells. It is not used, and where no other device is there, the trace is not called a job on CPUs.
"""

from dataclasses import replace

import numpy as np

from redline.artifacts.masking import masked
from redline.timeline.problems import ProblemLog, Reason
from redline.timeline.table import I64, encodable, grouped, numbers_in
from redline.timeline.timeline import BUSY_KINDS, CALL_KINDS, NONE, Device, DeviceWork, Kind, Metadata, Timeline
from redline.trace import schema
from redline.trace.columns import RawColumns, UnknownSpans
from redline.values import dataclass

_MOST_DEVICES = 256
_WORK_OF_HOST = (Kind.OPERATOR, Kind.ANNOTATION, Kind.PYTHON)


def device_rows(timeline: Timeline) -> I64:
    """Rows of the work that keeps a device busy."""
    rows = timeline.device_work.row.astype(np.int64)
    return rows[np.isin(timeline.spans.kind[rows], np.array(BUSY_KINDS, np.uint8))]


def devices_of(timeline: Timeline) -> tuple[Device, ...]:
    """The devices that did work, in order; those without a name are left out."""
    used = {timeline.lanes[lane].device for lane in np.unique(timeline.spans.lane[device_rows(timeline)]).tolist()}
    devices = tuple(device for device in _named_devices(timeline) if device.id in used)
    # ROCm numbers devices in two ways; where all are alike it does not matter.
    return devices or (alike_device(timeline) if used else ())


def alike_device(timeline: Timeline) -> tuple[Device, ...]:
    """One of the devices that the trace lists, if all of them have the same name."""
    named = _named_devices(timeline)
    return named[:1] if len({device.name for device in named}) == 1 else ()


def _named_devices(timeline: Timeline) -> tuple[Device, ...]:
    return tuple(device for device in sorted(timeline.metadata.devices, key=lambda device: device.id) if device.name)


def told_apart(raw: RawColumns, log: ProblemLog) -> tuple[RawColumns, dict[str, tuple[int, int]]]:
    """The columns with unknown work of devices as theirs, and counts and time of what is not used, by category."""
    unknown = raw.unknown
    if not len(unknown):
        return raw, {}
    lane = raw.spans.lane[unknown.row]
    used, unclear = _lanes_of_devices(raw, set(numbers_in(lane)))
    is_work = np.isin(lane, list(used))
    log.add(Reason.DEVICE_BY_STRUCTURE, int(is_work.sum()), example=_labels(raw, unknown.take(is_work)))
    rest = unknown.take(~is_work)
    log.add(Reason.UNUSED_CATEGORY, len(rest), example=_labels(raw, rest))
    if not used and not len(raw.device_work):
        odd = unknown.take(np.isin(lane, list(unclear)))
        log.add(Reason.UNKNOWN_DEVICE, len(odd), example=_labels(raw, odd))
    unused = _amounts(raw, rest)
    raw = _as_device_work(raw, unknown.take(is_work)) if used else raw
    return replace(raw, unknown=UnknownSpans.empty()), unused


@dataclass(frozen=True, kw_only=True)
class _Host:
    """Threads and processes that run operators, Python or regions; of a trace without these, those that call."""

    lanes: set[int]
    processes: set[int | str]
    strangers: set[int | str]  # other processes: not labelled as the host's, and with threads that are not its

    @classmethod
    def of(cls, raw: RawColumns) -> "_Host":
        rows = raw.spans.rows_of(*_WORK_OF_HOST)
        lanes = set(numbers_in(raw.spans.lane[rows if len(rows) else raw.spans.rows_of(*CALL_KINDS)]))
        threads = {raw.lanes[lane][1] for lane in lanes}
        processes = {raw.lanes[lane][0] for lane in lanes}
        labelled = {process for process, label in raw.process_labels.items() if schema.is_host_label(label)}
        others = {process for process, thread, _ in raw.lanes if thread not in threads}
        return cls(lanes=lanes, processes=processes, strangers=others - processes - labelled)


def _lanes_of_devices(raw: RawColumns, lanes: set[int]) -> tuple[set[int], set[int]]:
    """Of lanes with unknown spans those of devices, and those of which nothing tells whether they are."""
    host = _Host.of(raw)
    launched = _launched_lanes(raw, host)
    summaries = {process for process, names in raw.process_names.items() if any(map(schema.is_summary_process, names))}
    used, unclear = set(), set()
    for lane in lanes - host.lanes:
        process, thread, _ = raw.lanes[lane]
        if process in summaries or schema.is_part_of_collective(raw.thread_names.get((process, thread), "")):
            continue
        is_stranger = process in host.strangers
        told = is_stranger and not len(raw.device_work) and bool(host.processes or process in raw.process_labels)
        if lane in launched or told:
            used.add(lane)
        elif is_stranger or process in host.processes:
            unclear.add(lane)
    return used, unclear


def _launched_lanes(raw: RawColumns, host: _Host) -> set[int]:
    """Lanes with spans that the host launched, as arrows or correlation ids say; its calls may be unknown, too."""
    unknown = raw.unknown
    on_host = np.isin(raw.spans.lane[unknown.row], list(host.lanes))
    calls = np.concatenate([raw.calls.correlation, unknown.correlation[on_host]])
    called = (unknown.correlation > 0) & np.isin(unknown.correlation, calls) & ~on_host
    lanes = set(numbers_in(raw.spans.lane[unknown.row[called]]))
    return lanes | {lane for lane, key in enumerate(raw.lanes) if not key[2] and key[:2] in raw.launch_ends}


def _as_device_work(raw: RawColumns, work: UnknownSpans) -> RawColumns:
    """With these spans on streams, as kernels, copies and waits."""
    spans, lanes = raw.spans, list(raw.lanes)
    numbers = {key: lane for lane, key in enumerate(lanes)}
    lane, kind = spans.lane.copy(), spans.kind.copy()
    for old, places in grouped(lane[work.row]):
        process, thread, _ = lanes[old]
        key = (process, thread, True)
        if key not in numbers:
            numbers[key] = len(lanes)
            lanes.append(key)
        lane[work.row[places]] = numbers[key]
    names = spans.name[work.row]
    kinds = {name: schema.kind_of_device_work(raw.texts[name]) for name in numbers_in(names)}
    kind[work.row] = [kinds[name] for name in names.tolist()]
    return replace(
        raw,
        spans=replace(spans, lane=lane, kind=kind),
        lanes=lanes,
        device_work=_joined(raw.device_work, work),
    )


def _joined(known: DeviceWork, work: UnknownSpans) -> DeviceWork:
    new = {"row": work.row, "correlation": work.correlation}
    none = np.full(len(work), NONE, np.int32)
    columns = {name: np.concatenate([values, new.get(name, none)]) for name, values in known.columns().items()}
    order = np.argsort(columns["row"], kind="stable")
    return DeviceWork(**{name: values[order] for name, values in columns.items()})


# --- names ------------------------------------------------------------------------------------------------------------


def _labels(raw: RawColumns, spans: UnknownSpans) -> str:
    return ", ".join(_amounts(raw, spans))


def _amounts(raw: RawColumns, spans: UnknownSpans) -> dict[str, tuple[int, int]]:
    """Counts and summed time by category; of those without one by the name of their process. The longest first."""
    dur_ns = np.maximum(raw.spans.dur_ns[spans.row], 0)
    amounts: dict[str, tuple[int, int]] = {}
    for lane, of_lane in grouped(raw.spans.lane[spans.row]):
        for category, places in grouped(spans.category[of_lane]):
            label = raw.texts[category] or _process_name(raw, raw.lanes[lane][0]) or "no category"
            count, time_ns = amounts.get(label, (0, 0))
            here = of_lane[places]
            amounts[label] = count + len(here), time_ns + int(dur_ns[here].sum())
    return dict(sorted(amounts.items(), key=lambda item: -item[1][1]))


def _process_name(raw: RawColumns, process: int | str) -> str:
    return next(iter(_process_names(raw, process)), "")


def _process_names(raw: RawColumns, process: int | str) -> list[str]:
    """All of them: whoever merges traces adds one of their own."""
    return [encodable(masked(name))[:100] for name in raw.process_names.get(process, ())]


def with_named_devices(metadata: Metadata, raw: RawColumns) -> Metadata:
    """The metadata; where it names no device, with those whose process has a name of its own ("MTIA 9")."""
    if any(device.name for device in metadata.devices):
        return metadata
    host_names = {name for process in _Host.of(raw).processes for name in _process_names(raw, process)}
    spans_of = np.bincount(raw.spans.lane, minlength=len(raw.lanes))
    devices: dict[int, Device] = {}
    for lane in np.argsort(-spans_of, kind="stable").tolist():  # the busiest process of a device names it
        process, _, on_device = raw.lanes[lane]
        name = _process_name(raw, process) if on_device else ""
        if name and name not in host_names and not schema.RANK_PROCESS_NAME.search(name):
            number = raw.lane_streams.get(lane, (NONE, NONE))[0]
            number = device_of(process) if number == NONE else number
            devices.setdefault(number, Device(id=number, name=name))
    return replace(metadata, devices=tuple(devices.values())) if devices else metadata


def device_of(process: int | str) -> int:
    """Kineto takes the device for the process; a large number is a process of the host."""
    return process if isinstance(process, int) and 0 <= process < _MOST_DEVICES else 0
