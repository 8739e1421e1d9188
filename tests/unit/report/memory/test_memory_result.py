"""A plan beside the measured memory in every form: golden text, the same figures in JSON, Markdown and the page."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import redline
from redline.report.language import speaking
from redline.report.memory.memory_result import MemoryResult
from tests.support.command_line import ROOT
from tests.support.made_snapshots import MAIN, MIB, MadeAllocator
from tests.support.memory_plans import FORWARD, measured, planned

GOLDEN = ROOT / "tests" / "golden" / "memory"


def _result(folder: Path, *, is_host: bool = True) -> MemoryResult:
    device = replace(measured(folder, 10), file="run/rank-0.trace.json.gz", device=-1 if is_host else 0, is_trace=True)
    larger = replace(measured(folder, 12), file="run/rank-1.trace.json.gz", device=device.device, rank=1, is_trace=True)
    plan = planned(activations=15, gradients=4, communication=1, cached=1)
    return MemoryResult(devices=(device, larger), failures=(), device_bytes=0, plan=plan)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_text(language: str, tmp_path: Path, update_golden: bool) -> None:
    with speaking(language):
        text = _result(tmp_path).text()
    path = GOLDEN / f"plan.{language}.txt"
    if update_golden:
        path.write_text(text)
    assert text == path.read_text()


def test_json(tmp_path: Path) -> None:
    found = json.loads(_result(tmp_path).rendered("json"))["plan"]
    assert (found["file"], found["model"], found["devices"]) == ("plan.json", "gpt2", 1)
    assert (found["compared_file"], found["compared_device"], found["compared_rank"]) == (
        "run/rank-1.trace.json.gz", -1, 1,
    )  # fmt: skip
    assert found["accounts"]["activations"] == {
        "predicted_bytes": 15 * MIB, "measured_bytes": 12 * MIB, "difference_bytes": 3 * MIB, "difference_share": 0.25,
    }  # fmt: skip
    assert found["accounts"]["unknown"]["predicted_bytes"] is None
    assert found["in_use"]["difference_bytes"] == (20 - 13) * MIB
    assert found["cached_but_free"]["measured_bytes"] is None
    assert found["outside_of_torch"]["predicted_bytes"] == 500 * MIB


def test_json_without_a_plan(tmp_path: Path) -> None:
    result = replace(_result(tmp_path), plan=None)
    assert json.loads(result.rendered("json"))["plan"] is None
    assert "predicted" not in result.text()


def test_markdown_and_page_have_the_same_rows(tmp_path: Path) -> None:
    result = _result(tmp_path, is_host=False)
    markdown, page = result.rendered("md"), result.rendered("html")
    assert "| activations | 15.00 MiB | 12.00 MiB | +3.000 MiB | +25.0 % |" in markdown
    assert "- Measured: the device with the largest peak of 2, in rank-1.trace.json.gz." in markdown
    assert "caching allocator" not in markdown
    for cell in ("15.00 MiB", "+3.000 MiB", "+25.0 %", "= in use", "the largest peak of 2"):
        assert cell in page


def test_a_job_that_ran_out_says_that_its_peak_is_cut(tmp_path: Path) -> None:
    made = MadeAllocator(device_bytes=20 * MIB)
    made.alloc(10 * MIB, FORWARD, MAIN)
    with pytest.raises(MemoryError):
        made.alloc(30 * MIB, FORWARD, MAIN)
    result = redline.memory(made.write(tmp_path / "a.pickle"), device_bytes=24 * MIB)
    assert "its peak would have been larger" in replace(result, plan=planned()).text()
    assert "GPUs of the plan" not in replace(result, plan=planned()).text()
