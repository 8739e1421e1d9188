"""Why requests wait: the planted cause comes first, and an engine with room for all of them has none."""

import shutil
from pathlib import Path

import pytest

import redline
from redline.report.html.diagnose.request_bars import request_panel
from redline.report.language import LANGUAGES, speaking
from redline.report.serving.json import record_of
from redline.report.serving.serving_tables import verdict_text
from redline.report.serving.text import blocks
from redline.serving.diagnose_serving import ServingDiagnosis, diagnose_serving
from redline.serving.latencies import Latency
from tests.made_engine import MadeEngine


def _diagnosed(folder: Path, *, sequences: int = 4, tokens: int = 64, cache: int = 400) -> ServingDiagnosis:
    engine = MadeEngine(seed=11, pauses_ns=(0, 50_000), sequences=sequences, tokens=tokens, cache=cache)
    engine.run(200)
    found = diagnose_serving(engine.write(folder))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"sequences": 2, "tokens": 256, "cache": 100_000}, "RL-V01"),
        ({"sequences": 64, "tokens": 256, "cache": 200}, "RL-V02"),
    ],
)
def test_the_planted_cause_comes_first(limits: dict[str, int], code: str, tmp_path: Path) -> None:
    assert _diagnosed(tmp_path, **limits).causes[0].code == code


def test_with_room_for_all_nothing_waits_for_a_limit(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path, sequences=256, tokens=4096, cache=1_000_000)
    assert not {"RL-V01", "RL-V02"} & {cause.code for cause in found.causes}


def test_a_bound_is_at_most_what_the_slowest_waited_for_it(tmp_path: Path) -> None:
    for cause in _diagnosed(tmp_path, sequences=2, tokens=256, cache=100_000).causes:
        assert 0.05 <= cause.share <= 1


def test_percentiles_are_divided_without_a_rest(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path)
    assert {(split.latency, split.percentile) for split in found.splits} == {
        (latency, percentile) for latency in Latency for percentile in (50, 90, 99)
    }
    for split in found.splits:
        assert sum(split.amounts_ns) == pytest.approx(split.near_ns)
        assert split.near_ns == pytest.approx(split.value_ns, rel=0.3)
        assert split.requests == (10 if split.latency is not Latency.TPOT else split.requests)


def test_a_run_that_served_nothing_has_no_diagnosis(tmp_path: Path) -> None:
    assert diagnose_serving(tmp_path) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_causes_have_words(language: str, tmp_path: Path) -> None:
    seen = set()
    for number, limits in enumerate(({"sequences": 2, "cache": 100_000}, {"sequences": 64, "cache": 200})):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = _diagnosed(folder, **limits)
        with speaking(language):
            text = "\n".join(line for block in blocks(found) for line in block)
        assert all(cause.code in text for cause in found.causes)
        seen |= {cause.code for cause in found.causes}
        assert record_of(found)["requests"] == 200
    assert len(seen) >= 4


def test_bars_of_the_page_are_as_long_as_what_they_stand_for(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path, sequences=2, tokens=256, cache=100_000)
    panel = request_panel(found)
    assert len(panel.bars) == len(found.splits)
    for bar, split in zip(panel.bars, found.splits, strict=True):
        longest = max(one.near_ns for one in found.splits if one.latency is split.latency)
        assert sum(part.width for part in bar.parts) == pytest.approx(100 * split.near_ns / longest, abs=1)
    assert {part.name for bar in panel.bars for part in bar.parts} == {part.name for part in panel.legend}


def test_the_verdict_is_what_the_slowest_wait_for_and_what_to_do(tmp_path: Path) -> None:
    text = verdict_text(_diagnosed(tmp_path, sequences=2, tokens=256, cache=100_000))
    assert text.endswith("of it for: queue. Let more sequences run at once (RL-V01).")


def test_a_log_that_cannot_be_read_costs_the_log_alone(tmp_path: Path) -> None:
    window = tmp_path / "window-1"
    window.mkdir()
    recorded = next((Path(__file__).parents[2] / "data" / "recorded").rglob("*.json*"))
    shutil.copy(recorded, window / recorded.name)
    (tmp_path / "engine-1.jsonl").write_text('["request", 5, "a", 3, 4]\n', encoding="utf-8")
    found = redline.diagnose(window)
    assert found.serving is None
    assert [failure.message for failure in found.failures if "took no step" in failure.message]
