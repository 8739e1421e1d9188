"""Published jobs predicted from one of their own steps: a small fixed sample, and what is quoted of all of them."""

import numpy as np
import pytest

from bench.plan.anchored import anchored, is_scored, jobs_of, scored, spread_of, within
from bench.plan.training import expressed_runs
from redline.plan.accuracy import accuracy_of
from redline.plan.train.measured import anchored_accuracy, job_spread
from redline.plan.train.stacks import stack_constants

SAMPLE = "jax"


def test_a_step_of_the_job_makes_predictions_of_others_better() -> None:
    """Of usual software, which knows nothing of this stack."""
    runs = expressed_runs()
    runs = runs.where(runs.stacks == SAMPLE)
    pairs = anchored(runs, stack_constants("default"), job_spread("default"))
    figures = scored(pairs)
    assert figures["jobs"] >= 5
    assert figures["median"] < 0.85 * figures["median_without"]
    assert figures["p90"] < figures["p90_without"]


def test_spreads_are_told_apart() -> None:
    jobs = np.repeat([f"job {number}" for number in range(200)], 5)
    generator = np.random.default_rng(0)
    errors = np.repeat(generator.normal(0, 0.2, 200), 5) + generator.normal(0, 0.05, 1000)
    spread = spread_of(errors, jobs)
    assert spread.job == pytest.approx(0.2, rel=0.15)
    assert spread.layout == pytest.approx(0.05, rel=0.25)  # from the middle of five


def test_pairs_are_within_what_holds_all_of_them() -> None:
    runs = expressed_runs()
    runs = runs.where(runs.stacks == SAMPLE)
    pairs = anchored(runs, stack_constants("default"), job_spread("default"))
    assert within(pairs, 0.0, np.inf) == pytest.approx(1.0)
    assert set(pairs.jobs) <= set(jobs_of(runs))
    assert {bool(half) for half in is_scored(runs.names)} == {True, False}


def test_what_is_quoted_is_of_the_stack_or_of_all() -> None:
    assert anchored_accuracy("megatron-core").stack == "megatron-core"
    assert anchored_accuracy("internevo").stack == "all"
    every = accuracy_of("measured")["scored"]["all"]
    assert every["median"] <= 0.08
    assert every["p90"] <= 0.20
    assert every["low"] < 1 < every["high"]
