"""Graphs of torch.compile that break or are compiled again, and graphs that are captured."""

import pytest

from tests.support.events import Event, document, launch, op
from tests.support.rules.host import compiled, later_step, two_kernels
from tests.support.rules.matching import claimed_ns, found, launched, matched, step

# RL-H10: compiled code is broken into many graphs, with Python between them.


def test_h10_claims_the_idle_time_between_the_graphs_of_a_broken_function() -> None:
    events = [step(0, 0, 1000), *compiled(390)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    data = document(events)
    # outside the graphs: 10 to 20, 60 to 300 and 340 to 400 us
    assert claimed_ns(data, "RL-H10") == 310_000
    assert found(data)["RL-H10"].evidence[0].values["breaks"] == 1


def test_h10_leaves_functions_alone_that_were_compiled_apart() -> None:
    events = [step(0, 0, 1000), *compiled(90)]
    for number, at in enumerate((30, 310, 500)):
        events += launched("triton", at + 3, 30, number + 1, at=at)
    assert "RL-H10" not in matched(document(events))


def test_h10_claims_what_entering_and_leaving_each_graph_takes_on_a_cpu() -> None:
    events = [step(0, 0, 1000), *compiled(390), op("aten::mm", 30, 10), op("aten::mm", 45, 10), op("aten::mm", 310, 30)]
    # outside the graphs as above; 20 to 30, 55 to 60 and 300 to 310 us are in graphs, before or after all operators
    assert claimed_ns(document(events), "RL-H10") == 310_000 + 25_000


# RL-H11: torch.compile compiles again while the job is running.


@pytest.mark.parametrize("name", ["_compile.compile_inner (dynamo_timed)", "entire_backward_compile"])
def test_h11_claims_the_idle_time_that_compiling_causes(name: str) -> None:
    assert claimed_ns(document(later_step(op(name, 1100, 500))), "RL-H11") == 500_000


def test_h11_leaves_the_first_step_alone() -> None:
    assert "RL-H11" not in matched(
        document([*two_kernels(103, 700, op("entire_frame_compile", 100, 500)), step(1, 1000, 500)])
    )


def test_h11_counts_the_first_step_where_later_ones_compile_too() -> None:
    """The first step is idle from 800 to 853 us, and compiles for 30 us of that."""
    first, second = op("entire_frame_compile", 810, 30), op("entire_frame_compile", 1100, 500)
    alone = claimed_ns(document(later_step(second)), "RL-H11")
    assert claimed_ns(document([first, *later_step(second)]), "RL-H11") == alone + 30_000


def test_h11_leaves_compiled_code_alone() -> None:
    assert "RL-H11" not in matched(document(later_step(op("Torch-Compiled Region: 0/0", 1100, 500))))


# RL-H27: what is launched is recorded into a graph, and does not run.


def captured(begin_us: float, end_us: float) -> list[Event]:
    return [
        launch(begin_us, 98, dur=2, name="cudaStreamBeginCapture_v10000"),
        launch(end_us - 2, 99, dur=2, name="cudaStreamEndCapture"),
    ]


def test_h26_claims_the_idle_time_of_a_capture() -> None:
    data = document(two_kernels(103, 800, *captured(200, 700)))
    assert claimed_ns(data, "RL-H27") == 500_000
    assert found(data)["RL-H27"].is_void  # no verdict rests on it


def test_h26_takes_a_capture_without_an_end_to_last() -> None:
    data = document(two_kernels(103, 800, captured(200, 700)[0]))
    assert claimed_ns(data, "RL-H27") >= 600_000


def test_h26_leaves_replayed_graphs_alone() -> None:
    assert "RL-H27" not in matched(document(two_kernels(103, 800, launch(200, 98, dur=500, name="cudaGraphLaunch"))))
