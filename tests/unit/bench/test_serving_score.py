"""How a case of serving is scored, by made-up results; the cases themselves can be read, and no twin is the flaw."""

import pytest

from bench.serving.run_case import SideResult
from bench.serving.serving_cases import OPEN, ServingCase, Side, cases_in
from bench.serving.serving_score import score_of, summary

CASE = ServingCase(name="a", cause="prefixes", codes=("RL-V08",), model="tiny", flawed=Side(), healthy=Side())


def _side(causes: tuple[tuple[str, float], ...], slowest_ms: float, trouble: str = "") -> SideResult:
    return SideResult(
        causes=causes,
        slowest_ms={"TTFT": slowest_ms},
        latencies={code: "TTFT" for code, _ in causes},
        most=dict(causes),
        requests=10,
        trouble=trouble,
    )


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ((("RL-V08", 0.5), ("RL-V01", 0.2)), 1),
        ((("RL-V01", 0.5), ("RL-V08", 0.2)), 2),
        ((("RL-V01", 0.5),), 0),
        ((), 0),
    ],
)
def test_the_place_is_that_of_the_cause_that_names_it(said: tuple[tuple[str, float], ...], place: int) -> None:
    assert score_of(CASE, _side(said, 100.0), _side((), 50.0)).place == place


def test_a_gain_is_of_the_latency_that_the_cause_is_told_of() -> None:
    score = score_of(CASE, _side((("RL-V08", 0.4),), 100.0), _side((("RL-V04", 0.06), ("RL-V05", 0.04)), 50.0))
    assert (score.most, score.gain) == (0.4, 0.5)
    assert score.alarms == (("RL-V04", 0.06), ("RL-V05", 0.04))
    assert summary([score]).endswith("1 healthy twins have an alarm, the bound is at least the gain in 0 of 1")


def test_a_case_that_did_not_run_names_nothing() -> None:
    score = score_of(CASE, _side((), 0.0, "no port"), _side((), 50.0))
    assert "DID NOT RUN: no port" in score.line()
    assert summary([score]).startswith("0 of 1 ran")


@pytest.mark.parametrize(("name", "least"), [("cases.toml", 12), ("set_aside.toml", 8), ("set_aside_2.toml", 7)])
def test_twins_differ_and_causes_are_known(name: str, least: int) -> None:
    cases = cases_in(OPEN.with_name(name))
    assert len({case.name for case in cases}) == len(cases) >= least
    assert all(case.flawed != case.healthy and case.codes for case in cases)
