"""Blocks are named by evidence: stacks, what frees them, what finds them, and sizes; without it they are unknown."""

from pathlib import Path

import pytest

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.allocations import memory_history
from redline.ledger.memory.attribution import attributed, site_of, stack_evidence
from redline.ledger.memory.byte_ledger import ByteLedger, byte_ledger
from redline.trace.snapshot.read_snapshot import read_snapshot
from redline.trace.snapshot.snapshot import StackFrame
from tests.support.made_snapshots import MAIN, MIB, Frame, MadeAllocator

_TORCH = "/env/lib/python3.11/site-packages/torch"
CALL: Frame = ("_call_impl", f"{_TORCH}/nn/modules/module.py", 1787)
LINEAR: Frame = ("forward", f"{_TORCH}/nn/modules/linear.py", 134)
MODEL: Frame = ("forward", "/job/model.py", 12)
STEP: Frame = ("step", f"{_TORCH}/optim/adamw.py", 220)
INIT_GROUP: Frame = ("_init_group", f"{_TORCH}/optim/adamw.py", 120)
FOREACH: Frame = ("_multi_tensor_adamw", f"{_TORCH}/optim/adamw.py", 500)
ENGINE: Frame = ("torch::autograd::Engine::thread_main(std::shared_ptr<GraphTask> const&)", "engine.cpp", 0)
ACCUMULATE: Frame = ("torch::autograd::AccumulateGrad::apply(variable_list&&)", "??", 0)
RECOMPUTE: Frame = ("recompute_fn", f"{_TORCH}/utils/checkpoint.py", 1000)
ZERO_GRAD: Frame = ("zero_grad", f"{_TORCH}/optim/optimizer.py", 900)
GATHER: tuple[Frame, ...] = (
    ("init_all_gather_outputs", f"{_TORCH}/distributed/fsdp/_fully_shard/_fsdp_param.py", 475),
    ("pre_forward", f"{_TORCH}/distributed/fsdp/_fully_shard/_fsdp_param_group.py", 449),
)


def _frames(*frames: Frame) -> tuple[StackFrame, ...]:
    return tuple(StackFrame(*frame) for frame in frames)


@pytest.mark.parametrize(
    ("account", "frames"),
    [
        (MemoryAccount.ACTIVATIONS, (LINEAR, CALL, MODEL, CALL, MAIN)),
        (
            MemoryAccount.ACTIVATIONS,
            (LINEAR, CALL, MODEL, RECOMPUTE, ENGINE),
        ),
        (MemoryAccount.OPTIMIZER_STATES, (INIT_GROUP, STEP, MAIN)),
        (MemoryAccount.TEMPORARIES, (FOREACH, STEP, MAIN)),
        (MemoryAccount.UNKNOWN, (("step", f"{_TORCH}/optim/lr_scheduler.py", 5), MAIN)),
        (MemoryAccount.COMMUNICATION, (*GATHER, CALL, MODEL, MAIN)),
        (MemoryAccount.COMMUNICATION, (("c10d::Reducer::Reducer(...)", "reducer.cpp", 0), MAIN)),
        (MemoryAccount.GRADIENTS, (ACCUMULATE, ENGINE)),
        (MemoryAccount.BACKWARD, (ENGINE,)),
        (MemoryAccount.BACKWARD, (("backward", "/job/function.py", 7), ENGINE)),
        (MemoryAccount.LOGITS, (("cross_entropy", f"{_TORCH}/nn/functional.py", 3504), CALL, MODEL, MAIN)),
        (MemoryAccount.LOGITS, (("__call__", "/job/loss.py", 46), MAIN)),
        (MemoryAccount.PARAMETERS, (("__init__", f"{_TORCH}/nn/modules/linear.py", 100), MAIN)),
        (MemoryAccount.PARAMETERS, (("convert", f"{_TORCH}/nn/modules/module.py", 1), ("_apply", "m.py", 1), MAIN)),
        (MemoryAccount.INPUTS, (("torch::autograd::THPVariable_to(_object*)", "x.cpp", 0), MAIN)),
        (MemoryAccount.INPUTS, (("next_batch", "/job/data.py", 3), MAIN)),
        (MemoryAccount.TEMPORARIES, (("at::cuda::getCurrentCUDABlasHandle()", "x.cpp", 0), LINEAR, CALL, MAIN)),
        (MemoryAccount.UNKNOWN, (MAIN,)),
        (MemoryAccount.UNKNOWN, ()),
    ],
)
def test_what_a_stack_proves(account: MemoryAccount, frames: tuple[Frame, ...]) -> None:
    assert stack_evidence(_frames(*frames)).account is account


def test_the_site_is_a_line_of_the_user() -> None:
    assert site_of(_frames(LINEAR, CALL, MODEL, CALL, MAIN)) == "model.py:12 forward"
    assert site_of(_frames(FOREACH, STEP)) == "adamw.py:500 _multi_tensor_adamw"
    assert site_of(_frames(ACCUMULATE, ENGINE)).startswith("torch::autograd::Engine::thread_main")
    assert site_of(_frames(("forward", "/env/lib/python3.11/site-packages/transformers/llama.py", 9))) == (
        "llama.py:9 forward"
    )


def _ledger(made: MadeAllocator, path: Path, moment: int | None = None) -> ByteLedger:
    history = memory_history(read_snapshot(made.write(path)), 0)
    return byte_ledger(attributed(history), history.end if moment is None else moment)


def test_what_zero_grad_frees_is_a_gradient(tmp_path: Path) -> None:
    made = MadeAllocator()
    gradient = made.alloc(3 * MIB)  # a thread of autograd, with stacks of Python alone
    made.alloc(5 * MIB)
    held = len(made.events) - 1
    made.free(gradient, ZERO_GRAD, MAIN)
    ledger = _ledger(made, tmp_path / "a", held)
    assert ledger.accounts[MemoryAccount.GRADIENTS] == 3 * MIB
    assert ledger.accounts[MemoryAccount.UNKNOWN] == 5 * MIB


def test_what_backward_makes_and_the_optimizer_finds_is_a_gradient(tmp_path: Path) -> None:
    made = MadeAllocator()
    for _step in range(2):
        temporary = made.alloc(7 * MIB, ENGINE)
        made.free(temporary, ENGINE)
        gradients = [made.alloc(size * MIB, ENGINE) for size in (3, 4)]
        made.alloc(MIB, INIT_GROUP, STEP, MAIN)
        for gradient in gradients:
            made.free(gradient, MAIN)
    made.alloc(7 * MIB, ENGINE)
    made.alloc(3 * MIB, ENGINE)  # of the third step, in which no optimizer ran: as large as those that were found
    ledger = _ledger(made, tmp_path / "a")
    assert ledger.accounts[MemoryAccount.GRADIENTS] == 3 * MIB
    assert ledger.accounts[MemoryAccount.BACKWARD] == 7 * MIB
    assert ledger.accounts[MemoryAccount.OPTIMIZER_STATES] == 2 * MIB


def test_marks_of_the_optimizer_prove_gradients_too(tmp_path: Path) -> None:
    made = MadeAllocator()
    made.alloc(3 * MIB, ENGINE)
    made.mark("Optimizer.step#SGD.step")
    made.alloc(MIB, MAIN)
    assert _ledger(made, tmp_path / "a").accounts[MemoryAccount.GRADIENTS] == 3 * MIB


def _sharded(copies: int, extra: int = 0) -> MadeAllocator:
    """Two weights of 8 MiB and a norm of 4 KiB, kept in quarters before the history, and gathered."""
    made = MadeAllocator()
    made.is_recording = False
    for size in (2 * MIB, 2 * MIB, 1024):
        for _copy in range(copies):
            made.alloc(size)
    for _block in range(extra):
        made.alloc(2 * MIB)
    made.begin_history()
    for size in (8 * MIB, 8 * MIB, 4096):
        made.alloc(size, *GATHER, CALL, MODEL, MAIN)
    return made


def test_sizes_of_gathered_weights_prove_the_parameters(tmp_path: Path) -> None:
    ledger = _ledger(_sharded(1), tmp_path / "a")
    assert ledger.accounts[MemoryAccount.PARAMETERS] == 4 * MIB + 1024
    assert ledger.accounts[MemoryAccount.UNKNOWN] == 0


def test_three_of_each_are_parameters_and_states_of_adam(tmp_path: Path) -> None:
    made = _sharded(3)
    made.mark("Optimizer.step#AdamW.step")
    ledger = _ledger(made, tmp_path / "a")
    assert ledger.accounts[MemoryAccount.PARAMETERS] == 4 * MIB + 1024
    assert ledger.accounts[MemoryAccount.OPTIMIZER_STATES] == 2 * (4 * MIB + 1024)


@pytest.mark.parametrize("made", [_sharded(3), _sharded(2), _sharded(1, extra=1), _sharded(0, extra=2)])
def test_sizes_that_do_not_agree_prove_nothing(tmp_path: Path, made: MadeAllocator) -> None:
    ledger = _ledger(made, tmp_path / "a")
    assert ledger.accounts[MemoryAccount.PARAMETERS] == 0
    assert ledger.accounts[MemoryAccount.UNKNOWN] == ledger.before_bytes > 0
