"""A fixed sample of the bench of causes: the cause comes first, and healthy twins stay silent.

The whole bench takes hours and a quiet machine: `python -m bench`.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from bench.__main__ import main, scored
from bench.cases import COUNTED_JOBS, HERE, SAMPLE, TIMED_JOBS, TIMELINES, cases_in
from bench.results import run
from bench.scoring import Score

pytest.importorskip("torch")

OF_A_BUSY_MACHINE = ("RL-H20", "RL-N30")  # tests run beside each other
STARVED = 0.1  # of the step
_LEAST, _MOST = 0.7, 1.5  # times what mending gains: what is said of a cause that was captured beside other load


def test_the_cause_comes_first_and_healthy_twins_stay_silent(tmp_path: Path) -> None:
    """Of timelines, which are the same on every machine, and whose gain is known."""
    scores = _scores(TIMELINES, tmp_path)
    assert _not_first(scores) == {}
    assert {name: score.alarms for name, score in scores.items() if score.alarms} == {}
    assert _wrong_rank_or_pattern(scores) == set()
    too_low = {name: score.bound for name, score in scores.items() if score.bound_holds is False}
    assert too_low == {}


@pytest.mark.parametrize(
    "name", [name if name in SAMPLE else pytest.param(name, marks=pytest.mark.slow) for name in COUNTED_JOBS]
)
def test_the_counted_cause_of_a_job_is_named_whatever_else_runs(name: str, tmp_path: Path) -> None:
    """And not of its healthy twin. It comes first, unless there is more to say of a machine that others use."""
    scores = _scores([name], tmp_path)
    score = scores[name]
    assert score.place > 0, score.codes
    assert score.code not in {code for code, _ in score.alarms}
    assert _is_starved(score) or _not_first(scores) == {}


@pytest.mark.slow
def test_the_cause_of_a_job_comes_first_where_nothing_else_runs(tmp_path: Path) -> None:
    scores = _scores((*COUNTED_JOBS, *TIMED_JOBS), tmp_path)
    assert _not_first(scores) == {}
    assert {name: alarms for name, score in scores.items() if (alarms := _without_load(score.alarms))} == {}
    assert _wrong_rank_or_pattern(scores) == set()


def _scores(names: Sequence[str], folder: Path) -> dict[str, Score]:
    """Of jobs no gain is measured: that takes several runs, and quiet."""
    rows = scored(cases_in(HERE, names), folder, partial(run, repeats=0))
    assert {row.case.name: row.result.trouble for row in rows if row.result.trouble} == {}
    scores = {row.case.name: row.score for row in rows if row.score is not None}
    assert scores.keys() == set(names)
    return scores


def _not_first(scores: dict[str, Score]) -> dict[str, tuple[tuple[str, float], ...]]:
    """What is named instead; that the machine is busy may stand before the cause."""
    return {
        name: score.codes
        for name, score in scores.items()
        if score.place == 0 or _without_load(score.codes[: score.place - 1])
    }


def _wrong_rank_or_pattern(scores: dict[str, Score]) -> set[str]:
    return {name for name, score in scores.items() if score.rank_right is False or score.pattern_right is False}


def _is_starved(score: Score) -> bool:
    return any(code in OF_A_BUSY_MACHINE and share >= STARVED for code, share in score.codes)


def _without_load(codes: Sequence[tuple[str, float]]) -> list[str]:
    return [code for code, _ in codes if code not in OF_A_BUSY_MACHINE]


def test_the_bench_goes_on_where_it_was_stopped_and_writes_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, page = tmp_path / "out", tmp_path / "page.md"
    words = ["gpu_launch_bound", "--out", str(out), "--page", str(page)]
    assert main(words) == 0
    first = (out / "gpu_launch_bound.json").stat().st_mtime_ns
    assert main(words) == 0
    assert (out / "gpu_launch_bound.json").stat().st_mtime_ns == first
    assert "1 of 1 (100 %)" in capsys.readouterr().out
    assert "| gpu_launch_bound | host/launch_bound | first |" in page.read_text(encoding="utf-8")


def test_what_was_recorded_is_diagnosed_again_with_its_gain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded, again = tmp_path / "recorded", tmp_path / "again"
    assert main(["gpu_launch_bound", "--out", str(recorded)]) == 0
    first = capsys.readouterr().out
    assert main(["gpu_launch_bound", "--out", str(again), "--rediagnose", str(recorded)]) == 0
    assert capsys.readouterr().out == first
    assert main(["gpu_fp64", "--out", str(again), "--rediagnose", str(recorded)]) == 0
    assert "nothing was recorded in" in capsys.readouterr().out


@pytest.mark.slow
def test_load_that_comes_while_it_is_captured_moves_no_share_far(tmp_path: Path) -> None:
    """Gains are measured when the other load has gone."""
    cases = cases_in(HERE / "beside_load")
    scores = {row.case.name: row.score for row in scored(cases, tmp_path, partial(run, repeats=3, beside=3))}
    shares = {name: (score.bound, score.gain) for name, score in scores.items() if score is not None}
    assert len(shares) == len(cases)
    far = {name: both for name, both in shares.items() if not _LEAST <= (both[0] or 0.0) / (both[1] or 1.0) <= _MOST}
    assert far == {}


def test_cases_of_another_folder_bring_their_own_causes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "timelines").mkdir()
    text = (HERE / "timelines" / "gpu_launch_bound.py").read_text(encoding="utf-8")
    text = text.replace("from bench.label import", "from common import").replace("host/launch_bound", "host/other")
    (tmp_path / "timelines" / "other.py").write_text(text, encoding="utf-8")
    (tmp_path / "causes.toml").write_text('"host/other" = ["RL-H01"]\n', encoding="utf-8")
    assert main(["--cases", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "host/other  first  RL-H01" in capsys.readouterr().out


def test_a_name_that_is_no_case_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no_such_case", "--list"]) == 2
    assert "no case of" in capsys.readouterr().err
