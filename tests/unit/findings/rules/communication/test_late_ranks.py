"""RL-N13: ranks wait in collectives for others that come late."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.findings.rule import MatchTotals
from redline.findings.rules.communication import late_ranks
from redline.job.read_files import JobOptions
from redline.verbs.diagnose import diagnose
from tests.support.events import document
from tests.support.rules.communication import job, late, messages, values
from tests.support.rules.matching import found
from tests.support.traces.synthetic import JobSpec, Straggler, write_job


def test_n13_names_the_late_rank_and_its_cause() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(300, 300, 300))))["RL-N13"]
    assert finding.alone_ns == finding.bound_ns == 300_000  # of every step of rank 0, which the job gains
    assert finding.accounts == {"peer wait": 150_000}
    assert {place.rank for place in finding.places} == {0}
    known = values(finding)
    assert (known["rank"], known["last"], known["operations"], known["caused_share"]) == ("1", 3, 3, 1.0)
    assert (known["cause_ns"], known["late_ns"], known["waiting_ns"]) == (300_000, 300_000, 150_000)
    assert "computes {cause_ns} longer" in messages(finding)
    assert "the same rank" in messages(finding)


def test_n13_says_if_it_is_in_the_first_step_only() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400, 0, 0))))["RL-N13"]
    assert "is late in the first step only" in messages(finding)


def test_n13_says_if_only_one_step_was_seen() -> None:
    finding = found(*job(lambda rank: late(rank, after_us=(400,))))["RL-N13"]
    assert "only one step" in messages(finding)


def test_n13_is_silent_where_all_come_together() -> None:
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(0, 0, 0))))
    assert "RL-N13" not in found(*job(lambda rank: late(rank, after_us=(50, 50, 50))))  # 2.5 % of the step on average


def test_n13_is_silent_about_a_rank_alone() -> None:
    assert "RL-N13" not in found(document(late(0, after_us=(300, 300)), world_size=2))


@pytest.mark.parametrize(
    ("cause", "says"),
    [
        ("before the window", "late when the window began"),
        ("compute", "computes"),
        ("communication", "communicates"),
        ("input", "its data loader"),
        ("host", "for the host"),
        ("other", "traces do not show"),
    ],
)
@pytest.mark.parametrize("pattern", ["fixed", "rotating", "first step only", "one step seen"])
def test_n13_has_words_for_every_cause_and_pattern(cause: str, says: str, pattern: str) -> None:
    names = {"rank": "7", "cause": cause, "pattern": pattern, "also": "3"}
    numbers = ("last", "operations", "caused_share", "cause_ns", "late_ns", "first_step_share", "also_share")
    figures = {**dict.fromkeys(numbers, 1.0), "kinds": 2.0, "speed_share": 0.25}
    seen = MatchTotals(ranks=8, steps=8, step_ns=1e6, bound_ns=1e5, alone_ns=1e5, figures=figures, names=names)
    first, why, when, also, speed, kinds = late_ranks.explain(seen)
    assert speed.values["speed_share"] == 0.25
    assert says in why.message
    assert pattern != "rotating" or "late rank changes" in when.message
    assert (first.values["rank"], also.values["also"], kinds.values["kinds"]) == ("7", "3", 2.0)


@pytest.mark.parametrize(
    ("after_us", "says"),
    [
        ((0, 300, 0, 300, 0, 300), "every {period} steps"),
        ((0, 300, 300, 0, 0, 300), "{shown} of {steps} steps"),
    ],
)
def test_n13_says_in_which_steps_a_rank_is_late(after_us: tuple[float, ...], says: str) -> None:
    finding = found(*job(lambda rank: late(rank, after_us=after_us)))["RL-N13"]
    assert says in messages(finding)
    assert values(finding).get("period", 2) == 2
    assert values(finding).get("shown", 3) == 3


@pytest.mark.parametrize("where", ["compute", "host", "input"])
def test_n13_finds_the_straggler_of_a_synthetic_job(tmp_path: Path, where: Any) -> None:
    spec = JobSpec(ranks=4, steps=3, layers=2, step_compute_us=2000, buckets=1)
    write_job(replace(spec, stragglers=(Straggler(rank=2, extra_us=800, where=where),)), tmp_path)
    findings = {one.code: one for one in diagnose([tmp_path], options=JobOptions(use_cache=False)).findings.findings}
    assert values(findings["RL-N13"])["rank"] == "2"
    assert findings["RL-N13"].alone_ns == pytest.approx(800_000, rel=0.1)  # what the job gains
    assert {place.rank for place in findings["RL-N13"].places} <= {0, 1, 3}
