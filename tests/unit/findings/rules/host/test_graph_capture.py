"""RL-H27: what is launched is recorded into a graph, and does not run."""

from tests.support.events import Event, document, launch
from tests.support.rules.host import two_kernels
from tests.support.rules.matching import claimed_ns, found, matched


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
