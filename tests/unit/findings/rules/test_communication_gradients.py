"""Gradients that are exchanged too often, too wide or too late."""

from collections.abc import Sequence

import pytest

from redline.findings.aggregate import findings_of
from redline.ledger.job.first_screen import outline_of
from tests.support.events import Event, op, region
from tests.support.rules.communication import AUTOGRAD, STEP_US, alike, base, exchanged, forward, node, values
from tests.support.rules.matching import diagnosis, found, launched, step

# RL-N02: gradients are exchanged in every backward pass, although only the last one before the optimizer needs it.


def accumulating(*, between: Sequence[Event] = (), sizes: tuple[int, int] = (1024, 1024)) -> list[Event]:
    """Two micro-batches, each with an all-reduce of 100 us that is exposed, then the optimizer."""
    return [
        step(0, 0, STEP_US),
        *launched("gemm", 20, 30, 1, at=10),
        forward(0, 90),
        node(100, 90),
        *exchanged(200, 100, 2, at=150, elements=sizes[0]),
        *between,
        forward(400, 90),
        node(500, 90),
        *exchanged(600, 100, 3, at=550, elements=sizes[1]),
        region("Optimizer.step#SGD.step", 800, 100),
    ]


def test_n02_claims_all_passes_but_the_last() -> None:
    findings = found(*alike(accumulating()))
    finding = findings["RL-N02"]
    assert (finding.alone_ns, finding.bound_ns) == (100_000, 100_000)
    assert values(finding) == {"passes": 2, "early_share": 0.5, "exposed_ns": 100_000, "step_ns": 1_000_000}
    assert (findings["RL-N01"].alone_ns, findings["RL-N01"].bound_ns) == (100_000, 100_000)


def test_n02_is_silent_where_the_optimizer_steps_after_each_pass() -> None:
    assert "RL-N02" not in found(*alike(accumulating(between=[region("Optimizer.step#SGD.step", 310, 50)])))


def test_n02_is_silent_where_other_gradients_are_exchanged() -> None:
    assert "RL-N02" not in found(*alike(accumulating(sizes=(1024, 77))))


def test_n02_is_silent_where_only_the_last_pass_exchanges() -> None:
    events = [event for event in accumulating() if event.get("args", {}).get("correlation") != 2]
    assert "RL-N02" not in found(*alike(events))


def test_no_two_rules_claim_the_same_time() -> None:
    """Bounds of a job that has nearly everything add up to its exposed communication at most."""
    events = [*accumulating(), *exchanged(720, 50, 4, at=560, name="_allgather_base", elements=5)]
    known = diagnosis(*alike(events))
    findings = findings_of(known, outline_of(known)).findings
    claimed_ns = sum(one.bound_ns for one in findings if one.code.startswith(("RL-N", "RL-P")))
    assert 0 < claimed_ns <= known.exposed_ns / known.rank_steps


# RL-N05: gradients travel in fp32, and the time that takes is exposed.


@pytest.mark.parametrize("name", ["allreduce", "_reduce_scatter_base"])
def test_n05_claims_half_of_the_transfer_as_far_as_it_is_exposed(name: str) -> None:
    finding = found(*alike([*base(), *exchanged(550, 150, 2, at=450, name=name)]))["RL-N05"]
    assert finding.alone_ns == 75_000
    assert finding.bound_ns == (0 if name == "allreduce" else 75_000)  # RL-N01 claims the same time first
    assert values(finding) == {"open_ns": 150_000, "exposed_ns": 100_000, "step_ns": 1_000_000}
    assert [(place.start_ns, place.end_ns) for place in finding.places] == [(625_000, 700_000)] * 2


def test_n05_is_silent_about_other_types() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 100, 2, at=450, dtype="BFloat16")]))


def test_n05_is_silent_below_a_twentieth_of_the_step() -> None:
    assert "RL-N05" not in found(*alike([*base(), *exchanged(600, 49, 2, at=450)]))
    assert "RL-N05" in found(*alike([*base(), *exchanged(600, 51, 2, at=450)]))


def test_n05_is_silent_on_a_cpu_where_the_hook_of_ddp_refuses_gloo() -> None:
    events = [
        step(0, 0, 1000),
        op("aten::mm", 10, 200, **AUTOGRAD),
        node(250, 200),
        region("gloo:all_reduce", 400, 400, tid=7) | {"args": {"Input Dims": [[64]], "Input type": ["float"]}},
        region("Optimizer.step#SGD.step", 900, 50),
    ]
    findings = found(*alike(events))
    assert "RL-N05" not in findings


# RL-N22: gradients are all-reduced after the backward pass, when no compute is left to hide it.


GRADIENTS = 64 * 1024  # elements of 4 bytes


def reduced(at: float, elements: int = GRADIENTS) -> list[Event]:
    """One all-reduce of 100 us that the host launches at `at`; the backward pass ends at 500 us."""
    return [*base(), *exchanged(700, 100, 2, at=at, elements=elements)]


def test_n22_claims_all_reduces_between_the_backward_pass_and_the_optimizer() -> None:
    # An operator after the backward pass says that it is over: autograd itself flushes gradients before.
    events = [*reduced(650), forward(600, 10)]
    finding = found(*alike(events))["RL-N22"]
    assert finding.alone_ns == 100_000
    assert values(finding)["exchanges"] == 1
    assert values(finding)["payload_bytes"] == 4 * GRADIENTS


def test_n22_knows_autograd_by_its_thread() -> None:
    """What another thread than that of the nodes launches after them, autograd has not flushed."""
    events = reduced(650)
    launched = [event for event in events if event.get("args", {}).get("correlation") == 2 and event["ts"] == 650]
    assert "RL-N22" not in found(*alike(events))
    (launch,) = launched
    launch["tid"] = 1
    assert found(*alike(events))["RL-N22"].alone_ns == 100_000


def test_n22_is_silent_where_gradients_are_reduced_in_the_backward_pass() -> None:
    assert "RL-N22" not in found(*alike(reduced(450)))


def test_n22_is_silent_about_a_norm_of_gradients() -> None:
    events = [*reduced(650, elements=1), forward(600, 10)]
    assert "RL-N22" not in found(*alike(events))
