"""RL-H19: the thread that launches does long work of another kind, and the device waits."""

import pytest

from tests.support.events import Event, document, op, region
from tests.support.rules.host import call, later, small_kernels
from tests.support.rules.matching import claimed_ns, found, launched, matched, step

BASE_NS = 1_700_000_000_000_000_000


def pausing_for(us: float, *inside: Event) -> list[Event]:
    """20 small kernels, the last of which ends at 578 us, then a launch at 600 us plus the pause."""
    return [
        step(0, 0, 12_000),
        *small_kernels(20, 0, 10),
        *inside,
        *launched("gemm", 603 + us, 100, 9, at=600 + us),
    ]


def test_h19_claims_long_pauses_between_launches() -> None:
    data = document(pausing_for(10_000, region("postprocess", 590, 9_900)))
    assert claimed_ns(data, "RL-H19") == 10_022_000  # from the end of the last kernel to the next launch
    assert found(data)["RL-H19"].evidence[-1].values == {"place": "postprocess"}


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(pausing_for(4_900), id="short"),
        pytest.param(pausing_for(10_000, call("cudaFree", 580, 10_015)), id="in a call of the driver"),
    ],
)
def test_h19_leaves_other_pauses_alone(events: list[Event]) -> None:
    assert "RL-H19" not in found(document(events))


def test_h19_claims_what_the_first_step_has_as_all_have_it() -> None:
    mark, *events = pausing_for(10_000)
    data = document([mark, *events, step(1, 12_000, 11_000), *(later(event, 12_000) for event in events)])
    assert claimed_ns(data, "RL-H19") == 2 * 10_022_000


def test_h19_leaves_a_first_step_alone_that_warms_up() -> None:
    assert "RL-H19" not in matched(document([*pausing_for(10_000), step(1, 12_000, 1000)]))


def on_cpu(*stack: str, steps: int = 3) -> bytes:
    """Steps of 100 ms: operators for 60, then 40 ms without any, of which there are samples with this stack."""
    times_ns = [1000 * (100_000 * number + 62_500 + 5_000 * at) for number in range(steps) for at in range(8)]
    sampled = {
        "rate_hz": 200,
        "time_ns": [BASE_NS + time_ns for time_ns in times_ns],
        "delay_ns": [100_000] * len(times_ns),
        "stack": [0] * len(times_ns),
        "stacks": [list(stack)],
    }
    events: list[Event] = []
    for number in range(steps):
        events.append(step(number, 100_000 * number, 100_000))
        events += [op("aten::addmm", 100_000 * number + 3000 * place, 3000) for place in range(20)]
    evidence = {"version": 1, "samples": sampled} if stack else {}
    return document(events, baseTimeNanoseconds=BASE_NS, redline=evidence)


def test_h19_names_the_function_of_a_cpu_job_by_samples() -> None:
    data = on_cpu("random.py:5 choices", "generate.py:15 sample", "generate.py:30 main")
    assert claimed_ns(data, "RL-H19") == 3 * 40_000_000
    values = found(data)["RL-H19"].evidence[-1].values
    assert values == {"place_share": 1.0, "place": "sample (generate.py:15)"}


@pytest.mark.parametrize(
    "stack",
    [
        pytest.param((), id="without samples"),
        pytest.param(("torch/nn/modules/module.py:1789 Module._call_impl", "train.py:3 main"), id="in a model"),
        pytest.param(("torch/autograd/graph.py:979 _engine_run_backward", "train.py:4 main"), id="in a backward pass"),
        pytest.param(("threading.py:3 wait", "torch/_utils.py:4 main"), id="in no function of the user"),
    ],
)
def test_h19_leaves_pauses_of_a_cpu_alone_that_no_function_of_the_user_has(stack: tuple[str, ...]) -> None:
    assert "RL-H19" not in matched(on_cpu(*stack))
