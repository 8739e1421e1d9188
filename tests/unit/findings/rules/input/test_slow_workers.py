"""RL-D02: the worker processes of the data loader do not keep up, or start anew."""

from typing import Any

from tests.support.events import document, op, region
from tests.support.rules.input import WORKERS
from tests.support.rules.matching import claimed_ns, launched, matched, step


def test_d02_leaves_a_loader_alone_that_the_device_does_not_wait_for() -> None:
    events = [step(0, 0, 1000), *launched("gemm", 3, 900, 1, at=0), region(WORKERS, 10, 500)]
    assert "RL-D02" not in matched(document([*events, *launched("gemm", 903, 50, 2, at=600)]))


BASE_NS = 1_700_000_000_000_000_000


def epochs(stack: str) -> bytes:
    """Two steps of 100 ms; after the first the loader ends, 30 ms pass with this stack, and it is asked again."""
    events = []
    for at in (0, 100_000):
        known: dict[str, Any] = {"Sequence number": at, "Fwd thread id": 1}
        events += [
            step(at, at, 100_000),
            region(WORKERS, at, 10_000),
            op("aten::addmm", at + 10_000, 20_000, **{"Sequence number": at}),
            op("autograd::engine::evaluate_function: AddmmBackward0", at + 30_000, 20_000, **known),
            region("Optimizer.step#AdamW.step", at + 50_000, 10_000),
            op("aten::_fused_adamw_", at + 50_000, 10_000),
        ]
    events.append(region(WORKERS, 60_000, 10_000))
    times = [BASE_NS + 1000 * us for us in range(72_500, 100_000, 5_000)]
    samples = {"rate_hz": 200, "time_ns": times, "delay_ns": [100_000] * len(times), "stack": [0] * len(times)}
    evidence = {"version": 1, "samples": {**samples, "stacks": [[stack, "train.py:30 main"]]}}
    return document(events, baseTimeNanoseconds=BASE_NS, redline=evidence)


def test_d02_claims_the_starting_of_workers_between_epochs() -> None:
    data = epochs("torch/utils/data/dataloader.py:1100 _MultiProcessingDataLoaderIter.__init__")
    assert claimed_ns(data, "RL-D02") == 60_000_000


def test_d02_leaves_other_work_between_epochs_alone() -> None:
    assert claimed_ns(epochs("torch/serialization.py:900 _save"), "RL-D02") == 30_000_000
