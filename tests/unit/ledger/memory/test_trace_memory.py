"""Memory events of a trace, paired by address: equal to an independent replay at every moment, whatever was lost."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import redline
from redline.errors import InputError
from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import HOST
from redline.ledger.memory.trace_accounts import step_phases_of, trace_accounts
from redline.ledger.memory.trace_device_memory import trace_ledger
from redline.ledger.memory.trace_memory import TraceMemory, trace_memories
from redline.trace.reader import read_file
from tests.support.events import Event, document, op, read_one, region
from tests.support.memory_jobs import mark
from tests.support.real_traces import RealTraces

KIB = 1024
Action = tuple[int, int]  # which block of eight, and how many KiB; a block that is in use is freed


def memory_of(events: list[Event], folder: Path) -> TraceMemory:
    (memory,) = trace_memories(read_one(document(events), folder))
    return memory


@given(
    actions=st.lists(st.tuples(st.integers(0, 7), st.integers(1, 64)), min_size=1, max_size=60), lost=st.integers(0, 8)
)
def test_ledgers_equal_a_replay_of_the_events(
    actions: list[Action], lost: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """With a total before the recording, and blocks that were allocated before it (whose births are left out)."""
    in_use: dict[int, int] = {}
    events: list[Event] = [op("aten::add", 0, 1000)]
    totals, total = [], 1 << 20
    for number, (block, size) in enumerate(actions):
        change = -in_use.pop(block) if block in in_use else size * KIB
        if change > 0:
            in_use[block] = change
        total += change
        if number >= lost:
            events.append(mark(float(number + 1), change, 4096 * (block + 1) * KIB, total, device=0, reserved=1 << 24))
            totals.append(total)
    if not totals:
        return
    memory = memory_of(events, tmp_path_factory.mktemp("trace"))
    assert memory.live_bytes[1:].tolist() == totals
    told = trace_accounts(memory, step_phases_of(memory.timeline))
    for moment in range(-1, len(totals)):
        ledger = trace_ledger(memory, told, moment)
        assert sum(ledger.accounts.values()) == 1 << 24
        assert ledger.live_bytes == int(memory.live_bytes[moment + 1])
    assert memory.missed == 0


def test_a_block_that_is_allocated_twice_lost_an_event(tmp_path: Path) -> None:
    memory = memory_of(
        [op("aten::add", 0, 100), mark(1, KIB, 64), mark(2, 2 * KIB, 64), mark(3, -2 * KIB, 64)], tmp_path
    )
    assert memory.live_bytes.tolist() == [0, KIB, 2 * KIB, 0]
    assert memory.missed == 1


def test_what_dies_in_its_operator_is_a_temporary_and_what_a_gradient_needs_an_activation(tmp_path: Path) -> None:
    events = [
        op("aten::linear", 0, 10, **{"Sequence number": 1}),
        mark(1, 3 * KIB, 64),
        mark(2, KIB, 128),
        mark(3, -KIB, 128),
        op("aten::nll_loss", 20, 10, **{"Sequence number": 2}),
        mark(21, 5 * KIB, 256),
        op("autograd::engine::evaluate_function: AddmmBackward0", 40, 20, **{"Sequence number": 1, "Fwd thread id": 1}),
        mark(41, 7 * KIB, 512),
        mark(42, 2 * KIB, 600),
        mark(43, -2 * KIB, 600),
        mark(50, -3 * KIB, 64),
        region("Optimizer.step#AdamW.step", 70, 20),
        op("aten::zeros_like", 71, 5),
        mark(72, 14 * KIB, 1024),
        region("Optimizer.zero_grad#AdamW.zero_grad", 95, 4),
        mark(96, -7 * KIB, 512),
    ]
    memory = memory_of(events, tmp_path)
    told = trace_accounts(memory, step_phases_of(memory.timeline))
    sums = {moment: trace_ledger(memory, told, moment).accounts for moment in range(len(memory.events))}
    assert sums[1][MemoryAccount.TEMPORARIES] == KIB
    assert sums[1][MemoryAccount.ACTIVATIONS] == 3 * KIB
    assert sums[3][MemoryAccount.LOGITS] == 5 * KIB
    assert sums[5][MemoryAccount.TEMPORARIES] == 2 * KIB
    assert sums[8][MemoryAccount.GRADIENTS] == 7 * KIB
    assert sums[8][MemoryAccount.OPTIMIZER_STATES] == 14 * KIB
    assert sums[9][MemoryAccount.GRADIENTS] == 0


@pytest.mark.parametrize(("cast", "logits_kib"), [("aten::linear", 4 + 8 + 8), ("CompiledFunction", 8 + 8)])
def test_logits_are_cast_by_an_operator_of_their_own(cast: str, logits_kib: int, tmp_path: Path) -> None:
    """A compiled model is one operator: what is half as large as the logits in it is no other form of them."""
    apart = cast != "CompiledFunction"
    events = [
        op(cast, 0, 5 if apart else 15, **{"Sequence number": 1}),
        mark(1, 4 * KIB, 64),
        *([op("aten::to", 6, 5, **{"Sequence number": 2})] if apart else []),
        mark(7, 8 * KIB, 128),
        op("aten::cross_entropy_loss", 20, 10, **{"Sequence number": 3}),
        mark(21, 8 * KIB, 256),
        op("autograd::engine::evaluate_function: AddmmBackward0", 40, 20, **{"Sequence number": 1, "Fwd thread id": 1}),
        region("Optimizer.step#AdamW.step", 70, 20),
    ]
    memory = memory_of(events, tmp_path)
    assert (
        trace_ledger(memory, trace_accounts(memory, step_phases_of(memory.timeline)), 2).accounts[MemoryAccount.LOGITS]
        == logits_kib * KIB
    )


def test_a_trace_without_memory_events_says_how_to_record_them(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(document([op("aten::add", 0, 10)]))
    with pytest.raises(InputError, match="a trace without memory events; record one by `redline run` with memory=True"):
        redline.memory(tmp_path / "a.json")


def test_a_trace_without_addresses_says_so(tmp_path: Path) -> None:
    event = mark(1, KIB, 0)
    del event["args"]["Addr"]
    (tmp_path / "a.json").write_bytes(document([op("aten::add", 0, 10), event]))
    with pytest.raises(InputError, match="its memory events have no addresses"):
        redline.memory(tmp_path / "a.json")


@pytest.mark.needs_traces
@pytest.mark.parametrize(
    "name",
    ["h100_Qwen_Qwen1.5-0.5B-Chat", "h100_gaunernst_bert-small-uncased", "hta_df_index_resolver", "mi300_ddp_resnet18"],
)
def test_real_gpu_traces_agree_with_the_totals_of_the_allocator(name: str, traces: RealTraces) -> None:
    for timeline in read_file(traces / f"{name}.json.gz").timelines:
        for memory in trace_memories(timeline):
            if memory.device != HOST and not memory.missed:
                assert memory.live_bytes[1:].tolist() == memory.events.allocated_bytes.tolist()
                told = trace_accounts(memory, step_phases_of(memory.timeline))
                trace_ledger(memory, told, memory.peak)
