"""The page of a calibration: it says what the text says, draws what was measured, and leaves out what was not."""

import re
from dataclasses import replace

import pytest

from redline.calibration.collectives.collective_law import ring_time_ns
from redline.calibration.figures import machine_of
from redline.report.calibrate import figures
from redline.report.calibrate import messages as say
from redline.report.calibrate.calibration_report import page_of
from redline.report.html.frame import page_text
from redline.report.language import speaking
from tests.support.made_calibrations import (
    NOISY,
    QUIET,
    around,
    bare_calibration,
    calibration,
    collectives,
    cpu_machine,
    gpu_calibration,
    gpu_machine,
    peak,
)
from tests.support.pages import data_of, visible

MOST_BYTES = 2_500_000
EVIL = "</script><img src=x onerror=alert(1)>&amp;"
SICK = calibration(conditions=NOISY, collectives=collectives(slow=True))


# --- what it says -----------------------------------------------------------------------------------------------------


def test_it_says_what_is_wrong_and_how_noisy_it_was() -> None:
    text = visible(page_text(page_of(SICK, cpu_machine())))
    for line in (*say.troubles(SICK.collectives), say.noise(NOISY), say.ridge(SICK), say.headline(SICK)):
        assert line in text
    assert "Synthetic: made up, not measured." in text
    assert "fp8 matmul: no hardware for it" in text


def test_no_headline_has_a_figure_that_cannot_be_used() -> None:
    busy = calibration(conditions=replace(QUIET, waited_share=0.5), collectives=None)
    text = page_text(page_of(busy, machine_of(busy)))
    assert '<div class="fact">' not in text
    assert (
        "Imaginary CPU 9000 could not be measured well enough: 50 % of the processor time that it asked for went to "
        "others. Calibrate again on a quiet machine."
    ) in visible(text)
    assert "reaches at most" not in text
    assert "memory bandwidth, peak fp32, peak bf16, best matmul fp32, " in visible(text)
    assert "Not usable: " in visible(text)


def test_a_headline_has_the_other_figures() -> None:
    wide = replace(peak("bf16", 1.55e12), burst_flops_per_s=around(1.55e12, 0.3))
    found = calibration(peaks=(peak("fp32", 2.05e11), wide), bandwidths=())
    text = visible(page_text(page_of(found, machine_of(found))))
    assert "Imaginary CPU 9000 reaches at most 205 GFLOP/s in fp32." in text
    assert "peak bf16, best matmul bf16: its interval reaches 30 % to one side, more than 25 %" in text


def test_a_healthy_machine_is_called_so() -> None:
    text = visible(page_text(page_of(calibration(), cpu_machine())))
    assert "What is wrong" not in text
    assert "healthy: all results are correct" in text


def test_the_catalogue_or_why_there_is_none() -> None:
    gpu = page_text(page_of(gpu_calibration(), gpu_machine()))
    assert ["peak bf16", "989 TFLOP/s", "760 TFLOP/s ±2.0 %", "76.8 %"] in data_of(gpu)["tables"]["catalogue"]["rows"]
    assert "has no record of this machine" not in visible(gpu)
    assert "has no record of this machine (it has no CPUs)" in visible(page_text(page_of(calibration(), cpu_machine())))


def test_the_first_screen_has_six_figures() -> None:
    text = page_text(page_of(calibration(), cpu_machine()))
    assert text.count('<div class="fact">') == 6
    said = "reaches at most 1.55 TFLOP/s in bf16, 205 GFLOP/s in fp32, and a memory bandwidth of 16.8 GB/s"
    assert f"Imaginary CPU 9000 {said}" in visible(text)


def test_what_was_not_measured_has_no_section() -> None:
    text = page_text(page_of(bare_calibration(), cpu_machine()))
    data = data_of(text)
    assert (data["charts"], data["tables"]) == ({}, {})
    assert re.findall(r'<section[^>]* id="(\w+)"', text) == ["verdict", "catalogue", "conditions", "definitions"]
    only_matmuls = calibration(bandwidths=(), collectives=None, roofline=None)
    assert "reaches at most" in visible(page_text(page_of(only_matmuls, cpu_machine())))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_it_is_small_and_speaks(language: str) -> None:
    with speaking(language):
        text = page_text(page_of(SICK, cpu_machine()))
    assert len(text.encode()) < MOST_BYTES
    assert f'<html lang="{ {"en": "en", "zh": "zh-CN"}[language] }">' in text


def test_names_are_data_and_never_markup() -> None:
    evil = calibration(
        subject=replace(calibration().subject, name=EVIL, host=EVIL),
        collectives=replace(collectives(), backend=EVIL),
        peaks=tuple(replace(one, shape=EVIL) for one in calibration().peaks),
    )
    text = page_text(page_of(evil, replace(cpu_machine(), name=EVIL)))
    assert "<img" not in text
    assert EVIL[:40] in visible(text)


# --- charts -----------------------------------------------------------------------------------------------------------


def test_the_roofline_has_every_kernel_and_the_ridge() -> None:
    figure = figures.roofs_figure(calibration())
    assert figure is not None
    assert sum(len(one["marks"]) for one in figure["kernels"]) == len(calibration().kernels)
    assert [peak["name"] for peak in figure["peaks"]] == ["fp32 205 GFLOP/s", "bf16 1.55 TFLOP/s"]
    assert figure["bytes_per_s"] == pytest.approx(1.68e10)
    assert (figure["ridge"]["x"], figure["ridge"]["y"]) == (6.43, 9e10)
    assert len(figure["experiment"]) == 11
    assert all(mark["low"] <= mark["y"] <= mark["high"] for one in figure["kernels"] for mark in one["marks"])


def test_a_roofline_without_memory_takes_the_bandwidth_of_the_experiment() -> None:
    figure = figures.roofs_figure(calibration(bandwidths=()))
    assert figure is not None
    assert figure["bytes_per_s"] == pytest.approx(1.4e10)
    bare = figures.roofs_figure(calibration(bandwidths=(), roofline=None))
    assert bare is not None
    assert (bare["bytes_per_s"], bare["ridge"], bare["experiment"]) == (None, None, [])


def test_sustained_rates_are_percent_of_the_burst() -> None:
    figure = figures.sustained_figure(calibration())
    assert figure is not None
    assert [one["name"] for one in figure["curves"]] == ["fp32", "bf16"]
    assert figure["curves"][0]["marks"][-1]["y"] == pytest.approx(94)


def test_collectives_have_the_curve_of_a_ring_of_their_links() -> None:
    found = collectives()
    figure = figures.bus_figure(found)
    assert figure is not None
    assert [one["name"] for one in figure["curves"]] == ["all_reduce", "all_gather", "broadcast"]
    size, bandwidth = figure["curves"][0]["ring"][-1]
    assert bandwidth == pytest.approx(1.5 * size / ring_time_ns("all_reduce", 4, size, 4e4, 2e9) * 1e9, rel=1e-3)
    law = replace(found.laws[0], operation="send_recv", latency_ns=7.0, bytes_per_s=8.0)
    assert figures.pair_law(replace(found, laws=(law,))) == (7.0, 8.0)
    alone = figures.bus_figure(replace(found, laws=(), pairs=()))
    assert alone is not None
    assert alone["curves"][0]["ring"] == []


def test_without_data_there_is_no_chart() -> None:
    bare = bare_calibration()
    assert figures.roofs_figure(bare) is None
    assert figures.bandwidths_figure(bare) is None
    assert figures.sustained_figure(bare) is None
    assert figures.bus_figure(None) is None
    assert figures.bus_figure(replace(collectives(), points=())) is None
