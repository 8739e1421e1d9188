"""The account of each allocation of a device: by its stack, then by what its life and its size prove beyond that."""

import re
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from math import gcd

import numpy as np
from numpy.typing import NDArray

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import BEFORE, MemoryHistory
from redline.trace.snapshot.snapshot import NO_STACK, StackFrame
from redline.values import dataclass

I64 = NDArray[np.int64]
ACCOUNTS = tuple(MemoryAccount)
_NUMBER = {account: number for number, account in enumerate(ACCOUNTS)}
_LARGE_LOSS = 1 << 20  # smaller logits are not worth a name
_ADAM_STATES = 2  # for each parameter
_OPTIMIZER = r"(/|^)(torch/optim|optimizers?|apex/optimizers|bitsandbytes/optim|deepspeed/ops/adam)/(?!lr_sched|swa_)"
_COMMUNICATION = (
    r"(_fsdp_(collectives|param|param_group)|_flat_param|_unshard_param_utils|distributed_c10d|_functional_collectives"
    r"|_symmetric_memory/__init__)\.py$"
)
_MODULES = r"(/|^)torch/nn/(functional|modules/\w+)\.py$"
_PARAMETERS = (
    r"^(reset_parameters|_?init_weights|_?init_parameters|to_empty|_apply|_load_from_state_dict|load_state_dict"
    r"|from_pretrained|_init_sharded_param|materialize_\w+)$"
)
_LOSSES = r"^(cross_entropy|nll_loss|log_softmax|binary_cross_entropy\w*|kl_div)$|loss"
# A function and its file, and what they prove; the first that fits a frame counts. None: the frame proves nothing.
_PROOFS = tuple(
    (re.compile(name, re.IGNORECASE), re.compile(file, re.IGNORECASE), account)
    for name, file, account in (
        (r"^_?(init_group|init_states?|initialize_states?)$", _OPTIMIZER, MemoryAccount.OPTIMIZER_STATES),
        ("", _OPTIMIZER, None),
        ("", _COMMUNICATION, MemoryAccount.COMMUNICATION),
        (_PARAMETERS, "", MemoryAccount.PARAMETERS),
        (r"^_?(engine_run_)?backward$", "", MemoryAccount.BACKWARD),
        (_LOSSES, "", MemoryAccount.LOGITS),
        ("", r"loss\w*\.py$", MemoryAccount.LOGITS),
        (r"^(__init__|convert|<lambda>)$", _MODULES, MemoryAccount.PARAMETERS),
        (r"^(forward|_call_impl|_wrapped_call_impl)$", "", MemoryAccount.ACTIVATIONS),
        ("", _MODULES, MemoryAccount.ACTIVATIONS),
    )
)
_PROOFS_OF_CODE = tuple(  # frames of C++
    (re.compile(name), account)
    for name, account in (
        (r"^c10d::|ProcessGroupNCCL|^nccl[A-Z]", MemoryAccount.COMMUNICATION),
        (r"^torch::autograd::AccumulateGrad", MemoryAccount.GRADIENTS),
        (r"^torch::autograd::(Engine|generated::\w+Backward|PyNode)|Backward\d::apply", MemoryAccount.BACKWARD),
        (r"getCurrentCUDABlasHandle|[wW]orkspace", MemoryAccount.TEMPORARIES),
    )
)
_IN_OPTIMIZER = re.compile(_OPTIMIZER)
_COPIED_IN = re.compile(r"THPVariable_(to|cuda|copy_|pin_memory)\(|^torch::autograd::dispatch_to\(")
_LOADS = re.compile(r"batch|data_?load|collate|prefetch", re.IGNORECASE)
_CLEARS = re.compile(r"^(zero_grad|set_to_none)$")
_LIBRARY = re.compile(r"(site|dist)-packages/torch/|^torch/|/lib/python3[.\d]*/(?!site-|dist-)|^<|^\?\?$|^$|^/build/")


@dataclass(frozen=True)
class StackEvidence:
    """What a stack proves."""

    account: MemoryAccount
    site: str  # file:line function, "" without a stack
    is_gather: bool = False  # one parameter's full weights, by FSDP before a forward pass
    is_optimizer: bool = False
    clears_gradients: bool = False


NOTHING = StackEvidence(MemoryAccount.UNKNOWN, "")


def stack_evidence(frames: Sequence[StackFrame]) -> StackEvidence:
    """Find what a block is for: of the frames of its stack, the innermost that proves something decides.

    A stack may hold C++ frames (`stacks="all"`) or Python alone. Names of torch and of what runs on it are known here
    only.
    """
    if not frames:
        return NOTHING
    account = next((proven for proven in map(_proof, frames) if proven is not None), None)
    names = {frame.name for frame in frames}
    return StackEvidence(
        account or _without_proof(frames),
        site_of(frames),
        is_gather="init_all_gather_outputs" in names and "pre_forward" in names,
        is_optimizer=any(_is_optimizer(frame) for frame in frames),
        clears_gradients=any(_CLEARS.match(name) for name in names),
    )


def _proof(frame: StackFrame) -> MemoryAccount | None:
    """What one frame proves, of those that prove anything."""
    if not frame.file.endswith(".py"):
        return next((account for name, account in _PROOFS_OF_CODE if name.search(frame.name)), None)
    fitting = (account for name, file, account in _PROOFS if name.search(frame.name) and file.search(frame.file))
    return next(fitting, None)


def _is_optimizer(frame: StackFrame) -> bool:
    return bool(_IN_OPTIMIZER.search(frame.file))


def _without_proof(frames: Sequence[StackFrame]) -> MemoryAccount:
    """Where no frame decides alone: what the optimizer needs for a moment, and what is copied to the device."""
    if any(_is_optimizer(frame) for frame in frames):
        return MemoryAccount.TEMPORARIES
    python = [frame for frame in frames if frame.file.endswith(".py")]
    is_copied = any(_COPIED_IN.search(frame.name) for frame in frames)
    if python and (is_copied or any(_LOADS.search(frame.name) for frame in python)):
        return MemoryAccount.INPUTS
    return MemoryAccount.UNKNOWN


def site_of(frames: Sequence[StackFrame]) -> str:
    """The line of the user's code, or of a library on top of torch; else the innermost line of Python, or of C++."""
    python = [frame for frame in frames if frame.file.endswith(".py")]
    chosen = next((frame for frame in python if not _LIBRARY.search(frame.file)), None)
    if chosen is None and not python:
        return frames[-1].name[:80]
    frame = chosen or python[0]
    return f"{frame.file.rpartition('/')[2]}:{frame.line} {frame.name}"


@dataclass(frozen=True, kw_only=True)
class AttributedMemory:
    """A history with the account of each of its allocations."""

    history: MemoryHistory
    account: I64  # place in ACCOUNTS, one per allocation
    evidence: tuple[StackEvidence, ...]  # of each stack of the snapshot; the last is that of no stack
    shard_ratio: int  # full weights over the shard that a rank keeps, where gathers prove it; else 0

    def site(self, allocation: int) -> str:
        return self.evidence[int(self.history.allocations.stack[allocation])].site


def attributed(history: MemoryHistory) -> AttributedMemory:
    """Every allocation in one account; what nothing proves is unknown."""
    frames_of = history.snapshot.frames_of
    evidence = (*(stack_evidence(frames_of(stack)) for stack in range(len(history.snapshot.stacks))), NOTHING)
    stacks = history.allocations.stack
    account = np.array([_NUMBER[proof.account] for proof in evidence])[stacks]  # -1, no stack, is the last
    _prove_gradients(history, evidence, account)
    _prove_logits(history, account)
    ratio = _prove_shards(history, evidence, account)
    return AttributedMemory(history=history, account=account, evidence=evidence, shard_ratio=ratio)


def _prove_gradients(history: MemoryHistory, evidence: tuple[StackEvidence, ...], account: I64) -> None:
    """What zero_grad frees is a gradient; so is what the backward pass made and the optimizer's step still finds."""
    table = history.allocations
    cleared = np.array([proof.clears_gradients for proof in evidence])[table.freed_by]
    is_backward = account == _NUMBER[MemoryAccount.BACKWARD]
    steps = _optimizer_events(history, evidence)
    next_step = np.append(steps, np.iinfo(np.int64).max)[np.searchsorted(steps, table.born)]
    proven = (cleared & ~_is_in(account, MemoryAccount.OPTIMIZER_STATES, MemoryAccount.PARAMETERS)) | (
        is_backward & (next_step < table.died)
    )
    # The same line that makes a gradient of this size in one step makes one in the next, which may not have ended.
    alike = {(int(table.stack[row]), int(table.requested_bytes[row])) for row in np.flatnonzero(proven & is_backward)}
    for row in np.flatnonzero(is_backward & ~proven):
        proven[row] = (int(table.stack[row]), int(table.requested_bytes[row])) in alike
    account[proven] = _NUMBER[MemoryAccount.GRADIENTS]


def _optimizer_events(history: MemoryHistory, evidence: tuple[StackEvidence, ...]) -> I64:
    """Events at which the optimizer was at work: by their stacks, or between marks of torch."""
    at_work = np.array([proof.is_optimizer and not proof.clears_gradients for proof in evidence])[history.events.stack]
    begins = [
        mark.at_us
        for mark in history.snapshot.annotations
        if mark.is_begin and mark.device == history.device and mark.name.startswith("Optimizer.step#")
    ]
    has_times = bool(history.events.at_us.any())
    marked = np.searchsorted(history.events.at_us, np.array(begins if has_times else [], np.int64))
    events = np.union1d(np.flatnonzero(at_work), marked)
    return events[events < len(history.events)].astype(np.int64)


def _prove_logits(history: MemoryHistory, account: I64) -> None:
    """Activations of one site, with as many elements as the loss takes in 32 bits, are the logits in 16 or in 32."""
    table = history.allocations
    of_loss = np.flatnonzero(account == _NUMBER[MemoryAccount.LOGITS])
    asked = [int(history.events.size_bytes[oom]) for oom in history.ooms]
    largest = max([*map(int, table.requested_bytes[of_loss]), *asked], default=0)
    if not len(of_loss) or largest < _LARGE_LOSS or largest not in table.requested_bytes[of_loss]:
        return
    is_activation = account == _NUMBER[MemoryAccount.ACTIVATIONS]
    for size in {largest, largest // 2}:
        rows = np.flatnonzero(is_activation & (table.requested_bytes == size))
        if len(np.unique(table.stack[rows])) == 1:
            account[rows] = _NUMBER[MemoryAccount.LOGITS]


def _prove_shards(history: MemoryHistory, evidence: tuple[StackEvidence, ...], account: I64) -> int:
    """Blocks from before the history whose sizes are those of the weights that FSDP gathers, all over one number.

    One such block for each gathered weight is the parameters. Three, beside an Adam, are these and two states each.
    """
    table = history.allocations
    gathers = np.array([proof.is_gather for proof in evidence])[table.stack] & (table.stack != NO_STACK)
    gathered = Counter(table.requested_bytes[gathers].tolist())
    unknown = (table.born == BEFORE) & (account == _NUMBER[MemoryAccount.UNKNOWN])
    held = Counter(table.requested_bytes[unknown].tolist())
    if not gathered:
        return 0
    passes = reduce(gcd, gathered.values())
    ratios: list[int] = sorted({max(gathered) // size for size in held if size and max(gathered) % size == 0})
    for ratio in ratios:
        copies = {held.get(size // ratio, 0) / (count // passes) for size, count in gathered.items()}
        if any(size % ratio for size in gathered) or len(copies) != 1:
            continue
        copy = copies.pop()
        has_adam = any(mark.name.startswith("Optimizer.step#Adam") for mark in history.snapshot.annotations)
        if copy == 1 or (copy == 1 + _ADAM_STATES and has_adam):
            _name_shards(history, account, unknown, {size // ratio for size in gathered}, int(copy))
            return ratio
    return 0


def _name_shards(
    history: MemoryHistory, account: I64, unknown: NDArray[np.bool_], sizes: set[int], copies: int
) -> None:
    """Of each size, one block in `copies` is a parameter: which of them it is does not change any sum."""
    table = history.allocations
    for size in sizes:
        rows = np.flatnonzero(unknown & (table.requested_bytes == size))
        parameters = len(rows) // copies
        account[rows[:parameters]] = _NUMBER[MemoryAccount.PARAMETERS]
        account[rows[parameters:]] = _NUMBER[MemoryAccount.OPTIMIZER_STATES]


def _is_in(account: I64, *named: MemoryAccount) -> NDArray[np.bool_]:
    return np.isin(account, [_NUMBER[name] for name in named])
