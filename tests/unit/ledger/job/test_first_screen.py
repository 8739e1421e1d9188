"""The first screen as numbers: utilisation by hand, the waterfall, and each thing that a trace may leave unseen."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from redline.hardware.machine import Machine
from redline.ledger.accounts import ACCOUNTS, Account
from redline.ledger.job.combine import Diagnosis, combine
from redline.ledger.job.first_screen import Outline, Remark, Unseen, outline_of
from redline.ledger.rank.digest import Digest, digest_of
from tests.support.events import Event, collective, document, kernel, launch, op, read_one, region, span
from tests.support.machines import PRODUCT, PRODUCT_FLOPS, figure

PEAK = PRODUCT_FLOPS / 1e-6  # the product takes a microsecond at best
MACHINE = Machine(name="made up", figures={"memory_bytes_per_s": figure(1e15), "peak_flops_per_s.fp32": figure(PEAK)})
HALF: dict[str, Any] = {"Input type": ["c10::Half", "c10::Half"]}


def digest(events: Sequence[Event], machine: Machine | None = MACHINE, rank: int = 0, **metadata: Any) -> Digest:
    with TemporaryDirectory() as folder:
        return digest_of(read_one(document(events, rank=rank, **metadata), Path(folder)), machine)


def product(at: float, number: int, dur: float = 4, **more: Any) -> list[Event]:
    """A product that is called at one time and runs 5 us later."""
    return [
        op("aten::mm", at, 3, **{**PRODUCT, **more}),
        launch(at + 1, number, dur=1),
        kernel("gemm", at + 5, dur, correlation=number),
    ]


def two_steps() -> list[Event]:
    marks = [region(f"ProfilerStep#{step}", 20 * step, 20) for step in range(2)]
    return [*marks, *product(0, 1), *product(20, 2), *product(30, 3)]


def outline(*digests: Digest) -> Outline:
    return outline_of(combine(digests))


# --- steps and the waterfall ------------------------------------------------------------------------------------------


def test_steps_and_windows_of_a_job() -> None:
    steps = outline(digest(two_steps())).steps
    assert (steps.steps, steps.median_ns, steps.shortest_ns, steps.longest_ns) == (2, 20_000, 20_000, 20_000)
    assert (steps.window_ns, steps.in_steps_ns, steps.trace_ns) == (40_000, 40_000, 40_000)
    assert (steps.device_window_ns, steps.busy_ns, steps.computing_ns) == (34_000, 12_000, 12_000)


def test_the_waterfall_climbs_from_the_arithmetic_to_the_step() -> None:
    found = outline(digest(two_steps()), digest(two_steps(), rank=1))
    assert tuple(bar.account for bar in found.waterfall) == ACCOUNTS
    before = 0.0
    for bar in found.waterfall:
        assert bar.before_ns == pytest.approx(before)
        before += bar.time_ns
    assert before == pytest.approx(20_000)
    assert found.waterfall[0].time_ns == pytest.approx(1500)  # three products in two steps
    assert sum(bar.share for bar in found.waterfall) == pytest.approx(1)
    assert [bar.time_ns for bar in found.largest] == sorted((bar.time_ns for bar in found.largest), reverse=True)
    assert all(bar.share >= 0.01 and bar.account != Account.MATH for bar in found.largest)


# --- utilisation ------------------------------------------------------------------------------------------------------


def test_utilisation_is_arithmetic_over_what_the_peak_allows() -> None:
    found = outline(digest(two_steps())).utilisation
    assert found is not None
    assert found.mfu == found.hfu == pytest.approx(3e-6 / 40e-6)
    assert (found.flops, found.recomputed_flops, found.unrated_flops) == (round(1.5 * PRODUCT_FLOPS), 0, 0)
    assert found.model_flops == {"fp32": round(1.5 * PRODUCT_FLOPS)}
    assert found.peaks == {"fp32": PEAK}
    assert (found.step_ns, found.known_share) == (20_000, 1)


def test_of_several_ranks_it_is_the_average() -> None:
    one = digest(two_steps())
    idle = digest([region("ProfilerStep#0", 0, 40), *product(0, 1)], rank=1)
    found = outline(one, idle).utilisation
    assert found is not None
    assert found.hfu == pytest.approx(4e-6 / 80e-6)


def test_work_that_is_done_again_counts_for_the_hardware_only() -> None:
    node = op("CheckpointFunctionBackward", 19, 8, **{"Sequence number": 0, "Fwd thread id": 1})
    again: dict[str, Any] = {"Sequence number": 5, "Fwd thread id": 0}
    events = [region("ProfilerStep#0", 0, 40), *product(0, 1), node, *product(20, 2, **again)]
    found = outline(digest(events)).utilisation
    assert found is not None
    assert [found.hfu, found.mfu] == pytest.approx([2e-6 / 40e-6, 1e-6 / 40e-6])
    assert (found.flops, found.recomputed_flops, found.model_flops) == (
        2 * PRODUCT_FLOPS,
        PRODUCT_FLOPS,
        {"fp32": PRODUCT_FLOPS},
    )


def test_what_lies_outside_steps_counts_neither_way() -> None:
    found = outline(digest([*two_steps(), *product(50, 9)])).utilisation
    assert found is not None
    assert found.hfu == pytest.approx(3e-6 / 40e-6)


def test_types_without_a_peak_are_kept_apart() -> None:
    half: dict[str, Any] = {"Input type": ["c10::BFloat16", "c10::BFloat16"]}
    found = outline(digest([region("ProfilerStep#0", 0, 40), *product(0, 1), *product(20, 2, **half)])).utilisation
    assert found is not None
    assert (found.flops, found.unrated_flops) == (PRODUCT_FLOPS, PRODUCT_FLOPS)
    assert found.hfu == pytest.approx(1e-6 / 40e-6)


def test_of_kernels_without_shapes_it_is_a_lower_bound() -> None:
    found = outline(digest([*two_steps(), launch(10, 9), kernel("mystery", 11, 4, correlation=9)])).utilisation
    assert found is not None
    assert found.known_share == pytest.approx(0.75)


@pytest.mark.parametrize("machine", [None, Machine(name="nothing known")], ids=["no machine", "no peak"])
def test_without_a_peak_there_is_none(machine: Machine | None) -> None:
    assert outline(digest(two_steps(), machine)).utilisation is None


# --- what could not be seen -------------------------------------------------------------------------------------------


def gemm(start: float, dur: float, number: int = 1, at: float = 0) -> list[Event]:
    return [launch(at, number, dur=1), kernel("gemm", start, dur, correlation=number)]


def rank_with(ends_us: Sequence[float], rank: int) -> Digest:
    """A rank whose all-reduces end at these times."""
    events = [region("ProfilerStep#0", 0, 100_000), *(collective(end - 50, 50) for end in ends_us)]
    return digest(events, rank=rank, world_size=2)


def _unlike_clocks() -> Diagnosis:
    """Ends that drift apart by milliseconds."""
    ends = [1000 + 9000 * number for number in range(8)]
    return combine([rank_with(ends, 0), rank_with([end + 4000 * (n % 3) for n, end in enumerate(ends)], 1)])


def _plain() -> Digest:
    return digest(two_steps())


def _lost() -> Digest:
    return digest([*two_steps(), *(launch(35 + number / 10, 100 + number, dur=0.05) for number in range(3))])


def _planned() -> Digest:
    made = digest(two_steps(), synthetic="a planner")
    return replace(made, origin=replace(made.origin, predicted=True))


CASES: dict[Unseen, tuple[Callable[[], Diagnosis], dict[str, Any]]] = {
    Unseen.SYNTHETIC: (
        lambda: combine([digest(two_steps(), synthetic="a generator")]),
        {"ranks": 1, "detail": "a generator"},
    ),
    Unseen.PREDICTED: (
        lambda: combine([_planned()]),
        {"ranks": 1, "detail": "a planner"},
    ),
    Unseen.ALTERED: (
        lambda: combine([replace(_plain(), origin=replace(_plain().origin, altered=("kernels/2",)))]),
        {"ranks": 1, "detail": "kernels/2"},
    ),
    Unseen.NO_PEAK: (
        lambda: combine(
            [replace(digest(two_steps(), None), facts=replace(digest(two_steps(), None).facts, why_no_machine="why"))]
        ),
        {"ranks": 1, "detail": "why"},
    ),
    Unseen.NO_DTYPE_PEAK: (
        lambda: combine([digest(product(0, 1, **HALF))]),
        {"detail": "fp16"},
    ),
    Unseen.UNUSABLE_FIGURES: (
        lambda: combine([replace(digest(two_steps()), facts=replace(digest(two_steps()).facts, why_no_machine="why"))]),
        {"ranks": 1, "detail": "why"},
    ),
    Unseen.UNKNOWN_WORK: (
        lambda: combine([digest(gemm(5, 10))]),
        {"time_ns": 10_000, "share": 1.0, "detail": "no shapes recorded"},
    ),
    Unseen.ABOVE_ROOF: (lambda: combine([digest(product(0, 1, dur=0.5))]), {"ranks": 1, "count": 1}),
    Unseen.NO_HOST: (lambda: combine([digest([kernel("gemm", 0, 10)])]), {"ranks": 1}),
    Unseen.NO_DEVICE_WORK: (
        lambda: combine([digest([op("aten::mm", 0, 10), launch(2, 1), launch(6, 2)])]),
        {"ranks": 1, "count": 2},
    ),
    Unseen.NO_DEVICE: (lambda: combine([digest([op("aten::mm", 0, 10)])]), {"ranks": 1}),
    Unseen.ONE_RANK: (
        lambda: combine([digest([collective(0, 10)], world_size=4)]),
        {"time_ns": 10_000, "count": 4},
    ),
    Unseen.UNMATCHED: (
        lambda: combine([rank_with([1000, 2000], 0), digest([kernel("gemm", 0, 10)], rank=1, world_size=2)]),
        {"time_ns": 100_000, "share": 1.0},
    ),
    Unseen.CLOCKS: (_unlike_clocks, {}),
    Unseen.NO_LAUNCH: (
        lambda: combine([digest([*two_steps(), kernel("lost", 12, 2)])]),
        {"ranks": 1, "count": 1, "time_ns": 2000},
    ),
    Unseen.LOST_WORK: (lambda: combine([_lost()]), {"ranks": 1, "count": 3}),
    Unseen.FIRST_QUEUE: (
        lambda: combine([digest(gemm(50, 50))]),
        {"ranks": 1, "time_ns": 49_000, "share": 0.49},
    ),
    Unseen.OTHER: (lambda: combine([digest([kernel("a", 0, 10), kernel("b", 30, 10)])]), {"time_ns": 20_000}),
    Unseen.NO_STACKS: (lambda: combine([_plain()]), {"ranks": 1}),
    Unseen.NO_STEPS: (
        lambda: combine([digest(gemm(5, 10))]),
        {"ranks": 1, "detail": "no mark: the whole window is one"},
    ),
    Unseen.OUTSIDE_STEPS: (
        lambda: combine([digest([region("ProfilerStep#0", 0, 20), *product(0, 1), kernel("late", 30, 10)])]),
        {"ranks": 1, "time_ns": 20_000, "share": 0.5},
    ),
    Unseen.POLLING: (
        lambda: combine([digest([*two_steps(), span("cuda_runtime", "cudaEventQuery", 99, 1, tid=77)])]),
        {"ranks": 1, "time_ns": 60_000, "share": 1.5},
    ),
    Unseen.DROPPED: (
        lambda: combine([digest([*two_steps(), {"ph": "X", "cat": "kernel", "name": "without times"}])]),
        {"ranks": 1, "count": 1},
    ),
    Unseen.MISSING_RANKS: (
        lambda: combine([digest(two_steps(), rank=rank, world_size=12) for rank in (0, 3)]),
        {"count": 10, "detail": "1, 2, 4, 5, 6, 7, 8, 9, ..."},
    ),
    Unseen.DOUBLE_RANKS: (lambda: combine([_plain(), _plain()]), {"count": 1, "detail": "0"}),
    Unseen.SEVERAL_JOBS: (
        lambda: combine([replace(_plain(), zero_ns=1_700_000_000 * 10**9 + hours * 3600 * 10**9) for hours in (0, 2)]),
        {"count": 2},
    ),
    Unseen.UNKNOWN_DEVICE: (
        lambda: combine([digest([op("aten::mm", 0, 50), span("tensix", "gemm", 5, 10, tid=77)])]),
        {"ranks": 1, "count": 1},
    ),
    Unseen.LEFT_OUT: (
        lambda: combine([replace(_plain(), left_out={"exchanges": 7})]),
        {"ranks": 1, "count": 7},
    ),
}


@lru_cache
def remarks(what: Unseen) -> tuple[Remark, ...]:
    return outline_of(CASES[what][0]()).unseen


@pytest.mark.parametrize("what", Unseen)
def test_what_could_not_be_seen_is_said(what: Unseen) -> None:
    (found,) = [remark for remark in remarks(what) if remark.what == what]
    for name, value in CASES[what][1].items():
        assert getattr(found, name) == (pytest.approx(value) if isinstance(value, float) else value), name


def test_a_good_trace_leaves_nothing_unseen() -> None:
    marks = [region("ProfilerStep#0", 0, 100), span("python_function", "train.py(1): main", 0, 100)]
    events = [*marks, op("aten::mm", 0, 3, **PRODUCT), launch(1, 1, dur=1), kernel("gemm", 3, 96, correlation=1)]
    assert outline(digest(events, record_shapes=1, with_stack=1)).unseen == ()


def test_clocks_that_disagree_say_by_how_much() -> None:
    (found,) = [remark for remark in remarks(Unseen.CLOCKS) if remark.what == Unseen.CLOCKS]
    assert found.time_ns > 1_000_000
    assert _unlike_clocks().lateness is not None  # who was late is told by how long each was in it


def test_small_amounts_need_no_remark() -> None:
    found = outline(digest([region("ProfilerStep#0", 0, 100), *product(0, 1), kernel("late", 101, 1)]))
    assert Unseen.OUTSIDE_STEPS not in {remark.what for remark in found.unseen}


def test_accounts_of_the_average_step_are_exact_sums() -> None:
    found = combine([digest(two_steps()), digest(two_steps(), rank=1)])
    total = np.sum([rank.ledger.steps.sum(axis=0) for rank in found.ranks], axis=0)
    assert found.in_steps.tolist() == total.tolist()
    assert found.rank_steps == 4
    assert sum(found.per_step.values()) == pytest.approx(20_000)
