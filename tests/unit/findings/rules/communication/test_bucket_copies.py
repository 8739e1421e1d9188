"""RL-N03: DDP copies every gradient into a bucket and back."""

from tests.support.events import document, op
from tests.support.rules.communication import ON_DEVICE, STEP_US, values
from tests.support.rules.matching import claimed_ns, copied, found, launched, matched, step

BACK, INTO = "torch.distributed.ddp.reducer::copy_bucket_to_grad", "torch::distributed::reducer::mul_out"


def copied_by_ddp(into: str = INTO, back: str = BACK) -> bytes:
    """A kernel until 90 us, one into the bucket at 150 us, launched 8 us before, and a copy back at 200 us."""
    events = [
        step(0, 0, STEP_US),
        *launched("gemm", 10, 80, 1, at=5),
        op(into, 130, 20),
        *launched("elementwise", 150, 5, 2, at=140),
        op(back, 180, 20),
        op("aten::copy_", 182, 15),
        *copied(ON_DEVICE, 200, 5, 3, size_bytes=4000, at=185),
        op("aten::copy_", 300, 20),
        *copied(ON_DEVICE, 320, 5, 4, size_bytes=4000, at=305),
        *launched("gemm", 330, 600, 5, at=310),
    ]
    return document(events)


def test_n03_claims_the_copies_and_the_gaps_before_them() -> None:
    data = copied_by_ddp()
    assert claimed_ns(data, "RL-N03") == (5_000 + 60_000) + (5_000 + 45_000)
    assert matched(data)["RL-N03"].figures["into"] == matched(data)["RL-N03"].figures["back"] == 1
    assert values(found(data)["RL-N03"]) == {"into": 1, "back": 1, "copying_ns": 115_000, "step_ns": 1_000_000}


def test_n03_is_silent_where_nothing_is_copied_back() -> None:
    """Gradients that are views of their buckets already, and copies that have nothing to do with DDP."""
    assert claimed_ns(copied_by_ddp(back="mine"), "RL-N03") == 0
