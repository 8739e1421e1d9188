"""Memory in a diagnosis: below the screen of time, in every format and language, and in the verdict if it grows."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from redline.job.read_files import JobOptions
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.diagnosis_document import MOST_MEMORY_LINES
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import LANGUAGES, speaking
from redline.report.terminal import width_of
from redline.verbs.diagnose import diagnose
from tests.support.events import document
from tests.support.made_findings import findings
from tests.support.memory_jobs import FLAWED, HEALTHY, MIB, Job, said

LEAKING = replace(HEALTHY, kept=3, reserved=100)


def result(folder: Path, *jobs: Job) -> DiagnoseResult:
    said(folder, *jobs)
    return diagnose(folder, options=JobOptions(jobs=1, use_cache=False))


def block(text: str) -> list[str]:
    (found,) = (
        part for part in text.rstrip().split("\n\n") if part.startswith(("memory at the peak", "rank 0 的设备"))
    )
    return found.splitlines()


def healthy(found: DiagnoseResult) -> DiagnoseResult:
    """The same with nothing to say of time."""
    made = findings(1)
    verdict = replace(made.verdict, worthwhile=False, healthy=True, first="")
    return replace(found, findings=replace(made, verdict=verdict, findings=()))


def test_the_peak_its_accounts_and_causes_stand_below_the_screen(tmp_path: Path) -> None:
    lines = block(result(tmp_path, LEAKING).rendered("text"))
    assert lines[0] == "memory at the peak of device 0: 67.00 MiB in use, 100.0 MiB reserved"
    assert [line.split()[:-1] for line in lines[1:3]] == [
        ["unknown", "40.00", "MiB", "40.0", "%"],
        ["cached", "but", "free", "33.00", "MiB", "33.0", "%"],
    ]
    assert "  growth    3.000 MiB more in every step at aten::linear (activations)" in "\n".join(lines)
    assert [line.split()[0] for line in lines if line.startswith("  RL-")] == ["RL-M02", "RL-M07"]
    assert f"redline memory {tmp_path}/rank0.json -o memory.html" in " ".join(" ".join(lines).split())


def test_peaks_of_ranks_are_one_line(tmp_path: Path) -> None:
    text = "\n".join(block(result(tmp_path, HEALTHY, replace(HEALTHY, parameters=80), HEALTHY).rendered("text")))
    assert "memory at the peak of device 0 of rank 1: 92.00 MiB in use" in text
    assert "  peaks     from 52.00 MiB (rank 0) to 92.00 MiB (rank 1), median of 3 ranks 52.00 MiB" in text
    assert f"redline memory {tmp_path} -o memory.html" in " ".join(text.split())


def test_equal_peaks_are_said_once(tmp_path: Path) -> None:
    text = result(tmp_path, HEALTHY, HEALTHY).rendered("text")
    assert "  peaks     52.00 MiB on each of 2 ranks" in text


@pytest.mark.parametrize("code", FLAWED)
@pytest.mark.parametrize("language", LANGUAGES)
def test_it_is_a_part_of_a_screen(code: str, language: str, tmp_path: Path) -> None:
    worst = replace(FLAWED[code][0], kept=3, reserved=500, logits=40, activations=90)
    with speaking(language):
        lines = block(result(tmp_path, worst, worst).rendered("text"))
    assert len(lines) <= MOST_MEMORY_LINES
    assert max(map(width_of, lines[:-1])) <= PLAIN_COLUMNS  # the last one is a command, which is not broken


def test_without_memory_events_nothing_is_said(tmp_path: Path) -> None:
    events = [event for event in HEALTHY.events() if event["name"] != "[memory]"]
    (tmp_path / "a.json").write_bytes(document(events))
    found = diagnose(tmp_path)
    assert found.diagnosis.memory is None
    assert "memory at the peak" not in found.rendered("text")
    assert json.loads(found.rendered("json"))["memory"] is None
    assert 'id="memory"' not in found.rendered("html")


# --- a job that is healthy in time ------------------------------------------------------------------------------------

GROWS = "Memory of device 0 grows by 3.000 MiB in every step, most of it at aten::linear (RL-M02)."


@pytest.mark.parametrize("form", ["text", "md", "html", "json"])
def test_no_format_calls_a_job_healthy_whose_memory_grows(form: str, tmp_path: Path) -> None:
    found = healthy(result(tmp_path, LEAKING))
    text = found.rendered(form)
    if form == "json":
        text = json.loads(text)["verdict"]["text"]
    said_of_it = " ".join(text.replace("\\", "").replace("\u00a0", " ").split())
    assert GROWS in said_of_it
    assert "Memory of device" not in healthy(result(tmp_path, HEALTHY)).rendered("text")


def test_it_stands_in_the_headline_of_the_page(tmp_path: Path) -> None:
    page = healthy(result(tmp_path, LEAKING)).rendered("html")
    headline = page[page.index("<h1>") : page.index("</h1>")].replace("\u00a0", " ")
    assert GROWS in headline


def test_a_notebook_says_so_too(tmp_path: Path) -> None:
    markup = healthy(result(tmp_path, LEAKING))._repr_html_()
    assert GROWS in markup
    assert "memory at the peak of device 0" in markup


# --- other formats ----------------------------------------------------------------------------------------------------


def test_the_record_has_every_device_and_step(tmp_path: Path) -> None:
    record = json.loads(result(tmp_path, LEAKING, HEALTHY).rendered("json"))["memory"]
    assert record.keys() == {"fullest", "devices", "causes", "left_out"}
    assert record["fullest"] == {"rank": 0, "device": 0}
    first, second = record["devices"]
    assert first.keys() == second.keys()
    assert first.keys() == {
        "rank", "device", "peak_bytes", "reserved_bytes", "accounts", "steps", "growth", "holders",
        "before_history_bytes", "missed_events",
    }  # fmt: skip
    assert sum(first["accounts"].values()) == first["reserved_bytes"] == 100 * MIB
    assert [step["peak_bytes"] for step in first["steps"]] == [(52 + 3 * (step + 1)) * MIB for step in range(5)]
    assert first["steps"][0]["label"] == "ProfilerStep#0"
    assert first["growth"][0]["bytes_per_step"] == 3 * MIB
    assert first["holders"]
    assert not second["holders"]
    cause = record["causes"][0]
    assert (cause["code"], cause["title"], cause["saves_bytes"]) == (
        "RL-M02", "Let go of what every step keeps", 15 * MIB,
    )  # fmt: skip


def test_markdown_has_a_table_and_the_page_a_bar(tmp_path: Path) -> None:
    found = result(tmp_path, LEAKING)
    markdown = found.rendered("md")
    assert "### Memory at the peak of device 0: 67.00 MiB in use, 100.0 MiB reserved" in markdown
    assert "| unknown | 40.00 MiB | 40.0 % |" in markdown
    page = found.rendered("html")
    panel = page[page.index('id="memory"') : page.index("</section>", page.index('id="memory"'))]
    assert panel.count('class="fill"') == 4
    assert "RL-M02" in panel
    assert f"redline memory {tmp_path}/rank0.json" in panel


def test_a_redacted_report_has_no_path(tmp_path: Path) -> None:
    found = result(tmp_path, LEAKING, HEALTHY).redacted()
    assert found.diagnosis.memory is not None
    assert found.diagnosis.memory.devices[0].file == found.diagnosis.ranks[0].origin.source
    for form in ("text", "md", "html", "json"):
        assert str(tmp_path) not in found.rendered(form)
    assert "redline memory PATH -o memory.html" in found.rendered("text")
