"""RL-H25: fires on its trace, claims what it should, and leaves its counter-trace alone."""

from collections.abc import Sequence
from typing import Any

import pytest

from redline.findings.finding import Finding
from tests.support.events import Event, document, op, region
from tests.support.rules.matching import claimed_ns, found, step

BASE_NS = 1_700_000_000_000_000_000
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
            "time_ns": [BASE_NS + 1000 * us for us in times],
            "delay_ns": [100_000] * len(times),
            "stack": [0] * len(times),
            "stacks": [list(stack)],
        },
    }


def finding(events: Sequence[Event], stack: Sequence[str] = ()) -> Finding | None:
    evidence = samples(3, stack) if stack else {}
    return found(document(events, baseTimeNanoseconds=BASE_NS, redline=evidence)).get("RL-H25")


def texts(finding: Finding | None) -> str:
    assert finding is not None
    return " ".join(evidence.message.format(**evidence.values) for evidence in finding.evidence)


def test_h25_claims_the_time_between_steps() -> None:
    evidence = samples(3, [LOOP])
    data = document(training(3), baseTimeNanoseconds=BASE_NS, redline=evidence)
    assert claimed_ns(data, "RL-H25") == 3 * 30_000_000


def test_h25_leaves_collections_of_garbage_to_their_rule() -> None:
    starts = [BASE_NS + 1000 * (STEP_US * number + OPTIMIZER_ENDS_US) for number in range(3)]
    columns = {"begin_ns": starts, "dur_ns": [10_000_000] * 3, "generation": [2] * 3, "collected": [0] * 3}
    data = document(training(3), baseTimeNanoseconds=BASE_NS, redline={**samples(3, [LOOP]), "collections": columns})
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
