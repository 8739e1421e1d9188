"""Phases of the average step: sums of all ranks, or none where one rank does not tell them."""

import pytest

from redline.ledger.job.combine import combine
from redline.ledger.rank.digest import Digest
from redline.ledger.rank.digest_file import decoded, encoded
from redline.report.diagnose.tables import TABLES
from tests.support.events import Event, document, kernel, op, region
from tests.support.rules.matching import digest, step


def trained(optimizer_us: float, rank: int = 0) -> Digest:
    node = op("autograd::engine::evaluate_function: MmBackward0", 40, 20, **{"Sequence number": 1, "Fwd thread id": 1})
    events: list[Event] = [
        step(0, 0, 60 + optimizer_us),
        op("aten::mm", 0, 30, **{"Sequence number": 1, "Fwd thread id": 0}),
        node,
        region("Optimizer.step#SGD.step", 60, optimizer_us),
    ]
    return digest(document(events, rank=rank, world_size=2))


def test_phases_are_of_the_average_step_of_a_rank() -> None:
    rows = {str(row.phase): row for row in combine([trained(40), trained(60, rank=1)]).phases}
    assert list(rows) == ["input", "forward", "backward", "optimizer", "between"]
    assert rows["forward"].time_ns == 40_000
    assert (rows["forward"].device_ns, rows["forward"].host_ns) == (30_000, 10_000)
    assert rows["optimizer"].time_ns == 50_000
    assert sum(row.share for row in rows.values()) == pytest.approx(1)


def test_a_digest_keeps_them() -> None:
    made = trained(40)
    assert decoded(encoded(made, "a test"), "a.digest").phases == made.phases


def test_a_rank_that_does_not_tell_leaves_none() -> None:
    silent = digest(document([kernel("gemm", 0, 50)], rank=1, world_size=2))
    found = combine([trained(40), silent])
    assert found.phases == ()
    assert not TABLES["phases"](found, verbose=False).rows


def test_the_table_leaves_out_phases_that_take_no_time() -> None:
    shown = TABLES["phases"](combine([trained(40)]), verbose=False)
    assert [row[:3] for row in shown.rows] == [
        ("forward", "40.00 us", "40.0 %"),
        ("backward", "20.00 us", "20.0 %"),
        ("optimizer", "40.00 us", "40.0 %"),
    ]
