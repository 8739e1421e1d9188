"""The memory of a rank as its digest keeps it: each device at its peak, its steps, what grows, and facts for causes."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from redline.errors import InputError
from redline.job.read_failures import attempted
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.byte_ledger import ByteLedger, MemoryHolder
from redline.ledger.memory.device_memory import DeviceMemory, PeakEvidence, StepPeak
from redline.ledger.memory.memory_course import MemoryCourse, MemoryGrowth
from redline.ledger.memory.trace_device_memory import trace_device_memory
from redline.ledger.memory.trace_memory import has_allocations, trace_memories
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_limits import Amount, Count
from redline.ledger.rank.packing import packed, unpacked
from redline.storage import path_of
from redline.timeline.timeline import Timeline
from redline.values import common_fields, dataclass

LEAST_BYTES = 1 << 20  # in use at the peak: a device that never held more is no matter of a diagnosis
_MOST_DEVICES = 8
_MOST_HOLDERS = 10  # and the largest of each account
_MOST_GROWTH = 5
_MOST_MODULES = 8
_MOST_LETTERS = 120  # of a call site or module
_Part = Annotated[float, Meta(ge=0, le=1)]


@dataclass(frozen=True, kw_only=True)
class KeptDevice:
    """A device of a rank; `DeviceMemory` says what its fields are."""

    device: Annotated[int, Meta(ge=-1, lt=65_536)]
    events: Count
    span_us: Count
    moment: int
    accounts: dict[MemoryAccount, Amount]  # at the peak, those that hold something: all of what is reserved
    holders: Annotated[tuple[MemoryHolder, ...], Meta(max_length=_MOST_HOLDERS + len(MemoryAccount))]
    no_stack_bytes: Amount
    before_bytes: Amount
    seen: tuple[MemoryAccount, ...]  # accounts that held something at some time
    steps: bytes  # the peak and the end of each, packed
    growth: Annotated[tuple[MemoryGrowth, ...], Meta(max_length=_MOST_GROWTH)]
    modules: Annotated[tuple[tuple[str, int], ...], Meta(max_length=_MOST_MODULES)]
    evidence: PeakEvidence
    accumulates: bool
    is_sharded: bool
    forward_share: _Part
    used_share: _Part
    capacity_bytes: Amount
    missed: Count


@dataclass(frozen=True, kw_only=True)
class RankMemory:
    """Of a rank whose allocations were recorded."""

    devices: Annotated[tuple[KeptDevice, ...], Meta(max_length=_MOST_DEVICES)] = ()  # the fullest first
    left_out: str = ""  # why nothing is said of them


def rank_memory(timeline: Timeline) -> bytes:
    """For the digest; b"" where no allocation was recorded, or none that matters."""
    if not has_allocations(timeline):
        return b""
    path = path_of(timeline.source.name)
    devices = attempted(lambda _: _kept_devices(timeline), path)
    if isinstance(devices, InputError):
        return msgspec.msgpack.encode(RankMemory(left_out=_reason(devices, path)))
    return msgspec.msgpack.encode(RankMemory(devices=devices)) if devices else b""


def _kept_devices(timeline: Timeline) -> tuple[KeptDevice, ...]:
    peaks = [(int(memory.live_bytes.max()), memory) for memory in trace_memories(timeline)]
    full = sorted((peak for peak in peaks if peak[0] >= LEAST_BYTES), key=lambda peak: -peak[0])
    return tuple(_kept(trace_device_memory(memory)) for _, memory in full[:_MOST_DEVICES])


def _reason(error: InputError, path: Path) -> str:
    """Its first line, without the name of the file, which the digest has."""
    return str(error).partition("\n")[0].removeprefix(f"{path}: ")


def _kept(device: DeviceMemory) -> KeptDevice:
    peak = device.peak
    steps = np.array([(step.peak_bytes, step.end_bytes) for step in device.steps], np.int64).reshape(-1, 2).T
    changed: dict[str, Any] = {
        "accounts": {account: size for account, size in peak.accounts.items() if size},
        "holders": tuple(_largest(peak.holders)),
        "seen": tuple(device.course.accounts),
        "steps": packed(steps),
        "growth": tuple(replace(growth, site=_clipped(growth.site)) for growth in device.growth[:_MOST_GROWTH]),
        "modules": tuple((_clipped(module), size) for module, size in device.modules[:_MOST_MODULES]),
        "evidence": replace(device.evidence, left_over_site=_clipped(device.evidence.left_over_site)),
    }
    return KeptDevice(**common_fields(device, KeptDevice) | common_fields(peak, KeptDevice) | changed)


def _largest(holders: tuple[MemoryHolder, ...]) -> Iterator[MemoryHolder]:
    """In their order, the largest first."""
    seen = set[MemoryAccount]()
    for number, holder in enumerate(holders):
        if number < _MOST_HOLDERS or holder.account not in seen:
            yield replace(holder, site=_clipped(holder.site))
        seen.add(holder.account)


def _clipped(text: str) -> str:
    return text[:_MOST_LETTERS]


# --- and back ---------------------------------------------------------------------------------------------------------


def memory_of_rank(digest: Digest) -> tuple[DeviceMemory, ...]:
    """InputError where its memory was left out, or cannot be read: the digest may be anybody's, or of another version.
    What is not kept is empty: the course, and who else holds memory."""
    try:
        kept = _decoder().decode(digest.memory)
        devices = tuple(_restored(device, digest) for device in kept.devices)
    except (msgspec.MsgspecError, ValueError, TypeError, IndexError, RecursionError) as error:
        reason = f"this part of its digest is damaged, or of another version ({error})"
        raise InputError(reason) from error
    if kept.left_out:
        raise InputError(kept.left_out)
    return devices


@cache
def _decoder() -> "msgspec.msgpack.Decoder[RankMemory]":
    return msgspec.msgpack.Decoder(RankMemory)


def _restored(kept: KeptDevice, digest: Digest) -> DeviceMemory:
    reserved_bytes = sum(kept.accounts.values())
    _check(kept.evidence, reserved_bytes)
    accounts = {account: kept.accounts.get(account, 0) for account in MemoryAccount}
    whole: dict[str, Any] = {"reserved_bytes": reserved_bytes, "accounts": accounts, "holes": (), "rounding_bytes": 0}
    not_kept: dict[str, Any] = {
        "failure": None,
        "failures": 0,
        "history_is_whole": True,
        "contradictions": 0,
        "problems": (),
    }
    restored: dict[str, Any] = {
        "file": digest.origin.source,
        "peak": ByteLedger(**common_fields(kept, ByteLedger) | whole),
        "course": MemoryCourse(at_ns=(), accounts=dict.fromkeys(kept.seen, ()), has_times=True),
        "is_trace": True,
        "rank": digest.origin.rank,
        "steps": tuple(_step_peaks(kept, digest)),
    }
    return DeviceMemory(**common_fields(kept, DeviceMemory) | not_kept | restored)


def _check(evidence: PeakEvidence, reserved_bytes: int) -> None:
    """ValueError where a part is none of the whole."""
    amounts = (evidence.stale_gradients_bytes, evidence.left_over_bytes, *evidence.earlier_bytes.values())
    if min(amounts) < 0 or max(amounts) > reserved_bytes:
        raise ValueError("parts beyond what is reserved")


def _step_peaks(kept: KeptDevice, digest: Digest) -> Iterator[StepPeak]:
    """Labels are with the steps of the digest; when they began is not kept."""
    labels = digest.origin.step_labels
    for number, (peak, end) in enumerate(unpacked(kept.steps, 2).T.tolist()):
        label = labels[number] if number < len(labels) else ""
        yield StepPeak(label=label, start_ns=0, peak_bytes=peak, end_bytes=end)
