"""Python that stops the launching thread: garbage collection, long work, work between steps."""

from collections.abc import Sequence
from typing import Any

import pytest

from redline.findings.finding import Finding
from tests.support.events import Event, document, op, region, span
from tests.support.rules.host import call, later, small_kernels, two_kernels
from tests.support.rules.host_record import at_ns, evidence
from tests.support.rules.matching import claimed_ns, found, launched, matched, step

# RL-H09: Python's garbage collector runs in the middle of steps.


@pytest.mark.parametrize("name", ["Python GC", "<built-in function collect>"])
def test_h09_claims_the_idle_time_that_a_collection_causes(name: str) -> None:
    data = document(two_kernels(103, 500, span("python_function", name, 100, 300)))
    assert claimed_ns(data, "RL-H09") == 300_000  # from 103 us on


def test_h09_leaves_a_pause_without_a_collection_alone() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500, span("python_function", "collect", 100, 300))))


def test_h09_leaves_a_collection_alone_that_the_device_does_not_wait_for() -> None:
    events = two_kernels(480, 470, span("python_function", "Python GC", 100, 300))
    assert "RL-H09" not in found(document(events))


def collections(*runs: tuple[float, float]) -> dict[str, object]:
    """As Python's own callbacks told of them, from and for so many microseconds."""
    return {"begin_ns": [at_ns(begin) for begin, _ in runs], "dur_ns": [round(took * 1000) for _, took in runs]}


def test_h09_knows_collections_that_run_recorded_without_stacks() -> None:
    data = document(two_kernels(103, 500), **evidence(collections=collections((100, 300))))
    assert claimed_ns(data, "RL-H09") == 300_000


def test_h09_claims_all_of_a_collection_on_a_cpu() -> None:
    events = [step(0, 0, 1000), op("aten::mm", 0, 300), op("aten::mm", 700, 300)]
    data = document(events, **evidence(collections=collections((350, 300))))
    assert claimed_ns(data, "RL-H09") == 300_000


def test_h09_is_silent_where_none_was_recorded() -> None:
    assert "RL-H09" not in matched(document(two_kernels(103, 500), **evidence(collections=collections())))


def test_h09_leaves_what_a_compiler_collects_to_its_rule() -> None:
    compiling = op("_compile.compile_inner (dynamo_timed)", 320, 350)
    events = [step(0, 0, 1000), op("aten::mm", 0, 300), compiling, op("aten::mm", 700, 300)]
    data = document(events, **evidence(collections=collections((350, 300))))
    assert "RL-H09" not in matched(data)


# RL-H19: the thread that launches does long work of another kind, and the device waits.


LONG_HOST_WORK_BASE_NS = 1_700_000_000_000_000_000


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
        "time_ns": [LONG_HOST_WORK_BASE_NS + time_ns for time_ns in times_ns],
        "delay_ns": [100_000] * len(times_ns),
        "stack": [0] * len(times_ns),
        "stacks": [list(stack)],
    }
    events: list[Event] = []
    for number in range(steps):
        events.append(step(number, 100_000 * number, 100_000))
        events += [op("aten::addmm", 100_000 * number + 3000 * place, 3000) for place in range(20)]
    evidence = {"version": 1, "samples": sampled} if stack else {}
    return document(events, baseTimeNanoseconds=LONG_HOST_WORK_BASE_NS, redline=evidence)


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


# RL-H25: fires on its trace, claims what it should, and leaves its counter-trace alone.


WORK_BETWEEN_STEPS_BASE_NS = 1_700_000_000_000_000_000
STEP_US, OPTIMIZER_ENDS_US = 100_000, 70_000  # 30 ms of each step are between
LOOP = "train.py:30 main"


def training(steps: int, *between: Event) -> list[Event]:
    """Steps of 100 ms: forward 30, backward 30, optimizer 10, and what comes after the optimizer."""
    events = []
    for number in range(steps):
        at = STEP_US * number
        events += [
            step(number, at, STEP_US),
            op("aten::addmm", at, 30_000, **{"Sequence number": number}),
            op(
                "autograd::engine::evaluate_function: AddmmBackward0",
                at + 30_000,
                30_000,
                **{"Sequence number": number, "Fwd thread id": 1},
            ),
            region("Optimizer.step#AdamW.step", at + 60_000, 10_000),
            op("aten::_fused_adamw_", at + 60_000, 10_000),
            *({**event, "ts": event["ts"] + at} for event in between),
        ]
    return events


def samples(steps: int, stack: Sequence[str]) -> dict[str, Any]:
    """One every 5 ms of the time between, with this stack."""
    times = [STEP_US * number + OPTIMIZER_ENDS_US + 2_500 + 5_000 * at for number in range(steps) for at in range(6)]
    return {
        "version": 1,
        "samples": {
            "rate_hz": 200,
            "time_ns": [WORK_BETWEEN_STEPS_BASE_NS + 1000 * us for us in times],
            "delay_ns": [100_000] * len(times),
            "stack": [0] * len(times),
            "stacks": [list(stack)],
        },
    }


def finding(events: Sequence[Event], stack: Sequence[str] = ()) -> Finding | None:
    evidence = samples(3, stack) if stack else {}
    return found(document(events, baseTimeNanoseconds=WORK_BETWEEN_STEPS_BASE_NS, redline=evidence)).get("RL-H25")


def texts(finding: Finding | None) -> str:
    assert finding is not None
    return " ".join(evidence.message.format(**evidence.values) for evidence in finding.evidence)


def test_h25_claims_the_time_between_steps() -> None:
    evidence = samples(3, [LOOP])
    data = document(training(3), baseTimeNanoseconds=WORK_BETWEEN_STEPS_BASE_NS, redline=evidence)
    assert claimed_ns(data, "RL-H25") == 3 * 30_000_000


def test_h25_leaves_collections_of_garbage_to_their_rule() -> None:
    starts = [WORK_BETWEEN_STEPS_BASE_NS + 1000 * (STEP_US * number + OPTIMIZER_ENDS_US) for number in range(3)]
    columns = {"begin_ns": starts, "dur_ns": [10_000_000] * 3, "generation": [2] * 3, "collected": [0] * 3}
    data = document(
        training(3),
        baseTimeNanoseconds=WORK_BETWEEN_STEPS_BASE_NS,
        redline={**samples(3, [LOOP]), "collections": columns},
    )
    assert claimed_ns(data, "RL-H25") == 3 * 20_000_000
    assert claimed_ns(data, "RL-H09") == 3 * 10_000_000


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (["torch/serialization.py:900 _save", "torch/serialization.py:700 save", LOOP], "saves checkpoints"),
        (["safetensors/torch.py:286 save_file", LOOP], "saves checkpoints"),
        (
            [
                "torch/nn/modules/linear.py:134 Linear.forward",
                "torch/nn/modules/module.py:1789 Module._call_impl",
                LOOP,
            ],
            "is evaluation",
        ),
        (["train.py:12 get_batch", LOOP], "makes the next batch"),
        (["train.py:12 update_ema", LOOP], "averages weights"),
        (["json/encoder.py:200 JSONEncoder.encode", LOOP], "is logging or metrics"),
        (["subprocess.py:1200 Popen.wait", LOOP], "mostly in subprocess.Popen.wait"),
    ],
)
def test_h25_says_by_samples_what_the_time_goes_to(stack: list[str], said: str) -> None:
    assert said in texts(finding(training(3), stack))


def test_h25_names_the_line_of_the_loop_that_calls_a_model() -> None:
    model = ["net.py:5 Net.forward", "torch/nn/modules/module.py:1789 Module._call_impl", LOOP]
    found_one = finding(training(3), model)
    assert found_one is not None
    assert found_one.evidence[-1].values["site"] == "main (train.py:30)"


@pytest.mark.parametrize(
    ("operators", "said"),
    [
        ([op("aten::item", 70_000 + 100 * at, 90) for at in range(60)], "Metrics or logs read 60 numbers"),
        ([op("aten::isnan", 70_000 + 100 * at, 90) for at in range(60)], "60 checks for NaN"),
        ([op("aten::mul", 70_000 + 100 * at, 90) for at in range(60)], "calls 60 small operators there"),
    ],
)
def test_h25_says_by_operators_what_the_time_goes_to(operators: list[Event], said: str) -> None:
    assert said in texts(finding(training(3, *operators)))


@pytest.mark.parametrize(
    ("events", "stack"),
    [
        pytest.param(training(3, op("aten::_foreach_lerp_", 70_000, 29_000)), (), id="one call on all weights"),
        pytest.param(training(3), (), id="nothing says what it goes to"),
        pytest.param(training(3, *(op("aten::copy_", 70_000 + 100 * at, 90) for at in range(60))), (), id="copies"),
        pytest.param(training(3, region("enumerate(DataLoader)#It.__next__", 70_000, 30_000)), (LOOP,), id="loader"),
        pytest.param(
            [event for event in training(3) if event["name"].startswith(("aten", "Prof"))], (LOOP,), id="inference"
        ),
    ],
)
def test_h25_leaves_other_time_alone(events: list[Event], stack: tuple[str, ...]) -> None:
    assert finding(events, stack) is None


def test_h25_names_the_operator_that_takes_most_of_it() -> None:
    with_cat = training(3, op("aten::cat", OPTIMIZER_ENDS_US, 20_000))
    assert "Most of it is the operator aten::cat." in texts(finding(with_cat, [LOOP]))
