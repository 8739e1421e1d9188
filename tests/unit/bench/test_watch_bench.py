"""The bench of `watch`: a small sample of it, and that what is set aside is apart from what was tuned on."""

import numpy as np
import pytest

from bench.fleet.watch import alarms_of, may_be, named_after, planted
from bench.fleet.watch_jobs import KINDS, job_windows
from bench.fleet.watch_noise import FAMILIES, SEEDS, TUNING
from redline.ledger.accounts import Account


def test_what_is_set_aside_shares_no_family_and_no_seed() -> None:
    names = [{family.name for family in families} for families in FAMILIES.values()]
    assert not names[0] & names[1]
    cores = [{family.core for family in families} for families in FAMILIES.values()]
    assert not cores[0] & cores[1]
    assert SEEDS["set aside"] - SEEDS["tuning"] > 2_000_000


def test_windows_of_a_job_are_consistent() -> None:
    for window in job_windows(TUNING[1], np.random.default_rng(1), 20):
        assert window.step_ns == pytest.approx(sum(window.accounts.values()))
        assert window.own_ns.max() + window.accounts[Account.TRANSFER] == pytest.approx(window.step_ns)
        assert len(window.hosts) == len(window.ranks) == window.world_size


def test_changes_of_a_job_are_named_and_nothing_else() -> None:
    """Every kind is planted by some job; this one has a silent rank, a change of the step and one of a drift."""
    changes, _ = planted(TUNING[0], 1_000, job=5, ratios=(1.5, 2.0))
    said = list(alarms_of(TUNING[0], 1_000, changes))
    assert {change.kind for change in changes} == {"silent", "step", "step drift"}
    assert sum(named_after(change, said) is not None for change in changes) == 3
    assert all(any(may_be(change, window, alarm) for change in changes) for window, alarm in said)
    assert {KINDS[(3 * job + number) % len(KINDS)] for job in range(8) for number in range(3)} == set(KINDS)
