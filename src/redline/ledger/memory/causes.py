"""Why memory is full: each cause with the most bytes that mending it can save."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from statistics import median

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import DeviceMemory
from redline.ledger.rank.host_phases import Phase
from redline.numerics import Numerics
from redline.values import dataclass

_OF_POSITIONS = (MemoryAccount.ACTIVATIONS, MemoryAccount.LOGITS, MemoryAccount.INPUTS)
"""Accounts that grow with the batch and its length; attention by hand with the square of the length."""
_UNEVEN = 0.1  # of what the median of the others has in use
_LEAST_KEPT_ACTIVATIONS = 0.3  # of what is reserved: below, recomputing all of them is much time for little
_LEAST_WHOLE_LOGITS = 0.1  # of what is reserved
_LEAST_GRADIENTS_IN_FORWARD = 0.05  # of what is reserved
_LEAST_OPTIMIZER_TEMPORARIES = 0.05  # of what is reserved
_COPIES = 0.5  # of the parameters: fewer are those of a few at a time
_LEAST_FRAGMENTATION = 0.1  # of what is reserved
_LEAST_REPLICATED_STATES = 0.1  # of what is reserved
_ALIKE = 0.001
_WHOLE = 1.5  # times the parameters: a shard of Adam's states, on two ranks or more, is at most as large as these
_LEAST_EARLIER_STEP = 0.05  # of what is reserved
_LEAST_PADDING = 0.05  # of what is reserved
_USABLE = 0.9  # of the device: the context, NCCL and fragmentation need the rest
_LEAST_TIMES = 2.0  # as large a batch


@dataclass(frozen=True, kw_only=True)
class MemoryCause:
    """One cause at the peak of one device."""

    code: str = ""  # of the rule that found it
    saves_bytes: int  # of what is in use or reserved at that moment, at most
    site: str = ""  # where most of it is made
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class FullMemory:
    """What the rules look at: the device that is fullest, and those of the other ranks."""

    device: DeviceMemory
    others: tuple[DeviceMemory, ...]  # of the same kind: hosts, or accelerators
    capacity_bytes: int = 0  # of the device; 0 where it is not known

    def held(self, account: MemoryAccount) -> int:
        return self.device.shown.accounts[account]

    def needed(self, account: MemoryAccount) -> int:
        """Without what other causes tell of: left by earlier steps, held by this rank alone, or padding."""
        needed = self.held(account) - self.device.evidence.earlier_bytes.get(account, 0)
        if self.is_uneven:
            needed = min(needed, round(median(device.shown.accounts[account] for device in self.others)))
        return round(needed * self.device.used_share**2) if account in _OF_POSITIONS else needed

    @property
    def more_bytes(self) -> float:
        """In use beyond the median of the other ranks."""
        live_bytes = self.device.peak.live_bytes
        return live_bytes - median([device.peak.live_bytes for device in self.others] or [live_bytes])

    @property
    def is_uneven(self) -> bool:
        """One rank holds far more than the others."""
        return self.more_bytes >= _UNEVEN * (self.device.peak.live_bytes - self.more_bytes) > 0

    @property
    def positions_bytes(self) -> int:
        """What grows with the batch; temporaries of the optimizer do not."""
        is_of_parameters = self.device.evidence.phase is Phase.OPTIMIZER
        temporaries = 0 if is_of_parameters else self.held(MemoryAccount.TEMPORARIES)
        return sum(map(self.held, _OF_POSITIONS)) + temporaries

    def share(self, size_bytes: float) -> float:
        """Of what is reserved."""
        return size_bytes / max(self.device.shown.reserved_bytes, 1)

    def largest_site(self, account: MemoryAccount) -> str:
        return next((holder.site for holder in self.device.shown.holders if holder.account is account), "")

    @property
    def trains(self) -> bool:
        """Gradients or states were seen at some time."""
        kinds = (MemoryAccount.GRADIENTS, MemoryAccount.OPTIMIZER_STATES, MemoryAccount.BACKWARD)
        return any(kind in self.device.course.accounts for kind in kinds)


@dataclass(frozen=True, kw_only=True)
class MemoryRule:
    """Looks for one cause; its code has a page among those of the findings."""

    code: str
    numerics: Numerics  # what the fix does to results
    find: Callable[[FullMemory], Iterator[MemoryCause]]


def account_cause(full: FullMemory, account: MemoryAccount, least: float) -> Iterator[MemoryCause]:
    """All that is needed of an account, if it is at least this share of what is reserved."""
    needed = full.needed(account)
    if full.share(needed) >= least:
        yield MemoryCause(saves_bytes=needed, site=full.largest_site(account), figures={"share": full.share(needed)})


GROWTH = "RL-M02"
Find = Callable[[FullMemory], Iterator[MemoryCause]]
RULES: list[MemoryRule] = []


def rule(code: str, numerics: Numerics) -> Callable[[Find], Find]:
    def declared(find: Find) -> Find:
        RULES.append(MemoryRule(code=code, numerics=numerics, find=find))
        return find

    return declared


@rule(GROWTH, Numerics.BITWISE)
def growth(full: FullMemory) -> Iterator[MemoryCause]:
    """A call site adds memory in every step, and nobody frees it."""
    for growth in full.device.growth:
        yield MemoryCause(
            saves_bytes=growth.held_bytes,
            site=growth.site,
            figures={"bytes_per_step": growth.bytes_per_step, "steps": growth.steps},
        )


@rule("RL-M03", Numerics.BITWISE)
def kept_activations(full: FullMemory) -> Iterator[MemoryCause]:
    """Activations wait for the backward pass that could be computed again in it.

    What it costs is one more forward pass, where the time of that is known.
    """
    costs = {"forward_share": full.device.forward_share} if full.device.forward_share else {}
    if full.trains:
        for cause in account_cause(full, MemoryAccount.ACTIVATIONS, _LEAST_KEPT_ACTIVATIONS):
            yield replace(cause, figures={**cause.figures, **costs})


@rule("RL-M04", Numerics.REASSOCIATION)
def whole_logits(full: FullMemory) -> Iterator[MemoryCause]:
    """Logits of all tokens are there at once, often in 32 bits and twice."""
    yield from account_cause(full, MemoryAccount.LOGITS, _LEAST_WHOLE_LOGITS)


@rule("RL-M05", Numerics.BITWISE)
def gradients_in_forward(full: FullMemory) -> Iterator[MemoryCause]:
    """Gradients of the step before are still there while a forward and a backward pass fill the memory.

    Where gradients are added up over several batches, they are needed.
    """
    stale, reserved = full.device.evidence.stale_gradients_bytes, full.device.peak.reserved_bytes
    if stale >= _LEAST_GRADIENTS_IN_FORWARD * max(reserved, 1) and not full.device.accumulates:
        yield MemoryCause(saves_bytes=stale, figures={"share": stale / reserved})


@rule("RL-M06", Numerics.REASSOCIATION)
def optimizer_temporaries(full: FullMemory) -> Iterator[MemoryCause]:
    """The peak is in the optimizer's step, which works on copies of all parameters at once."""
    temporaries, parameters = full.held(MemoryAccount.TEMPORARIES), full.held(MemoryAccount.PARAMETERS)
    if full.device.evidence.phase == Phase.OPTIMIZER and temporaries >= _COPIES * parameters:
        yield from account_cause(full, MemoryAccount.TEMPORARIES, _LEAST_OPTIMIZER_TEMPORARIES)


@rule("RL-M07", Numerics.BITWISE)
def fragmentation(full: FullMemory) -> Iterator[MemoryCause]:
    """Much of what the allocator has reserved is free, in pieces that no request fits into."""
    yield from account_cause(full, MemoryAccount.CACHED, _LEAST_FRAGMENTATION)


@rule("RL-M08", Numerics.REASSOCIATION)
def uneven_ranks(full: FullMemory) -> Iterator[MemoryCause]:
    """One rank holds far more than the others, and limits them all."""
    if full.is_uneven:
        usual_bytes = full.device.peak.live_bytes - full.more_bytes
        figures = {"usual_bytes": usual_bytes, "ranks": len(full.others) + 1}
        yield MemoryCause(saves_bytes=round(full.more_bytes), figures=figures)


@rule("RL-M09", Numerics.REASSOCIATION)
def replicated_states(full: FullMemory) -> Iterator[MemoryCause]:
    """Every rank keeps the same optimizer states.

    Ranks that hold whole parameters and states of them, as many as each other.
    """
    states, parameters = full.held(MemoryAccount.OPTIMIZER_STATES), full.held(MemoryAccount.PARAMETERS)
    alike = [
        device
        for device in full.others
        if abs(device.shown.accounts[MemoryAccount.OPTIMIZER_STATES] - states) <= _ALIKE * states
    ]
    is_replicated = alike and len(alike) == len(full.others) and not full.device.is_sharded
    if is_replicated and 0 < _WHOLE * parameters <= states and full.share(states) >= _LEAST_REPLICATED_STATES:
        ranks = len(alike) + 1
        yield MemoryCause(saves_bytes=states * (ranks - 1) // ranks, figures={"ranks": ranks, "states_bytes": states})


@rule("RL-M10", Numerics.BITWISE)
def earlier_step(full: FullMemory) -> Iterator[MemoryCause]:
    """Outputs or the graph of the step before are still there while the next one fills the memory.

    What nobody ever lets go is growth.
    """
    evidence = full.device.evidence
    share = evidence.left_over_bytes / max(full.device.peak.reserved_bytes, 1)
    if share >= _LEAST_EARLIER_STEP:
        yield MemoryCause(
            saves_bytes=evidence.left_over_bytes,
            site=evidence.left_over_site,
            figures={"share": share},
        )


@rule("RL-M11", Numerics.REASSOCIATION)
def padding(full: FullMemory) -> Iterator[MemoryCause]:
    """Batches are padded far beyond what they hold, and activations and logits of padding fill the memory.

    At most what would be saved if all of it grew with the square of the length.
    """
    used = full.device.used_share
    most = round(full.positions_bytes * (1 - used**2))
    if full.share(most) >= _LEAST_PADDING:
        yield MemoryCause(saves_bytes=most, figures={"share": full.share(most), "padding_share": 1 - used})


@rule("RL-M12", Numerics.SEMANTICS)
def unused_memory(full: FullMemory) -> Iterator[MemoryCause]:
    """A training job leaves much of its accelerator's memory unused: the batch could be larger.

    What grows with the batch may take all that is free; weights, gradients and states stay.
    """
    device = full.device
    if device.is_host or device.failure is not None or not full.trains:
        return
    free = _USABLE * full.capacity_bytes - device.peak.reserved_bytes
    times = 1 + free / max(full.positions_bytes, 1)
    if full.capacity_bytes and times >= _LEAST_TIMES:
        yield MemoryCause(saves_bytes=0, figures={"free_bytes": free, "times": times})


def memory_causes(full: FullMemory) -> tuple[MemoryCause, ...]:
    """What grows comes first, since no size of memory is enough for it; then the one that saves most."""
    found = [replace(cause, code=one.code) for one in RULES for cause in one.find(full)]
    return tuple(sorted(found, key=lambda cause: (cause.code != GROWTH, -cause.saves_bytes)))


def fullest_device(devices: Sequence[DeviceMemory]) -> DeviceMemory:
    """One that ran out, else the one that held most."""
    return max(devices, key=lambda device: (device.failure is not None, device.shown.live_bytes))


def like_devices(device: DeviceMemory, devices: Sequence[DeviceMemory]) -> tuple[DeviceMemory, ...]:
    """The others of its kind: hosts, or accelerators."""
    return tuple(other for other in devices if other is not device and other.is_host == device.is_host)


def causes_of_fullest(devices: Sequence[DeviceMemory], device_bytes: int = 0) -> tuple[MemoryCause, ...]:
    """`device_bytes`: the memory of a device, where somebody knows better than the trace."""
    first = fullest_device(devices)
    capacity_bytes = device_bytes or first.capacity_bytes
    return memory_causes(FullMemory(device=first, others=like_devices(first, devices), capacity_bytes=capacity_bytes))


def peaks_by_rank(devices: Sequence[DeviceMemory]) -> dict[int, int]:
    """What each rank has in use at its peak, on the fullest of its devices."""
    peaks: dict[int, int] = {}
    for device in devices:
        rank = -1 if device.rank is None else device.rank
        peaks[rank] = max(peaks.get(rank, 0), device.peak.live_bytes)
    return peaks
