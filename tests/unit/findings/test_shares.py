"""What a share is of: time that is lost, never work that stays."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from redline.findings.savings import CORE_BYTES_PER_S, FLOPS_PER_BYTE, work_that_stays
from redline.ledger.rank.rank_analysis import analysis_of
from tests.support.events import Event, document, op, read_one
from tests.support.rules.matching import found, step

FLOPS_PER_NS = FLOPS_PER_BYTE * CORE_BYTES_PER_S / 1e9


def product(ts: float, dur: float, rows: int) -> Event:
    known: dict[str, Any] = {"Input Dims": [[rows, 1024], [1024, 1024]], "Input type": ["float", "float"]}
    return op("aten::mm", ts, dur, **known)


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(600, 900)), min_size=1, max_size=8))
def test_of_a_slow_product_its_arithmetic_stays(calls: list[tuple[int, int]]) -> None:
    events = [step(0, 0, 1000 * len(calls))]
    events += [product(1000 * place, dur, rows) for place, (rows, dur) in enumerate(calls)]
    with TemporaryDirectory() as folder:
        analysis = analysis_of(read_one(document(events), Path(folder)), None)
    stays = work_that_stays(analysis)
    needed_ns = [min(2 * rows * 1024 * 1024 / FLOPS_PER_NS, 1000 * dur) for rows, dur in calls]
    compute = analysis.activity.compute
    staying_ns = stays.overlap_with(compute.start_ns, compute.end_ns)
    assert (staying_ns <= np.array(needed_ns) + 1).all()  # at the best rate seen, or faster ones are less
    rates = [2 * rows * 1024 * 1024 / (1000 * dur) for rows, dur in calls]
    if max(rates) < FLOPS_PER_NS:
        assert (staying_ns >= np.array(needed_ns) - 1).all()


def test_no_bound_of_tiny_batches_is_the_whole_step() -> None:
    """Requests one by one, all of whose time is in products: what they multiply is left of them."""
    known: dict[str, Any] = {"Input Dims": [[1, 8, 1024], [1024, 1024]]}
    layers = [
        event
        for place in range(4)
        for event in (
            op("aten::linear", 1000 * place, 1000, **known),
            product(1000 * place, 1000, 8),
        )
    ]
    (finding,) = [one for one in found(document([step(0, 0, 4000), *layers])).values() if one.code == "RL-B02"]
    left_ns = 4 * 2 * 8 * 1024 * 1024 / FLOPS_PER_NS
    assert finding.alone_share == pytest.approx(1 - left_ns / 4e6, abs=0.001)
