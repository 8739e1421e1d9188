"""RL-N02: gradients are exchanged in every backward pass, although only the last one before the optimizer needs it."""

from collections.abc import Sequence

from redline.findings.aggregate import findings_of
from redline.ledger.job.first_screen import outline_of
from tests.support.events import Event, region
from tests.support.rules.communication import STEP_US, alike, exchanged, forward, node, values
from tests.support.rules.matching import diagnosis, found, launched, step


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
