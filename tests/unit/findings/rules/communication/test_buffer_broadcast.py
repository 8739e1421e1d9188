"""RL-N04: DDP broadcasts the buffers of the model before every forward pass."""

from collections.abc import Sequence

import pytest

from tests.support.events import Event, collective, document, launch, op, region
from tests.support.rules.communication import AUTOGRAD, ON_DEVICE, STEP_US, alike, values
from tests.support.rules.matching import claimed_ns, copied, found, launched, matched, step


def broadcasting(
    *,
    broadcast: str = "nccl:broadcast",
    copy: str = ON_DEVICE,
    around: Sequence[Event] = (),
    more: Sequence[Event] = (),
) -> bytes:
    """DDP's forward: a broadcast until 80 us, a buffer copied at 150 us, then the model."""
    events = [
        step(0, 0, STEP_US),
        region("DistributedDataParallel.forward", 10, 500),
        region(broadcast, 20, 20),
        launch(25, 1, dur=2),
        collective(40, 40, name="broadcast", args={"correlation": 1}) | {"name": "ncclDevKernel_Broadcast_RING_LL"},
        *around,
        op("aten::copy_", 100, 20),
        *copied(copy, 150, 5, 2, size_bytes=400, at=105),
        op("aten::mm", 160, 20, **AUTOGRAD),
        *launched("gemm", 200, 700, 3, at=170),
        *more,
    ]
    return document(events)


def test_n04_claims_the_copies_and_the_gaps_before_them() -> None:
    data = broadcasting()
    assert claimed_ns(data, "RL-N04") == 5_000 + 70_000
    finding = found(data)["RL-N04"]
    assert values(finding) == {"copies": 1, "copying_ns": 75_000, "step_ns": 1_000_000, "broadcast_ns": 40_000}


@pytest.mark.parametrize(
    "data",
    [
        broadcasting(broadcast="nccl:all_reduce"),
        broadcasting(copy="Memcpy HtoD (Pinned -> Device)"),
        broadcasting(around=[op("aten::to", 95, 30)]),
        broadcasting(around=[op("aten::mm", 85, 5, **AUTOGRAD)]),
    ],
    ids=["no broadcast", "from the host", "inside an operator of the model", "after an operator of the model"],
)
def test_n04_is_silent_about_other_copies(data: bytes) -> None:
    assert claimed_ns(data, "RL-N04") == 0


def test_n04_says_nothing_of_broadcasts_outside_of_ddp() -> None:
    outside = [launch(920, 9, dur=2), collective(950, 20, name="broadcast", args={"correlation": 9})]
    data = broadcasting(more=outside)
    assert matched(data)["RL-N04"].figures["broadcast_ns"] == 40_000


def on_cpu(*, broadcast: str = "gloo:broadcast") -> list[bytes]:
    """Two ranks without a device: DDP joins its buffers for 200 us, broadcasts them for 100, then the model runs."""
    events = [
        step(0, 0, STEP_US),
        region("Optimizer.step#SGD.step", 5, 5),
        region("DistributedDataParallel.forward", 100, 700),
        op("aten::cat", 110, 200),
        region(broadcast, 320, 100, tid=7),
        op("aten::copy_", 430, 20),
        op("aten::mm", 500, 300, **AUTOGRAD),
    ]
    return alike(events)


def test_n04_claims_on_a_cpu_what_ddp_does_before_the_model() -> None:
    """It is not work between the steps, although autograd does not number it."""
    findings = found(*on_cpu())
    assert values(findings["RL-N04"]) == {
        "copies": 2,
        "copying_ns": 300_000,
        "step_ns": 1_000_000,
        "broadcast_ns": 100_000,
    }
    assert findings["RL-N04"].alone_ns == 400_000  # with the broadcast, which another rule may claim
    assert findings["RL-N04"].bound_ns == 300_000
    assert "RL-H25" not in findings
    assert "RL-N04" not in found(*on_cpu(broadcast="gloo:all_reduce"))
