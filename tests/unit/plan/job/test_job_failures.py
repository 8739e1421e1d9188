"""Published failure rates are what their sources say, and a name that is unknown is explained."""

import pytest

from redline.errors import UsageError
from redline.plan.job import (
    FailureRate,
    Recovery,
    Writes,
    band_rates,
    band_recoveries,
    published,
    rate_named,
    recovery_named,
)


def test_every_figure_says_where_it_is_from() -> None:
    rates, recoveries = published().rates, published().recoveries
    assert all(rate.system and rate.scale and rate.source for rate in rates)
    assert all(recovery.what and recovery.source for recovery in recoveries)
    assert len({rate.id for rate in rates}) == len(rates)
    assert len({recovery.id for recovery in recoveries}) == len(recoveries)


def test_rates_rise_and_recoveries_get_faster() -> None:
    rates = [rate.failures_per_s(1) for rate in published().rates]
    assert rates == sorted(rates)
    costs = [(recovery.restart_s, recovery.checkpoint_s) for recovery in published().recoveries]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("name", "counted"),
    [
        ("llama-3", 419 / 54 / 2048),
        ("skt-b200", 10 / 55 / 63),
        ("h100-field-high", 8 / 2000),
        ("h100-field-low", 8 / 5000),
        ("gb200-field-high", 72 / 1000),
        ("gb200-field-low", 72 / 3000),
    ],
)
def test_rates_follow_from_what_was_counted(name: str, counted: float) -> None:
    assert rate_named(name).failures_per_node_day == pytest.approx(counted, rel=2e-3)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.80), (131_072, 0.225)])
def test_metas_projections_follow_from_its_rate(gpus: int, hours: float) -> None:
    assert 1 / rate_named("rsc-1").failures_per_s(gpus) / 3600 == pytest.approx(hours, rel=3e-3)


def test_a_plan_spans_three_clusters_and_two_recoveries() -> None:
    assert [rate.id for rate in band_rates()] == ["rsc-2", "llama-3", "rsc-1"]
    assert [recovery.id for recovery in band_recoveries()] == ["automatic", "asynchronous"]
    assert recovery_named("Asynchronous").writes is Writes.BACKGROUND


def test_a_rate_counts_devices_not_nodes() -> None:
    """Or else a rack of 72 would fail as seldom as a server of 8."""
    servers = FailureRate(id="mine", failures_per_node_day=0.004, devices_per_node=8)
    racks = FailureRate(id="mine", failures_per_node_day=0.036, devices_per_node=72)
    assert servers.failures_per_s(720) == pytest.approx(racks.failures_per_s(720)) == pytest.approx(0.36 / 86_400)


def test_unknown_names_are_explained() -> None:
    with pytest.raises(UsageError) as rate:
        rate_named("ours")
    assert str(rate.value) == (
        "no published failure rate is called 'ours': use tpu-v4, h100-field-low, ft-hsdp, rsc-2, gb200-field-low, "
        "skt-b200, llama-3, h100-field-high, rsc-1, gb200-field-high, or failures per node and day"
    )
    with pytest.raises(UsageError) as recovery:
        recovery_named("prayer")
    assert str(recovery.value) == ("no way to recover is called 'prayer': use manual, automatic, asynchronous, standby")


def test_figures_that_make_no_sense_are_explained() -> None:
    with pytest.raises(UsageError, match=r"^failures per node and day must be a number of 0 or more, not -1$"):
        FailureRate(id="given", failures_per_node_day=-1)
    with pytest.raises(UsageError, match=r"^the seconds of a restart must be a number of 0 or more, not nan$"):
        Recovery(id="given", restart_s=float("nan"), checkpoint_s=1)
    with pytest.raises(UsageError, match=r"^the seconds of a checkpoint must be a number of 0 or more, not inf$"):
        Recovery(id="given", restart_s=1, checkpoint_s=float("inf"))
