"""Two calibrations side by side: overlapping intervals are the same, and no figure gets lost."""

import json
from dataclasses import replace

import pytest

from redline.calibration.calibration_record import FAMILIES, Calibration, Estimate, OverheadPoint
from redline.calibration.compare import Comparison, ComparisonVerdict, Row, compare, figures, verdict_of
from redline.report.calibrate.profile_comparison import ProfileComparison, summary
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import speaking
from redline.report.terminal import width_of
from tests.support.command_line import ROOT
from tests.support.made_calibrations import (
    NOISY,
    around,
    bare_calibration,
    calibration,
    collectives,
    gpu_calibration,
    peak,
)


def row_of(found: Comparison, quantity: str, of: str) -> Row:
    return next(row for row in found.rows if (row.quantity, row.of) == (quantity, of))


def between(low: float, high: float) -> Estimate:
    return Estimate(value=(low + high) / 2, low=low, high=high, samples=9)


@pytest.mark.parametrize(
    ("first", "second", "unit", "verdict"),
    [
        ((10, 12), (11, 14), "B/s", ComparisonVerdict.SAME),
        ((10, 12), (12, 14), "B/s", ComparisonVerdict.SAME),
        ((10, 12), (5, 20), "B/s", ComparisonVerdict.SAME),
        ((10, 12), (13, 14), "FLOP/s", ComparisonVerdict.FASTER),
        ((10, 12), (8, 9), "FLOP/s", ComparisonVerdict.SLOWER),
        ((10, 12), (13, 14), "ns", ComparisonVerdict.SLOWER),
        ((10, 12), (8, 9), "ns", ComparisonVerdict.FASTER),
        ((10, 12), (13, 14), "FLOP/byte", ComparisonVerdict.DIFFERENT),
    ],
)
def test_a_verdict_needs_intervals_that_do_not_meet(
    first: tuple[float, float], second: tuple[float, float], unit: str, verdict: ComparisonVerdict
) -> None:
    assert verdict_of(between(*first), between(*second), unit) is verdict


def test_a_calibration_is_the_same_as_itself() -> None:
    found = compare(calibration(), calibration())
    assert {row.verdict for row in found.rows} == {ComparisonVerdict.SAME}
    assert {row.ratio for row in found.rows} == {1.0}
    assert (found.only_first, found.only_second) == ((), ())
    assert len(found.rows) == len(list(figures(calibration())))
    assert {row.family for row in found.rows} == set(FAMILIES)


def test_names_are_unique() -> None:
    for one in (calibration(), gpu_calibration()):
        names = [figure.name for figure in figures(one)]
        assert len(names) == len(set(names))


def test_every_estimate_of_the_record_is_a_figure() -> None:
    """All of a calibration is compared but pairs, which have no intervals, and what is only a ratio."""
    full = calibration()
    assert full.collectives is not None
    assert full.roofline is not None
    expected = (
        2 * len(full.peaks)
        + 3 * len(full.laws)
        + len(full.kernels)
        + 1
        + len(full.bandwidths)
        + len(full.overheads)
        + len(full.loaders)
        + len(full.doublings)
        + 3
        + len(full.roofline.points)
        + 2 * len(full.collectives.laws)
        + len(full.collectives.points)
        + len(full.collectives.ranks)
    )
    assert len(list(figures(full))) == expected


def test_faster_slower_and_the_ratio() -> None:
    second = calibration(
        peaks=(peak("fp32", 1.5 * 2.05e11), peak("bf16", 0.5 * 1.55e12)),
        overheads=(OverheadPoint(name="python_call", time_ns=around(96)),),
    )
    found = compare(calibration(), second)
    assert row_of(found, "best_matmul", "fp32").verdict is ComparisonVerdict.FASTER
    assert row_of(found, "best_matmul", "fp32").ratio == pytest.approx(1.5)
    assert row_of(found, "best_matmul", "bf16").verdict is ComparisonVerdict.SLOWER
    assert row_of(found, "python_call", "").verdict is ComparisonVerdict.SLOWER
    assert row_of(found, "law_fixed", "fp32").verdict is ComparisonVerdict.SAME
    assert [one.quantity for one in found.only_first] == ["dispatch"]


def test_what_only_one_has_is_listed() -> None:
    found = compare(calibration(), bare_calibration())
    assert found.rows == ()
    assert len(found.only_first) == len(list(figures(calibration())))
    assert found.only_second == ()
    turned = compare(bare_calibration(), calibration())
    assert turned.only_second == found.only_first


def test_a_fitted_constant_is_trusted_as_far_as_its_fit_predicts() -> None:
    first = collectives()
    second = replace(first, laws=tuple(replace(one, latency_ns=1.1 * one.latency_ns) for one in first.laws))
    third = replace(first, laws=tuple(replace(one, latency_ns=1.5 * one.latency_ns) for one in first.laws))
    name = "latency", "all_reduce world 4"
    assert row_of(_with(first, second), *name).verdict is ComparisonVerdict.SAME
    assert row_of(_with(first, third), *name).verdict is ComparisonVerdict.SLOWER


def _with(first: object, second: object) -> Comparison:
    return compare(calibration(collectives=first), calibration(collectives=second))


def test_the_largest_size_is_the_main_figure_of_a_bandwidth() -> None:
    full: Calibration = calibration()
    mains = [figure for figure in figures(full) if figure.family == "memory" and figure.is_main]
    assert [(figure.quantity, figure.of) for figure in mains] == [
        ("memory_bandwidth", ""),
        ("copy", "256 MiB"),
        ("triad", "256 MiB"),
        ("sum", "256 MiB"),
        ("allocate", "64 MiB"),
    ]


def test_bandwidths_of_machines_with_other_caches_are_compared() -> None:
    full = calibration()
    twice = [
        replace(one, working_bytes=2 * one.working_bytes, moved_bytes=2 * one.moved_bytes) for one in full.bandwidths
    ]
    row = row_of(compare(full, calibration(bandwidths=tuple(twice))), "memory_bandwidth", "")
    assert row.ratio == pytest.approx(2.0)
    assert row.verdict is ComparisonVerdict.FASTER


def test_a_value_of_zero_has_no_ratio() -> None:
    zero = Estimate(value=0.0, low=0.0, high=1.0, samples=1)
    found = compare(calibration(), calibration())
    odd = replace(found, rows=(replace(found.rows[0], first=zero), replace(found.rows[1], first=around(1e-308))))
    assert [row.ratio for row in odd.rows] == [float("inf")] * 2
    text = ProfileComparison(comparison=odd).rendered("json")
    assert "Infinity" not in text
    assert [row["ratio"] for row in json.loads(text)["rows"]] == [None, None]
    assert "inf" not in ProfileComparison(comparison=odd).text()


# --- as text ----------------------------------------------------------------------------------------------------------

GOLDEN = ROOT / "tests" / "golden" / "calibrate"


def changed() -> Comparison:
    """Another day: a new torch, a faster bf16, a slower memory, and nothing of the roofline."""
    old = calibration()
    slower = tuple(
        replace(point, time_ns=around(1.5 * point.time_ns.value)) if point.kind == "copy" else point
        for point in old.bandwidths
    )
    new = calibration(
        date="2026-11-22T08:00:00+00:00",
        subject=replace(old.subject, software=(("torch", "2.14.0"), ("python", "3.11.2"))),
        conditions=NOISY,
        peaks=(old.peaks[0], peak("bf16", 2 * 1.55e12)),
        bandwidths=slower,
        roofline=None,
    )
    return compare(old, new)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_text_of_a_comparison(language: str, update_golden: bool) -> None:
    with speaking(language):
        text = ProfileComparison(comparison=changed()).text()
    path = GOLDEN / ("compare.txt" if language == "en" else "compare.zh.txt")
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(width_of, text.split("\n"))) <= PLAIN_COLUMNS


def test_the_first_line_of_a_comparison() -> None:
    same = compare(calibration(), calibration())
    count = len(same.rows)
    assert summary(same) == f"B against A, {count} figures: {count} same"
    nothing = compare(calibration(), bare_calibration())
    assert summary(nothing) == "the two calibrations have no figure in common"
    assert ProfileComparison(comparison=nothing).rendered("text", unicode=False).isascii()


def test_json_of_a_comparison_has_every_figure() -> None:
    found = changed()
    record = json.loads(ProfileComparison(comparison=found, synthetic=True).rendered("json"))
    assert (record["kind"], record["synthetic"]) == ("calibration-comparison", True)
    assert len(record["rows"]) == len(found.rows)
    assert len(record["only_first"]) == len(found.only_first) > 0
    row = next(row for row in record["rows"] if (row["quantity"], row["of"]) == ("best_matmul", "bf16"))
    assert (row["verdict"], row["ratio"], row["unit"], row["family"]) == ("faster", 2.0, "FLOP/s", "compute")
    assert row["first"]["low"] < row["first"]["value"] < row["first"]["high"]
