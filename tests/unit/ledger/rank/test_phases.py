"""Phases: every nanosecond of every step in one cell of phase and kind; marks of the trace say which."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.ledger.rank.host_phases import PHASES, Phase
from redline.ledger.rank.phases import KINDS, PhaseKind
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region, span

LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
OPTIMIZER, ZERO_GRAD = "Optimizer.step#AdamW.step", "Optimizer.zero_grad#AdamW.zero_grad"
NODE = "autograd::engine::evaluate_function: {}"
GRADIENT = NODE.format("torch::autograd::AccumulateGrad")


def analysis(events: Sequence[Event]) -> RankAnalysis:
    with TemporaryDirectory() as folder:
        return analysis_of(read_one(document(events), Path(folder)), None)


def cells(events: Sequence[Event], step: int = 0) -> dict[tuple[str, str], float]:
    """Cells of a step that are not empty, in microseconds."""
    found = analysis(events).phases.steps[step]
    return {
        (str(phase), str(kind)): found[row, column] / 1000
        for row, phase in enumerate(PHASES)
        for column, kind in enumerate(KINDS)
        if found[row, column]
    }


def phases(events: Sequence[Event], step: int = 0) -> dict[str, float]:
    """Phases of a step that are not empty, in microseconds."""
    found: dict[str, float] = {}
    for (phase, _), time in cells(events, step).items():
        found[phase] = found.get(phase, 0) + time
    return found


def forward(ts: float, dur: float, number: int, name: str = "aten::mm") -> Event:
    return op(name, ts, dur, **{"Sequence number": number, "Fwd thread id": 0})


def backward(ts: float, dur: float, number: int) -> Event:
    return op(NODE.format("MmBackward0"), ts, dur, **{"Sequence number": number, "Fwd thread id": 1})


def step(ts: float, dur: float, number: int = 0) -> Event:
    return region(f"ProfilerStep#{number}", ts, dur)


# --- on a CPU ---------------------------------------------------------------------------------------------------------


def test_a_step_of_training_with_a_loader() -> None:
    events = [
        step(0, 100),
        region(LOADER, 0, 10),
        forward(15, 20, 1),
        backward(40, 25, 1),
        op("aten::mul_", 70, 5),  # clips the gradients
        region(OPTIMIZER, 78, 10),
        op("aten::_fused_adamw_", 80, 6),
        op("aten::sum", 92, 4),  # for a log
    ]
    assert phases(events) == {"input": 10, "forward": 30, "backward": 25, "optimizer": 23, "between": 12}
    assert cells(events)["forward", "device"] == 20
    assert cells(events)["forward", "host"] == 10
    assert cells(events)["between", "device"] == 4


def unmarked(*operators: Event) -> dict[str, float]:
    """Phases of a step without a loader, with these operators before the first one that has a gradient."""
    return phases([step(0, 100), *operators, forward(40, 10, 1), backward(60, 20, 1), region(OPTIMIZER, 80, 20)])


def test_without_a_loader_the_forward_pass_begins_with_its_first_layer() -> None:
    frozen = op("aten::linear", 10, 20)
    assert unmarked(frozen) == {"between": 10, "forward": 50, "backward": 20, "optimizer": 20}


def test_what_is_read_before_the_forward_pass_is_between_steps() -> None:
    logged = [op("aten::norm", 5, 5), op("aten::item", 15, 5), op("aten::linear", 30, 5)]
    assert unmarked(*logged) == {"between": 30, "forward": 30, "backward": 20, "optimizer": 20}


def test_an_average_of_the_weights_is_between_steps() -> None:
    averaged = [op("aten::mul", 5, 5), op("aten::lerp_", 12, 5), op("aten::linear", 25, 5)]
    assert unmarked(*averaged) == {"between": 25, "forward": 35, "backward": 20, "optimizer": 20}


def test_a_zero_grad_is_of_the_optimizer_wherever_it_stands() -> None:
    events = [
        step(0, 100),
        region(LOADER, 0, 10),
        region(ZERO_GRAD, 20, 5),
        forward(30, 10, 1),
        backward(50, 20, 1),
        region(OPTIMIZER, 70, 10),
        region(ZERO_GRAD, 85, 5),
    ]
    assert phases(events) == {"input": 10, "forward": 35, "backward": 20, "optimizer": 20, "between": 15}


def test_gradient_accumulation_has_several_passes() -> None:
    events = [
        step(0, 100),
        region(LOADER, 0, 5),
        forward(5, 10, 1),
        backward(15, 20, 1),
        region(LOADER, 40, 5),
        forward(45, 10, 2),
        backward(55, 20, 2),
        region(OPTIMIZER, 75, 25),
    ]
    assert phases(events) == {"input": 10, "forward": 20, "backward": 40, "between": 5, "optimizer": 25}


def test_batches_without_a_backward_pass_are_between_the_steps_of_training() -> None:
    events = [
        step(0, 100),
        forward(0, 10, 1),
        backward(10, 10, 1),
        region(OPTIMIZER, 20, 10),
        region(LOADER, 30, 5),
        op("aten::mm", 35, 10),  # evaluates
        region(LOADER, 50, 5),
        op("aten::mm", 55, 10),
        region(LOADER, 70, 5),
        forward(75, 10, 2),
        backward(85, 15, 2),
    ]
    assert phases(events) == {"forward": 20, "backward": 25, "optimizer": 10, "input": 15, "between": 30}


def test_an_optimizer_written_by_hand() -> None:
    events = [
        step(0, 100),
        forward(10, 10, 1),
        backward(30, 10, 1),
        op(GRADIENT, 40, 2),
        op(GRADIENT, 42, 3),
        op("aten::add_", 50, 5),
        op("aten::add_", 60, 5),
        op("aten::sum", 80, 5),
    ]
    assert phases(events) == {"between": 10 + 35, "forward": 20, "backward": 15, "optimizer": 20}


def test_a_loss_that_is_added_up_is_no_optimizer() -> None:
    gradients = [op(GRADIENT, 40 + number, 1) for number in range(4)]
    events = [step(0, 100), forward(10, 10, 1), backward(30, 10, 1), *gradients, op("aten::add_", 50, 5)]
    assert "optimizer" not in phases(events)


def test_what_a_backward_pass_waits_for_at_its_end_belongs_to_it() -> None:
    reduced = span("user_annotation", "gloo:all_reduce", 35, 40, tid=5)
    events = [step(0, 100), forward(0, 20, 1), backward(20, 20, 1), reduced, region(OPTIMIZER, 90, 10)]
    assert phases(events) == {"forward": 20, "backward": 55, "optimizer": 25}
    assert cells(events)["backward", "waiting"] == 40


def test_gradients_that_are_reduced_after_the_backward_pass_are_of_the_optimizer() -> None:
    reduced = span("user_annotation", "gloo:all_reduce", 50, 30, tid=5)
    events = [step(0, 100), forward(0, 20, 1), backward(20, 20, 1), reduced, region(OPTIMIZER, 90, 10)]
    assert phases(events) == {"forward": 20, "backward": 20, "optimizer": 60}


def test_without_a_backward_pass_operators_are_forward() -> None:
    events = [step(0, 20_000), op("aten::mm", 1_000, 3_000), op("aten::mm", 6_000, 2_000), op("aten::sum", 19_000, 500)]
    assert phases(events) == {"forward": 7_500, "between": 12_500}


def test_a_closure_runs_inside_its_optimizer() -> None:
    events = [step(0, 100), region(OPTIMIZER, 0, 100), forward(10, 20, 1), backward(40, 30, 1)]
    assert phases(events) == {"backward": 30, "optimizer": 70}


def test_waiting_for_worker_processes_is_waiting_and_loading_is_host() -> None:
    def loaded(name: str) -> list[Event]:
        return [step(0, 100), region(name, 0, 40), forward(40, 20, 1), backward(60, 40, 1)]

    assert cells(loaded(LOADER))["input", "host"] == 40
    assert cells(loaded(WORKERS))["input", "waiting"] == 40


def test_a_loader_on_another_thread_loads_ahead() -> None:
    events = [
        step(0, 100),
        region(LOADER, 0, 90, tid=7),
        forward(10, 20, 1),
        backward(40, 30, 1),
        region(OPTIMIZER, 70, 30),
    ]
    assert phases(events) == {"between": 10, "forward": 30, "backward": 30, "optimizer": 30}


# --- on a GPU ---------------------------------------------------------------------------------------------------------


def test_work_of_the_device_belongs_to_the_phase_that_launched_it() -> None:
    events = [
        step(0, 100),
        forward(0, 10, 1),
        launch(2, 1),
        kernel("gemm", 10, 30, correlation=1),
        backward(12, 10, 1),
        launch(14, 2),
        kernel("gemm", 40, 30, correlation=2),
        region(OPTIMIZER, 24, 10),
        launch(26, 3),
        kernel("adam", 70, 20, correlation=3),
    ]
    found = cells(events)
    assert found["forward", "device"] == 30
    assert found["backward", "device"] == 30
    assert found["optimizer", "device"] == 20
    assert found["between", "host"] + found.get(("between", "waiting"), 0) == 10  # at the end
    assert sum(found.values()) == 100


def test_exposed_communication_is_waiting() -> None:
    events = [
        step(0, 100),
        forward(0, 10, 1),
        launch(2, 1),
        kernel("gemm", 10, 30, correlation=1),
        backward(40, 20, 1),
        launch(45, 999),
        collective(60, 40),
    ]
    assert cells(events)["backward", "waiting"] == 13 + 40  # queued, then communicating


def test_where_nothing_of_the_host_was_recorded_phases_are_not_known() -> None:
    found = analysis([kernel("gemm", 0, 10), kernel("gemm", 20, 10)]).phases
    assert not found.known
    assert found.sums == ()


# --- promises ---------------------------------------------------------------------------------------------------------

PLAIN = [step(0, 100), forward(0, 20, 1), backward(20, 20, 1), region(OPTIMIZER, 50, 50)]


def test_a_step_that_does_not_add_up_breaks_a_promise() -> None:
    found = analysis(PLAIN)
    steps = found.phases.steps.copy()
    steps[0, 1, KINDS.index(PhaseKind.HOST)] += 1
    with pytest.raises(AssertionError, match="add up to each step"):
        replace(found.phases, steps=steps).self_check(found.ledger)


def test_device_time_that_the_ledger_does_not_have_breaks_a_promise() -> None:
    found = analysis(PLAIN)
    steps = found.phases.steps.copy()
    steps[0, 1, KINDS.index(PhaseKind.DEVICE)] -= 1
    steps[0, 1, KINDS.index(PhaseKind.HOST)] += 1
    with pytest.raises(AssertionError, match="as busy in phases as in accounts"):
        replace(found.phases, steps=steps).self_check(found.ledger)


MARKS = (LOADER, OPTIMIZER, ZERO_GRAD, NODE.format("MmBackward0"), "aten::mm", "aten::add_", "gloo:all_reduce")
anything = st.lists(
    st.tuples(st.sampled_from(MARKS), st.integers(0, 200), st.integers(0, 60), st.integers(1, 3), st.booleans()),
    max_size=14,
)


@given(anything)
def test_every_nanosecond_of_anything_is_in_one_cell(drawn: list[tuple[str, int, int, int, bool]]) -> None:
    events: list[Event] = [step(0, 0.12, 1), step(0.12, 0.14, 2), region("around", 0, 0.3)]
    for number, (name, start, dur, lane, launches) in enumerate(drawn, start=1):
        category = "cpu_op" if "::" in name else "user_annotation"
        events.append(span(category, name, start / 1000, dur / 1000, tid=lane))
        if launches:
            events += [
                launch(start / 1000, number, dur=0.001),
                kernel("gemm", start / 900, dur / 1000, correlation=number),
            ]
    found = analysis(events)
    found.phases.self_check(found.ledger)
    lo, hi = found.activity.window_ns
    assert sum(time.length_ns for time in found.phases.cells.values()) == hi - lo
    assert np.array_equal(found.phases.total.sum(axis=0) >= 0, np.ones(len(KINDS), bool))
    assert sum(found.phases.of(phase) for phase in Phase) == found.steps_ns


def evaluated(*no_grad: Sequence[float]) -> list[dict[str, float]]:
    """Phases of steps of 100 us, each with layers that autograd does not number at these times before its forward."""
    events = []
    for number, times in enumerate(no_grad):
        at = 100 * number
        events += [step(at, 100, number), *(op("aten::mm", at + time, 10) for time in times)]
        events += [forward(at + 60, 10, number + 1), backward(at + 70, 20, number + 1), region(OPTIMIZER, at + 90, 10)]
    return [phases(events, number) for number in range(len(no_grad))]


def test_layers_without_gradients_that_few_steps_have_are_an_evaluation() -> None:
    found = evaluated((), (), (10, 20, 40), ())
    assert found[2]["between"] == 60
    assert found[2]["forward"] == 10


def test_layers_without_gradients_that_all_steps_have_begin_the_forward_pass() -> None:
    """They are frozen; an evaluation comes before them."""
    found = evaluated((50,), (50,), (10, 30, 50), (50,))
    assert [one["forward"] for one in found] == [20, 20, 20, 20]
    assert found[2]["between"] == 50
