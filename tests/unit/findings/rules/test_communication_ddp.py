"""What DistributedDataParallel exchanges, copies and searches."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.events import Event, collective, document, kernel, launch, op, region
from tests.support.rules.communication import (
    AUTOGRAD,
    ON_DEVICE,
    STEP_US,
    alike,
    alone_ns,
    base,
    exchanged,
    forward,
    job,
    messages,
    node,
    values,
)
from tests.support.rules.matching import claimed_ns, copied, found, launched, matched, step

# RL-N01: the all-reduces of DDP are not hidden behind the backward pass.


def test_n01_claims_the_transfer_that_nothing_hides() -> None:
    first = exchanged(350, 100, 2, at=320, elements=1000)  # hidden
    last = exchanged(550, 200, 3, at=450, elements=2000)  # exposed from 600 on
    finding = found(*alike([*base(), *first, *last]))["RL-N01"]
    assert (finding.alone_ns, finding.bound_ns, finding.ranks) == (150_000, 150_000, 2)
    assert finding.accounts == {"transfer": 150_000}
    assert values(finding) == {
        "buckets": 2,
        "exposed_ns": 150_000,
        "step_ns": 1_000_000,
        "smallest_bytes": 4000,
        "largest_bytes": 8000,
        "last_share": 1.0,
    }


def test_n01_counts_what_is_flushed_after_the_last_node() -> None:
    assert alone_ns(alike([*base(), *exchanged(600, 100, 2, at=520)]), "RL-N01") == 100_000


def test_n01_leaves_waiting_to_others() -> None:
    """Rank 1 comes at 700: until then rank 0 waits, which is no transfer."""
    late = job(lambda rank: [*base(), *exchanged(700 if rank else 600, 100 if rank else 200, 2, at=450)])
    assert found(*late)["RL-N01"].bound_ns == 100_000
    assert alone_ns(late, "RL-N01") == 200_000  # fewer and larger buckets save the waiting in these too
    assert alone_ns(late, "RL-N13") == 100_000  # of rank 0 only, and the job gains all of it


def test_n01_hides_no_more_than_is_computed() -> None:
    """Of 350 us in a large all-reduce 200 us can hide behind the 200 us of compute."""
    events = [*base(computing_us=300), *exchanged(600, 350, 2, at=450, elements=8 << 20)]
    finding = found(*alike(events))["RL-N01"]
    assert finding.alone_ns == finding.bound_ns == 200_000
    assert values(finding)["left_ns"] == 150_000


def test_n01_leaves_passes_before_the_last_to_n02() -> None:
    passes = [forward(10, 40), node(55, 3), *exchanged(600, 100, 2, at=56, elements=8 << 20)]
    last = exchanged(700, 100, 3, at=450, elements=8 << 20)
    assert alone_ns(alike([*base(), *passes, *last]), "RL-N01") == 100_000
    assert alone_ns(alike([*base(), *passes, *last]), "RL-N02") == 100_000


def test_n01_says_of_a_rank_alone_that_waiting_may_be_in_it() -> None:
    together = alike([*base(), *exchanged(600, 100, 2, at=450)])
    assert "no other rank was recorded" not in messages(found(*together)["RL-N01"])
    alone = found(together[0])["RL-N01"]
    assert alone.alone_ns == 100_000
    assert values(alone)["untold_share"] == 1.0
    assert "no other rank was recorded" in messages(alone)


def test_n01_counts_what_is_exposed_and_of_unknown_kind() -> None:
    unlaunched = kernel("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", 750, 40, correlation=77)
    finding = found(*alike([*base(), *exchanged(600, 100, 2, at=450), unlaunched]))["RL-N01"]
    assert values(finding)["unknown_ns"] == 40_000
    assert finding.alone_ns == 140_000
    assert "of unknown kind" in messages(finding)


def test_n01_is_silent_where_computation_hides_the_traffic() -> None:
    assert "RL-N01" not in found(*alike([*base(computing_us=850), *exchanged(600, 200, 2, at=450)]))


def test_n01_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N01" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))


def test_n01_takes_no_activations_for_gradients() -> None:
    """Tensor parallelism reduces activations forward and their gradients, of the same size, backward."""
    events = [*base(), *exchanged(150, 10, 2, at=70), *exchanged(600, 200, 3, at=450)]
    assert not {"RL-N01", "RL-N05"} & set(found(*alike(events)))


def test_n01_takes_no_other_scheme_for_ddp() -> None:
    scattered = exchanged(600, 100, 2, at=450, name="_reduce_scatter_base")
    reduced = exchanged(700, 100, 3, at=460, elements=7)
    assert "RL-N01" not in found(*alike([*base(), *scattered, *reduced]))


# RL-N03: DDP copies every gradient into a bucket and back.


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


# RL-N04: DDP broadcasts the buffers of the model before every forward pass.


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


# RL-N20: DDP searches for unused parameters in every step, and finds none.


SEARCH = op("torch.distributed.ddp.reducer::search_unused_parameters", 100, 40)
STEP = [step(0, 0, 1000), SEARCH, op("_DDPSink", 200, 60), op("aten::clone", 210, 40), op("_DDPSinkBackward", 500, 10)]


def facts(unused_bytes: int) -> dict[str, Any]:
    ddp = {"find_unused_parameters": True, "parameters": 16, "unused_bytes": unused_bytes}
    return {"version": 1, "facts": {"ddp": [ddp]}}


@pytest.mark.parametrize(("evidence", "said"), [(facts(0), "found no unused"), (None, "was not recorded")])
def test_n20_claims_the_search_and_the_copies_of_outputs(evidence: dict[str, Any] | None, said: str) -> None:
    data = document(STEP, redline=evidence)
    assert claimed_ns(data, "RL-N20") == 40_000 + 60_000 + 10_000
    finding = found(data)["RL-N20"]
    assert finding.evidence[0].values == {"searches": 1, "copying_ns": 70_000, "step_ns": 1_000_000}
    assert said in finding.evidence[-1].message


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(document(STEP, redline=facts(288)), id="some are unused"),
        pytest.param(document([event for event in STEP if event is not SEARCH]), id="static graph"),
    ],
)
def test_n20_is_silent_where_the_search_is_needed_or_not_made(data: bytes) -> None:
    assert "RL-N20" not in matched(data)
