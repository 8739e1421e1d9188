"""What a block is for, by the stack that allocated it: the innermost frame that proves something decides; else unknown.

A stack may hold C++ frames (`stacks="all"`) or Python alone. Names of torch and of what runs on it are known here only.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redline.ledger.memory.memory_accounts import MemoryAccount
from redline.trace.snapshot.snapshot import StackFrame

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
    """Of the frames of a stack, the innermost first."""
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
