"""A plan beside what was measured: the fullest device, amounts that one side alone knows, and what they add up to."""

from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import HOST
from redline.ledger.memory.plan_comparison import (
    ACCOUNT_OF_PART,
    OUTSIDE_PART,
    ComparedBytes,
    compare_plan,
    planned_accounts,
)
from redline.plan.train.step_cost import MemoryUse
from tests.support.made_snapshots import MIB
from tests.support.memory_plans import measured, planned


def test_accounts_side_by_side(tmp_path: Path) -> None:
    device = measured(tmp_path, 10)
    compared = compare_plan(planned(activations=12, gradients=4, cached=3), [device], lambda _: None)
    assert compared.accounts == {
        MemoryAccount.ACTIVATIONS: ComparedBytes(predicted_bytes=12 * MIB, measured_bytes=10 * MIB),
        MemoryAccount.GRADIENTS: ComparedBytes(predicted_bytes=4 * MIB, measured_bytes=0),
        MemoryAccount.UNKNOWN: ComparedBytes(predicted_bytes=None, measured_bytes=MIB),
    }
    assert compared.in_use == ComparedBytes(predicted_bytes=16 * MIB, measured_bytes=11 * MIB)
    cached = device.peak.accounts[MemoryAccount.CACHED]
    assert compared.cached == ComparedBytes(predicted_bytes=3 * MIB, measured_bytes=cached)
    assert compared.outside == ComparedBytes(predicted_bytes=500 * MIB, measured_bytes=None)


@pytest.mark.parametrize(
    ("predicted", "found", "difference", "share"),
    [(12, 10, 2, 0.2), (5, 10, -5, -0.5), (4, 0, 4, None), (None, 3, None, None), (3, None, None, None)],
)
def test_differences(predicted: int | None, found: int | None, difference: int | None, share: float | None) -> None:
    amount = ComparedBytes(predicted_bytes=predicted, measured_bytes=found)
    assert (amount.difference_bytes, amount.difference_share) == (difference, share)


def test_the_device_with_the_largest_peak_is_compared(tmp_path: Path) -> None:
    small, large = measured(tmp_path, 10), measured(tmp_path, 20)
    compared = compare_plan(planned(), [small, large, small], lambda _: None)
    assert (compared.device, compared.ranks) == (large, 3)


def test_the_host_of_a_gpu_is_not_what_was_planned(tmp_path: Path) -> None:
    gpu, host = measured(tmp_path, 10), measured(tmp_path, 20, device=HOST)
    compared = compare_plan(planned(), [host, gpu], lambda _: None)
    assert (compared.device, compared.ranks) == (gpu, 1)
    alone = compare_plan(planned(cached=3), [host], lambda _: None)
    assert (alone.device, alone.cached.measured_bytes) == (host, None)


def test_what_is_outside_of_torch_is_that_of_the_device(tmp_path: Path) -> None:
    compared = compare_plan(planned(), [measured(tmp_path, 10)], lambda device: device.peak.live_bytes)
    assert compared.outside.difference_bytes == (500 - 11) * MIB


# Every part of a plan's memory has one account of the ledger, or is outside of it.

MEASURED_ONLY = {MemoryAccount.BACKWARD, MemoryAccount.INPUTS, MemoryAccount.UNKNOWN}


def test_every_part_of_a_plan_has_a_place() -> None:
    assert {*ACCOUNT_OF_PART, OUTSIDE_PART} == {field.name for field in fields(MemoryUse)}
    assert max(Counter(ACCOUNT_OF_PART.values()).values()) == 1


def test_accounts_that_plans_do_not_know_are_those_of_a_run_alone() -> None:
    assert set(MemoryAccount) - set(ACCOUNT_OF_PART.values()) == MEASURED_ONLY


def test_bytes_are_whole_and_none_is_lost() -> None:
    parts = {field.name: 1000.4 * number for number, field in enumerate(fields(MemoryUse), start=1)}
    accounts = planned_accounts(parts)
    assert accounts[MemoryAccount.PARAMETERS] == 1000
    assert abs(sum(accounts.values()) - sum(parts.values()) + parts[OUTSIDE_PART]) < len(parts)
