"""A calibration on a terminal: what is wrong stands first, every figure has its interval, and it fits the screen."""

import re
from dataclasses import replace

import pytest

from redline.calibration import conditions, overhead
from redline.calibration.calibration_record import Calibration, Estimate
from redline.calibration.figures import machine_of
from redline.hardware.machine import FIGURE_UNITS, Machine
from redline.report import figure_names
from redline.report.calibrate import messages as say
from redline.report.calibrate import tables
from redline.report.calibrate.calibration_report import document_of
from redline.report.display import PLAIN_COLUMNS, Display, displaying
from redline.report.language import speaking
from redline.report.terminal import text_of, width_of
from tests.support.command_line import ROOT
from tests.support.made_calibrations import (
    NOISY,
    around,
    bare_calibration,
    calibration,
    collectives,
    cpu_machine,
    doublings,
    gpu_calibration,
    gpu_machine,
    roofline,
)

GOLDEN = ROOT / "tests" / "golden" / "calibrate"
MOST_LINES = 90
SICK = calibration(conditions=NOISY, collectives=collectives(slow=True))


@pytest.mark.parametrize(
    ("golden", "found", "machine", "language"),
    [
        ("cpu", calibration(), cpu_machine(), "en"),
        ("sick", SICK, cpu_machine(), "en"),
        ("sick.zh", SICK, cpu_machine(), "zh"),
        ("gpu", gpu_calibration(), gpu_machine(), "en"),
        ("bare", bare_calibration(), cpu_machine(), "en"),
    ],
)
def test_text(golden: str, found: Calibration, machine: Machine, language: str, update_golden: bool) -> None:
    with speaking(language):
        text = text_of(document_of(found, machine))
    path = GOLDEN / f"{golden}.txt"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    assert max(map(width_of, text.split("\n"))) <= PLAIN_COLUMNS
    assert text.count("\n") <= MOST_LINES


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("columns", [80, 160])
@pytest.mark.parametrize(("found", "machine"), [(SICK, cpu_machine()), (gpu_calibration(), gpu_machine())])
def test_a_terminal_gets_its_own_width(found: Calibration, machine: Machine, columns: int, language: str) -> None:
    with speaking(language), displaying(Display(columns=columns, is_terminal=True, has_colour=True)):
        text = text_of(document_of(found, machine))
        assert 70 < max(map(width_of, text.split("\n"))) <= columns


# --- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (98, 102, "±2.0 %"),
        (98, 109, "±9.0 %"),
        (80, 101, "±20 %"),
        (100, 100, "±0.0 %"),
        (90.06, 100, "±9.9 %"),
        (60, 825, "0.60x..8.2x"),
        (10, 5e4, "0.10x..>99x"),
    ],
)
def test_an_interval_reaches_to_its_further_end(low: float, high: float, text: str) -> None:
    assert say.interval(Estimate(value=100, low=low, high=high, samples=3)) == text


def test_a_figure_that_was_not_measured_is_a_dash() -> None:
    assert say.figure(None, "FLOP/s") == "-"
    assert say.figure(Estimate(value=0, low=0, high=0, samples=1), "ns") == "0 ns"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (48.25, "ns", "48.2 ns"),
        (870.4, "ns", "870 ns"),
        (2.05e11, "FLOP/s", "205 GFLOP/s"),
        (3e12, "OP/s", "3.00 TOP/s"),
        (1.4e10, "B/s", "14.0 GB/s"),
        (6.4321, "FLOP/byte", "6.43 FLOP/byte"),
    ],
)
def test_amounts_have_their_unit(value: float, unit: str, text: str) -> None:
    assert say.amount(value, unit) == text


def test_every_figure_has_an_interval() -> None:
    """In the tables of what was measured; only ratios, errors and what was fitted have none."""
    text = " ".join(text_of(document_of(calibration(collectives=None), cpu_machine())).split())
    amounts = re.findall(r"\d (?:[GT]FLOP/s|[MG]B/s|[num]s)\b(?! [a-z])(.{0,3})", text)
    assert amounts
    assert all("±" in after for after in amounts), amounts


def test_a_terminal_without_unicode_gets_plain_letters() -> None:
    assert text_of(document_of(calibration(), cpu_machine()), unicode=False).isascii()


# --- names ------------------------------------------------------------------------------------------------------------


def test_everything_that_is_measured_has_a_name() -> None:
    assert set(say.OVERHEADS) == set(overhead.MEANINGS)
    assert {name.partition(".")[0] for name in FIGURE_UNITS} == set(figure_names.LABELS)


def test_a_name_of_a_newer_version_is_shown_as_it_is() -> None:
    assert say.named(say.OVERHEADS, "warp_drive_2") == "warp drive 2"


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_slow_ranks_and_pairs_come_first() -> None:
    second = text_of(document_of(SICK, cpu_machine())).split("\n\n")[1]
    lines = [line for line in second.split("\n") if line.startswith("  ! ")]
    assert lines == [
        "  ! rank 3 on host node-a takes 1.9 times as long as usual for the same work",
        "  ! the link between ranks 0 and 2 is slow: latency 400.0 us, 10 times the usual; bandwidth",
    ]


def test_a_slow_rank_whose_core_others_use_is_told_so() -> None:
    slow = replace(collectives(slow=True).ranks[3], cpu_share=0.55)
    assert say.slow_rank(slow).endswith("; it got 55.0 % of its core: something else is running there")
    assert "core" not in say.slow_rank(replace(slow, cpu_share=0.99))


def test_a_wrong_result_comes_before_all_else() -> None:
    found = collectives(slow=True)
    wrong = replace(found, points=(replace(found.points[0], correct=False), *found.points[1:]))
    text = text_of(document_of(calibration(collectives=wrong), cpu_machine()))
    assert "what is wrong\n  ! all_reduce of 1 KiB among 4 ranks gave a wrong result" in text
    assert re.search(r"all_reduce .* WRONG\n", text)


def test_very_many_slow_ranks_are_counted() -> None:
    found = collectives(slow=True)
    many = replace(found, ranks=tuple(replace(found.ranks[3], rank=number) for number in range(30)))
    lines = list(say.troubles(many))
    assert len(lines) == 8 + 1 + 1
    assert lines[8] == "22 more"


def test_a_healthy_machine_is_called_so() -> None:
    text = text_of(document_of(calibration(), cpu_machine()))
    assert "healthy: all results are correct; none of 4 ranks is slow, nor any link" in text
    assert list(say.troubles(None)) == []


def test_every_cause_of_noise_is_said_with_its_figure() -> None:
    assert set(NOISY.noisy) == set(conditions.LIMITS)
    text = say.noise(NOISY)
    for figure in ("7.1 %", "34.0 %", "5.0 %", "load average was 3.2", "22.0 %", "9.3 %", "12.0 %"):
        assert figure in text
    assert "All intervals are wider because of it" in text
    assert say.noise(calibration().conditions) == ""
    assert "of_a_newer_version" in say.noise(replace(NOISY, noisy=("of_a_newer_version",)))
    assert "intervals are wider" in text
    assert "intervals are wider" not in say.noise(replace(NOISY, beat_spread=0.0, noisy=("load",)))


# --- experiments ------------------------------------------------------------------------------------------------------


def test_doubling_says_how_far_it_is_free() -> None:
    assert say.doubling(calibration()).startswith("Doubling the batch of a small network is mostly free up to 8:")
    costly = tuple(replace(one, doubled_time_ns=around(2 * one.time_ns.value)) for one in doublings())
    assert say.doubling(calibration(doublings=costly)) == (
        "Doubling the batch of a small network is never free: 2 takes 2.0 times as long as 1."
    )


def test_experiments_that_cannot_be_used_claim_nothing() -> None:
    found = roofline()
    vague = calibration(
        doublings=tuple(replace(one, time_ns=around(one.time_ns.value, 0.3)) for one in doublings()),
        roofline=replace(found, ridge_flops_per_byte=around(6.43, 0.4)),
    )
    assert say.doubling(vague) == ("Not usable: its interval reaches 30 % to one side, more than 25 %")
    assert say.ridge(vague) == "Not usable: its interval reaches 40 % to one side, more than 25 %"


# --- what cannot be used ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("en", "unusable memory bandwidth, peak fp32, peak bf16, best matmul fp32, "),
        ("en", "42 % of the processor time that it asked for went to others"),
        ("en", "`redline diagnose` and `redline plan` do not use them. Calibrate again on a quiet machine."),
        ("en", "in 143 s; partial: stopped early by SIGINT"),
        ("zh", "42 % 的处理器时间被其他进程占用"),
        ("zh", "请在空闲的机器上重新标定"),
    ],
)
def test_what_cannot_be_used_is_said_first_with_the_reason(language: str, said: str) -> None:
    found = replace(SICK, conditions=replace(NOISY, waited_share=0.34), collectives=None, partial="SIGINT")
    with speaking(language):
        text = text_of(document_of(found, machine_of(found)))
    assert said.replace(" ", "") in text.split("\n\n")[0].replace("\n", "").replace(" ", "")


# --- tables -----------------------------------------------------------------------------------------------------------


def test_sizes_are_thinned_out_evenly() -> None:
    assert tables.spread_out(range(5), 7) == [0, 1, 2, 3, 4]
    assert tables.spread_out(range(13), 7) == [0, 2, 4, 6, 8, 10, 12]
    assert len(tables.bandwidths(calibration(), verbose=True).rows) == 15


def test_a_kind_that_was_not_measured_at_a_size_is_a_dash() -> None:
    points = [point for point in calibration().bandwidths if (point.kind, point.working_bytes) != ("triad", 1 << 14)]
    rows = tables.bandwidths(calibration(bandwidths=tuple(points)), verbose=True).rows
    assert [row[2] for row in rows][:2] == ["-", "66.0 GB/s ±5.3 %"]


def test_the_catalogue_beside_what_was_measured() -> None:
    shown = tables.against_catalogue(gpu_machine())
    assert shown is not None
    assert shown.rows[0] == ("memory bandwidth", "3.35 TB/s", "2.90 TB/s ±2.0 %", "86.6 %")
    assert ("peak bf16", "989 TFLOP/s", "760 TFLOP/s ±2.0 %", "76.8 %") in shown.rows
    assert tables.against_catalogue(cpu_machine()) is None


def test_subgroups_are_shown_by_one_operation() -> None:
    found = collectives()
    halves = tuple(replace(point, group="half", ranks=2) for point in found.points)
    both = replace(found, points=(*found.points, *halves))
    assert len(tables.collectives(both, verbose=False).rows) == 5
    assert len(tables.collectives(both, verbose=True).rows) == 8
