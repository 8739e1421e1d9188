"""The memory of every device of a trace that has memory events: its peak, its steps, and what stays between them."""

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from redline.errors import InputError, OtherKindError
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import BEFORE
from redline.ledger.memory.attribution import ACCOUNTS
from redline.ledger.memory.byte_ledger import ByteLedger, MemoryHolder, check_ledger, holders_of
from redline.ledger.memory.device_memory import HOST, DeviceMemory, StepPeak
from redline.ledger.memory.memory_course import MemoryCourse, fullest, memory_course, memory_growth
from redline.ledger.memory.trace_accounts import TraceAccounts, peak_evidence, step_phases_of, trace_accounts
from redline.ledger.memory.trace_memory import UNSEEN, TraceMemory, has_allocations, trace_memories
from redline.ledger.rank.padding import padding_of
from redline.timeline.timeline import Timeline
from redline.trace.memory_timeline import CATEGORIES, read_memory_timeline

I64 = NDArray[np.int64]
_ACCOUNTS = {
    "parameter": MemoryAccount.PARAMETERS,
    "optimizer state": MemoryAccount.OPTIMIZER_STATES,
    "input": MemoryAccount.INPUTS,
    "temporary": MemoryAccount.TEMPORARIES,
    "activation": MemoryAccount.ACTIVATIONS,
    "gradient": MemoryAccount.GRADIENTS,
    "autograd detail": MemoryAccount.BACKWARD,
    "none": MemoryAccount.UNKNOWN,
}


def trace_device_memories(timeline: Timeline) -> tuple[DeviceMemory, ...]:
    """InputError where no memory event was recorded, or none with an address."""
    if not len(timeline.memory):
        raise OtherKindError(
            f"{timeline.source.path}: a trace without memory events; record one by `redline run` with memory=True."
        )
    if not has_allocations(timeline):
        raise InputError(f"{timeline.source.path}: its memory events have no addresses, as before torch 1.12.")
    return tuple(trace_device_memory(memory) for memory in trace_memories(timeline))


def trace_device_memory(memory: TraceMemory) -> DeviceMemory:
    events, timeline = memory.events, memory.timeline
    phases = step_phases_of(timeline)
    told = trace_accounts(memory, phases)
    padding = padding_of(timeline)
    ends = memory.moment(np.append(timeline.steps.start_ns[:1], timeline.steps.end_ns))
    return DeviceMemory(
        file=timeline.source.name,
        device=memory.device,
        events=len(events),
        span_us=int(events.at_ns[-1] - events.at_ns[0]) // 1000,
        peak=trace_ledger(memory, told, memory.peak),
        failure=None,
        failures=0,
        history_is_whole=True,
        contradictions=0,
        problems=timeline.source.problems,
        course=memory_course(memory.allocations, told.account, events.at_ns, memory.reserved_bytes, memory.other_bytes),
        is_trace=True,
        rank=timeline.rank,
        steps=_step_peaks(memory),
        growth=memory_growth(memory.allocations, told.account, told.site, ends),
        modules=_modules(memory, told),
        evidence=peak_evidence(memory, told, phases),
        accumulates=bool((phases.passes.left > 1).any()),
        is_sharded=bool(timeline.evidence.facts.fsdp),
        forward_share=phases.forward_share if memory.device == HOST else 0.0,
        used_share=1.0 if padding is None else padding.used,
        capacity_bytes=_capacity_bytes(memory),
        missed=memory.missed,
    )


def trace_ledger(memory: TraceMemory, told: TraceAccounts, moment: int) -> ByteLedger:
    """Checked against the promise of ledgers: LedgerError where bytes are in two accounts, or in none."""
    rows = memory.allocations.at(moment)
    table, account = memory.allocations.take(rows), told.account[rows]
    sites = [told.site[row] for row in rows.tolist()]
    live, reserved = int(memory.live_bytes[moment + 1]), int(memory.reserved_bytes[moment + 1])
    sums = {name: int(table.size_bytes[account == number].sum()) for number, name in enumerate(ACCOUNTS)}
    sums[MemoryAccount.UNKNOWN] += memory.other_bytes
    sums[MemoryAccount.CACHED] = reserved - live
    holders = holders_of(account, sites, table.size_bytes)
    if memory.other_bytes:
        other = MemoryHolder(account=MemoryAccount.UNKNOWN, site="", size_bytes=memory.other_bytes, blocks=0)
        holders = tuple(sorted((*holders, other), key=lambda holder: -holder.size_bytes))
    has_no_site = np.array([not site for site in sites], bool)
    from_before = (table.born == BEFORE) & (memory.held[rows] == UNSEEN)
    ledger = ByteLedger(
        moment=moment,
        reserved_bytes=reserved,
        accounts=sums,
        holders=holders,
        holes=(),
        rounding_bytes=0,
        no_stack_bytes=int(table.size_bytes[has_no_site].sum()) + memory.other_bytes,
        before_bytes=int(table.size_bytes[from_before].sum()) + memory.other_bytes,
    )
    check_ledger(ledger)
    return ledger


def _step_peaks(memory: TraceMemory) -> tuple[StepPeak, ...]:
    steps, texts, live = memory.timeline.steps, memory.timeline.texts, memory.live_bytes
    first, last = memory.moment(steps.start_ns) + 1, memory.moment(steps.end_ns) + 1  # places in `live`
    since_ns = steps.start_ns - memory.events.at_ns[0]
    return tuple(
        StepPeak(
            label=texts[label], start_ns=at_ns, peak_bytes=int(live[begin : end + 1].max()), end_bytes=int(live[end])
        )
        for begin, end, label, at_ns in zip(
            first.tolist(), last.tolist(), steps.label.tolist(), since_ns.tolist(), strict=True
        )
    )


def _capacity_bytes(memory: TraceMemory) -> int:
    """Of the device, 0 where the trace does not say: of the host, which others use too, it is never known."""
    known = [device.memory_bytes for device in memory.timeline.metadata.devices if device.id == memory.device]
    return known[0] if known else 0


def _modules(memory: TraceMemory, told: TraceAccounts) -> tuple[tuple[str, int], ...]:
    """Activations at the peak, by the part of the model that computed them; the largest first."""
    sums = Counter[str]()
    is_activation = told.account == ACCOUNTS.index(MemoryAccount.ACTIVATIONS)
    for row in memory.allocations.at(memory.peak).tolist():
        if is_activation[row]:
            sums[told.module[row]] += int(memory.allocations.size_bytes[row])
    return tuple((module, size) for module, size in sums.most_common() if module)


def timeline_device_memory(path: Path) -> DeviceMemory:
    """InputError where more is freed than there was."""
    changes = read_memory_timeline(path)
    held = {
        _ACCOUNTS[name]: np.cumsum(np.where(changes.category == number, changes.bytes, 0))
        for number, name in enumerate(CATEGORIES)
    }
    live: I64 = np.sum(list(held.values()), axis=0)
    if min(int(sizes.min()) for sizes in held.values()) < 0:
        raise InputError(f"{path}: a memory timeline in which more is freed than there was.")
    recorded = changes.at_ns >= 0  # what was there before has no time
    begin_ns = int(changes.at_ns[recorded][0]) if recorded.any() else 0
    since_ns = np.maximum(changes.at_ns - begin_ns, 0)
    return DeviceMemory(
        file=str(path),
        device=0,
        events=len(changes),
        span_us=int(since_ns[-1]) // 1000,
        peak=_ledger(held, live, int(np.argmax(live))),
        failure=None,
        failures=0,
        history_is_whole=True,
        contradictions=0,
        problems=(),
        course=_course(held, live, since_ns),
        is_trace=True,
        has_sites=False,
    )


def _ledger(held: dict[MemoryAccount, I64], live: I64, moment: int) -> ByteLedger:
    sums = {account: int(held[account][moment]) if account in held else 0 for account in MemoryAccount}
    holders = [
        MemoryHolder(account=account, site="", size_bytes=size, blocks=0) for account, size in sums.items() if size
    ]
    ledger = ByteLedger(
        moment=moment,
        reserved_bytes=int(live[moment]),
        accounts=sums,
        holders=tuple(sorted(holders, key=lambda holder: -holder.size_bytes)),
        holes=(),
        rounding_bytes=0,
        no_stack_bytes=0,
        before_bytes=0,
    )
    check_ledger(ledger)
    return ledger


def _course(held: dict[MemoryAccount, I64], live: I64, since_ns: I64) -> MemoryCourse:
    moments = fullest(since_ns, live)
    return MemoryCourse(
        at_ns=tuple(since_ns[moments].tolist()),
        accounts={account: tuple(sizes[moments].tolist()) for account, sizes in held.items() if sizes.any()},
        has_times=bool(since_ns[-1]),
    )
