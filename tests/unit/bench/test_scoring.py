"""How the bench judges a diagnosis: a right code with right words counts, nothing else does."""

from pathlib import Path
from typing import Any

import pytest

from bench.cases import HERE, SAMPLE, SET_ASIDE, cases_in
from bench.label import Label
from bench.scoring import causes_of, score_of

LABEL = Label(cause="input/slow_storage_of_one_rank", says=("rank 1",), ranks=2, rank=1)
CAUSES = {"input/slow_storage_of_one_rank": ("RL-N13",)}
NOTHING: dict[str, Any] = {"findings": []}


def finding(code: str, text: str, share: float = 0.2, **values: object) -> dict[str, Any]:
    evidence = [{"text": text, "values": values}]
    return {"code": code, "title": "", "share": share, "alone_share": share, "evidence": evidence}


def gain(low: float, high: float) -> dict[str, float]:
    return {"wall": (low + high) / 2, "wall_low": low, "wall_high": high}


def test_a_finding_with_a_listed_code_and_the_words_counts_at_its_place() -> None:
    flawed = {"findings": [finding("RL-D01", ""), finding("RL-N13", "Rank 1 comes late.", rank="1")]}
    score = score_of(LABEL, flawed, NOTHING, None, CAUSES)
    assert (score.place, score.code, score.rank_right, score.pattern_right) == (2, "RL-N13", True, True)


def test_the_words_alone_do_not_count_where_the_cause_is_listed() -> None:
    flawed = {"findings": [finding("RL-D01", "rank 1 is slow", rank="1")]}
    assert score_of(LABEL, flawed, NOTHING, None, CAUSES).place == 0


def test_the_code_alone_does_not_count() -> None:
    score = score_of(LABEL, {"findings": [finding("RL-N13", "Rank 0 comes late.", rank="0")]}, NOTHING, None, CAUSES)
    assert (score.place, score.unsaid) == (0, ("RL-N13",))


def test_a_cause_that_no_table_lists_is_judged_by_its_words() -> None:
    score = score_of(LABEL, {"findings": [finding("RL-X99", "rank 1 is slow")]}, NOTHING, None, {})
    assert (score.place, score.by_words) == (1, True)


def test_another_rank_or_pattern_is_wrong() -> None:
    text = "Rank 0 is late every 4 steps, not rank 1."
    score = score_of(LABEL, {"findings": [finding("RL-N13", text, rank="0")]}, NOTHING, None, CAUSES)
    assert (score.place, score.rank_right, score.pattern_right) == (1, False, False)


@pytest.mark.parametrize(("share", "alarms"), [(0.049, 0), (0.05, 1)])
def test_a_healthy_twin_must_not_be_told_five_percent(share: float, alarms: int) -> None:
    healthy = {"findings": [finding("RL-N01", "", share)]}
    assert len(score_of(LABEL, NOTHING, healthy, None, CAUSES).alarms) == alarms


@pytest.mark.parametrize(("low", "holds"), [(0.19, True), (0.21, False)])
def test_a_bound_holds_if_it_is_not_below_the_interval_of_the_gain(low: float, holds: bool) -> None:
    flawed = {"findings": [finding("RL-N13", "rank 1", 0.2, rank="1")]}
    assert score_of(LABEL, flawed, NOTHING, gain(low, 0.4), CAUSES).bound_holds is holds


def test_every_cause_is_listed_with_few_codes() -> None:
    table = causes_of(HERE)
    assert {case.label.cause for case in cases_in(HERE)} <= table.keys()
    for folder in SET_ASIDE:
        assert {case.label.cause for case in cases_in(folder)} <= causes_of(HERE, folder).keys()
    assert max(map(len, table.values())) <= 3


def test_a_table_beside_other_cases_adds_to_ours(tmp_path: Path) -> None:
    (tmp_path / "causes.toml").write_text('"host/new" = ["RL-H99"]\n', encoding="utf-8")
    assert causes_of(HERE, tmp_path) == {**causes_of(HERE), "host/new": ("RL-H99",)}


def test_a_label_with_an_unknown_word_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown area"):
        Label(cause="weather/rain", says=())
    with pytest.raises(ValueError, match="unknown pattern"):
        Label(cause="host/x", says=(), pattern="on Mondays")


def test_a_name_that_is_no_case_is_refused() -> None:
    with pytest.raises(ValueError, match="no case"):
        cases_in(HERE, ["gpu_launch_bound", "no_such_case"])


def test_the_sample_is_of_cases_that_exist() -> None:
    assert {case.name for case in cases_in(HERE, SAMPLE)} == set(SAMPLE)


def test_a_job_of_one_thread_gets_one_core_and_others_get_all() -> None:
    assert Label(cause="kernels/x", says=()).cores_needed == 1
    assert Label(cause="kernels/x", says=(), cores=2).cores_needed == 2
    assert Label(cause="kernels/x", says=(), ranks=2).cores_needed is None
    assert Label(cause="input/x", says=()).cores_needed is None  # workers need cores of their own
    assert Label(cause="host/x", says=()).cores_needed == 1
    assert Label(cause="host/thread_holds_the_gil", says=()).cores_needed is None
