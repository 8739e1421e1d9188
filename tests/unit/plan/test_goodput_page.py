"""Every number of the page on goodput is what the code computes."""

import re
from math import exp, expm1, log1p, sqrt
from pathlib import Path

import pytest

from redline.plan.job import (
    POWER_SHARE,
    JobRequest,
    ThreePointEstimate,
    band_rates,
    best_interval,
    goodput,
    mean_time_between_failures,
    published,
    rate_named,
    recovery_named,
)

PAGE = (Path(__file__).parents[3] / "docs" / "explanation" / "goodput.md").read_text()
SENTENCES = " ".join(PAGE.split())
NODES, PER_NODE = 233, 1e-4
HOUR_S, DAY_S = 3600.0, 86_400.0


def rows_under(heading: str) -> list[list[str]]:
    """Cells of every table row below a heading, heads and rules left out."""
    section = re.split(r"^## ", PAGE.split(f"## {heading}\n")[1], flags=re.MULTILINE)[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines() if line.startswith("|")]
    rules = {number for number, row in enumerate(cells) if set("".join(row)) <= {"-"}}
    return [row for number, row in enumerate(cells) if not {number, number + 1} & rules]


def best(rate: float, recovery: str) -> tuple[float, float]:
    """The best time between checkpoints in seconds, and its goodput."""
    used = recovery_named(recovery)
    interval_s = float(best_interval(rate, used.checkpoint_s))
    share = goodput(
        failures_per_s=rate, interval_s=interval_s, restart_s=used.restart_s, checkpoint_s=used.checkpoint_s
    )
    return interval_s, float(share)


def chance_of_failure(rate: float, time: float) -> float:
    """That at least one failure happens within a time."""
    return -expm1(-rate * time)


def test_a_rate_with_each_unit() -> None:
    rate = NODES * PER_NODE  # per period
    after = [-log1p(-chance) / rate for chance in (0.5, 0.99)]
    first = f"{100 * chance_of_failure(rate, 1):.1f} %"
    between = f"{float(mean_time_between_failures(rate)):.1f}"
    rows = rows_under("A rate needs a unit")[:3]
    for row, unit in zip(rows, ("period", "hour", "day"), strict=True):
        last = f"{after[1] / 24:.1f} days" if unit == "hour" else f"{after[1]:.1f} {unit}s"
        assert row == [unit, f"{between} {unit}s", first, f"{after[0]:.1f} {unit}s", last]


def test_the_chance_of_a_node_is_its_rate_where_both_are_small() -> None:
    """What the page says of rates holds for probabilities: 1 - (1 - p)^(nodes * periods)."""
    for periods in (1, 24, 168):
        counted = 1 - (1 - PER_NODE) ** (NODES * periods)
        assert counted == pytest.approx(chance_of_failure(NODES * PER_NODE, periods), rel=1e-4)


def test_the_job_of_233_nodes_in_sentences() -> None:
    rate = NODES * PER_NODE
    day, week = (100 * chance_of_failure(rate, hours) for hours in (24, 168))
    assert (
        f"once in {1 / rate:.0f} hours: {day:.0f} % of the time within a day, {week:.0f} % within a week" in SENTENCES
    )
    assert f"One failure in {1 / rate:.0f} hours, so about {rate * 24 * 30:.0f} in a month" in SENTENCES
    assert f"{NODES * 8:,} GPUs" in SENTENCES


def test_the_table_of_published_rates() -> None:
    assert rows_under("A rate needs a unit")[3:] == [
        [
            f"`{rate.id}`",
            f"{1000 * rate.failures_per_node_day:.2f}",
            f"{100 * rate.failures_per_node_day / 24:.4f}",
        ]
        for rate in published().rates
    ]
    nodes = {rate.id: rate.devices_per_node for rate in published().rates if rate.devices_per_node != 8}
    assert nodes == {"tpu-v4": 4, "gb200-field-low": 72, "gb200-field-high": 72}
    assert "a plan spans `rsc-2`, `llama-3` and `rsc-1`" in SENTENCES


def test_the_simple_form_beside_the_exact_one() -> None:
    used = recovery_named("automatic")
    assert (used.restart_s, used.checkpoint_s) == (1200, 60)
    for gpus, simple, exact in rows_under("The formula"):
        rate = rate_named("rsc-1").failures_per_s(int(gpus.replace(",", "")))
        interval_s = sqrt(2 * used.checkpoint_s / rate)  # Young's rule
        first_order = (1 - rate * (used.restart_s + interval_s / 2)) / (1 + used.checkpoint_s / interval_s)
        published_form = interval_s * rate / (exp(rate * used.restart_s) * expm1(rate * (interval_s + 60)))
        assert (simple, exact) == (f"{first_order:.3f}", f"{published_form:.3f}")


def test_the_table_of_recoveries_by_size() -> None:
    rows = rows_under("What recovery is worth")
    for row in rows[:5]:
        rates = [rate.failures_per_s(int(row[0].replace(",", ""))) for rate in band_rates()]
        hours = [f"{1 / rate / HOUR_S:#.3g}".rstrip(".") for rate in rates]
        shares = [
            " / ".join(f"{100 * best(rate, recovery.id)[1]:.1f}" for rate in rates)
            for recovery in published().recoveries
        ]
        assert row[1:] == [" / ".join(hours), *shares]
    assert rows[5:] == [
        [f"`{one.id}`", f"{one.restart_s / 60:.0f} min", f"{one.checkpoint_s:g} s", one.what]
        for one in published().recoveries
    ]


def test_published_results_come_out() -> None:
    rate = 2000 * rate_named("rsc-1").failures_per_node_day / DAY_S
    metas = [
        float(goodput(failures_per_s=rate, interval_s=minutes * 60.0, restart_s=300.0, checkpoint_s=0.0))
        for minutes in (60, 5)
    ]
    assert f"here it is {metas[0]:.3f} and {metas[1]:.3f}" in SENTENCES
    llama = best(rate_named("llama-3").failures_per_s(16_384), "asynchronous")[1]
    assert f"`asynchronous` gives {100 * llama:.1f} %" in SENTENCES


def test_the_example() -> None:
    rate = NODES * PER_NODE / HOUR_S
    found = [(recovery.id, *best(rate, recovery.id)) for recovery in published().recoveries]
    assert rows_under("An example: 233 nodes") == [
        [
            f"`{name}`",
            f"{interval_s / 60:.1f} min" if interval_s < 600 else f"{interval_s / 60:.0f} min",
            f"{100 * share:.1f} %",
            f"{30 / share:.1f} days",
        ]
        for name, interval_s, share in found
    ]
    gain, spare = found[3][2] - found[2][2], 1 / NODES
    assert f"`standby` gains another {100 * gain:.1f} points" in SENTENCES
    assert f"costs {100 * spare:.1f} %: two spares are worth their price, three are not" in SENTENCES
    assert 2 * spare < gain < 3 * spare


def test_size_of_a_checkpoint_and_energy() -> None:
    bloom = JobRequest(
        step_s=ThreePointEstimate.exactly(1.0), tokens_per_step=1, tokens=1, devices=1, parameters=176.2e9
    )
    assert f"{bloom.checkpoint_bytes_per_parameter:.0f} bytes per parameter" in SENTENCES
    assert bloom.checkpoint_bytes is not None
    assert f"that is {bloom.checkpoint_bytes / 1e12:.2f} TB" in SENTENCES
    assert f"The share is {POWER_SHARE} unless another is given" in SENTENCES
    assert f"PUE is {bloom.pue} unless it is given" in SENTENCES


def test_what_does_not_follow_from_the_rate_of_nodes() -> None:
    hours = 1 / rate_named("rsc-1").failures_per_s(1024) / HOUR_S
    assert f"from the rate per node it would be {hours:.1f}" in SENTENCES
