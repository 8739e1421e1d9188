"""Every part of a plan's memory has one account of the ledger, or is outside of it."""

from collections import Counter
from dataclasses import fields

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.plan_comparison import ACCOUNT_OF_PART, OUTSIDE_PART, planned_accounts
from redline.plan.train.step_cost import MemoryUse

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
