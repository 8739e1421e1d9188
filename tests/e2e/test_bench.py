"""A fixed sample of the bench of causes: the cause comes first, and healthy twins stay silent.

The whole bench takes hours and a quiet machine: `python -m bench`.
"""

from pathlib import Path

import pytest

from bench.__main__ import main, scored
from bench.cases import HERE, SAMPLE, cases_in
from bench.scoring import Score

pytest.importorskip("torch")

OF_A_BUSY_MACHINE = ("RL-H20", "RL-N30")  # tests run beside each other
STARVED = 0.3  # of the step


def test_the_cause_comes_first_and_healthy_twins_stay_silent(tmp_path: Path) -> None:
    """One test, so that the sample runs once. Of jobs no gain is measured: that takes several runs, and quiet."""
    rows = scored(cases_in(HERE, SAMPLE), tmp_path, repeats=0)
    assert {row.case.name: row.result.trouble for row in rows if row.result.trouble} == {}
    scores = {row.case.name: row.score for row in rows if row.score is not None}
    assert scores.keys() == set(SAMPLE)
    assert {name: score.codes for name, score in scores.items() if not _is_first(score)} == {}
    assert {name: alarms for name, score in scores.items() if (alarms := _alarms(score))} == {}
    assert {
        name for name, score in scores.items() if score.rank_right is False or score.pattern_right is False
    } == set()
    too_low = {name: score.bound for name, score in scores.items() if score.bound_holds is False}
    assert too_low == {}  # of timelines, whose gain is known


def _is_first(score: Score) -> bool:
    """Or not to be told: where other tests take most of the cores, that is what there is to say of a job."""
    others = [code for code, _ in score.codes[: max(score.place - 1, 0)] if code not in OF_A_BUSY_MACHINE]
    is_starved = any(code in OF_A_BUSY_MACHINE and share >= STARVED for code, share in score.codes)
    return is_starved or (score.place > 0 and not others)


def _alarms(score: Score) -> list[str]:
    return [code for code, _ in score.alarms if code not in OF_A_BUSY_MACHINE]


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
