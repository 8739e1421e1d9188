"""Loading batches and copying them to the device."""

from collections.abc import Sequence
from typing import Any

import pytest

from redline.report.diagnose.finding_messages import sentence
from tests.support.events import Event, document, op, region
from tests.support.rules.host import PINNED_WRITE, WRITE, call, two_kernels
from tests.support.rules.input import ALONE, WORKERS, loading_for
from tests.support.rules.matching import claimed_ns, copied, described, found, launched, matched, step

# RL-D01: batches are loaded in the training process itself.


@pytest.mark.parametrize(("loader", "code", "other"), [(ALONE, "RL-D01", "RL-D02"), (WORKERS, "RL-D02", "RL-D01")])
def test_d01_d02_claim_the_time_in_the_loader(loader: str, code: str, other: str) -> None:
    data = document(loading_for(100, loader))
    assert claimed_ns(data, code) == 100_000
    assert matched(data)[code].accounts == {"input": 100_000}
    assert found(data)[code].share == 0.1
    assert other not in matched(data)


@pytest.mark.parametrize(("loader", "code"), [(ALONE, "RL-D01"), (WORKERS, "RL-D02")])
def test_d01_d02_leave_a_short_wait_alone(loader: str, code: str) -> None:
    assert code not in found(document(loading_for(25, loader)))


def test_d01_claims_what_the_device_is_idle_where_it_mostly_computes_on() -> None:
    """It waits for 100 us of the 400 only."""
    first = launched("gemm", 2, 300, 1, at=0)
    events = [step(0, 0, 1000), *first, region(ALONE, 1, 400), *launched("gemm", 402, 500, 2, at=401)]
    assert claimed_ns(document(events), "RL-D01") == 100_000


# RL-D02: the worker processes of the data loader do not keep up, or start anew.


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


# RL-D03: batches are copied to the device from pageable memory, and everything waits for the copy.


def batch_copy(name: str, size_bytes: int, *, blocking: bool = True) -> list[Event]:
    """A copy from 20 to 210 us; the host waits for it from 14 to 220 us if it is blocking."""
    wait = [call("cudaStreamSynchronize", 215, 5)] if blocking else []
    copy = copied(name, 20, 190, 3, size_bytes=size_bytes, at=14, took=200 if blocking else 2)
    return [op("aten::copy_", 12, 210 if blocking else 6), *copy, *wait]


def test_d03_claims_the_copy_and_the_wait_for_it() -> None:
    data = document(two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400))
    # idle from 14 to 20 and, after the copy, until the next kernel at 225
    assert claimed_ns(data, "RL-D03") == 190_000 + 6_000 + 15_000
    assert found(data)["RL-D03"].evidence[0].values["size_bytes"] == 2_000_000
    assert "RL-H06" not in matched(data)


@pytest.mark.parametrize(
    "events",
    [
        pytest.param(batch_copy(PINNED_WRITE, 2_000_000, blocking=False), id="pinned and not waited for"),
        pytest.param(batch_copy(WRITE, 900_000), id="small"),
    ],
)
def test_d03_leaves_other_copies_alone(events: list[Event]) -> None:
    assert "RL-D03" not in matched(document(two_kernels(10, 222, *events, length=400)))


def test_d03_wants_a_batch_in_every_step() -> None:
    events = two_kernels(10, 222, *batch_copy(WRITE, 2_000_000), length=400)
    again = [step(1, 400, 400), *launched("gemm", 403, 300, 9, at=400)]
    assert "RL-D03" not in matched(document([*events, *again]))


# RL-C15: batches of different lengths that are padded to one.


def job(*lengths: int, padded: int = 100, more: Sequence[Event] = ()) -> bytes:
    events = [step(0, 0, 1000), op("aten::mm", 500, 400, **described("float", [100, 64], [64, 64]))]
    events += [padding(10 * place, length, padded - length) for place, length in enumerate(lengths)]
    return document([*events, *more])


def padding(ts: float, length: int, by: int) -> Event:
    args = described("long int", [8, length]) | {"Concrete Inputs": ["", f"[0, {by}]", "0."]}
    return op("aten::constant_pad_nd", ts, 1, **args)


def test_c15_claims_what_the_square_of_the_length_saves() -> None:
    data = job(40, 60)
    assert claimed_ns(data, "RL-C15") == pytest.approx(0.75 * 402_000, rel=0.01)
    (evidence,) = found(data)["RL-C15"].evidence
    assert evidence.values == {"length": 50, "padded": 100, "padding_share": 0.5}


@pytest.mark.parametrize("lengths", [(), (50,), (50, 50), (95, 96)])
def test_c15_is_silent_without_padding_or_with_one_length(lengths: tuple[int, ...]) -> None:
    assert "RL-C15" not in matched(job(*lengths))


def test_c15_leaves_labels_out_that_a_loss_moves_by_one_position() -> None:
    (evidence,) = found(job(40, 60, more=[padding(30, 100, 1)]))["RL-C15"].evidence
    assert (evidence.values["length"], evidence.values["padded"]) == (50, 100)


def rows_of(*lengths: int) -> Event:
    args = described("long int") | {"Input Dims": [[[length] for length in lengths], [], []]}
    return op("aten::pad_sequence", 10, 1, **args)


def test_c15_claims_batches_of_short_and_long_rows() -> None:
    data = job(more=[rows_of(100, 20, 20, 20)])
    finding = found(data)["RL-C15"]
    assert finding.evidence[0].values == {"length": 40, "padded": 100, "padding_share": 0.6}
    assert "Put rows of similar length into one batch" in sentence(finding.fix) if finding.fix else False
    assert "RL-C15" not in matched(job(more=[rows_of(100, 80, 60, 80)]))
    assert "RL-C15" not in matched(job(more=[op("aten::pad_sequence", 10, 1)]))  # its shapes were not recorded
