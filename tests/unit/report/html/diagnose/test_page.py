"""The HTML page: it says what the screen says, leaves out what has no data and says why, and stays small."""

import base64
import hashlib
import html
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from redline.errors import OutputError, UsageError
from redline.findings.aggregate import findings_of
from redline.findings.finding import Findings, Limit
from redline.job.read_failures import Failure
from redline.ledger.job.combine import combine
from redline.ledger.job.first_screen import outline_of
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.finding_messages import cause_text
from redline.report.diagnose.screen import screen_of
from redline.report.html import frame
from redline.report.html.diagnose.page import headline_of
from redline.report.terminal import glued
from redline.verbs.diagnose import diagnose
from redline.verbs.digest import digest
from tests.support.events import document, kernel, launch, op, region
from tests.support.made_findings import findings
from tests.support.pages import data_of, visible
from tests.support.traces.synthetic import JobSpec, Straggler, write_job

MOST_BYTES = 2_500_000
EVIL = "</script><img src=x onerror=alert(1)>&amp;"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jobs") / "my job"
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=1500),)), folder)
    return folder


@pytest.fixture(scope="module")
def job(folder: Path) -> DiagnoseResult:
    return diagnose([folder], draw_step=True)


def render(job: DiagnoseResult, found: Findings | None = None, **options: Any) -> str:
    return replace(job, findings=found or job.findings).rendered("html", **options)


# --- what it says -----------------------------------------------------------------------------------------------------


def test_it_says_all_that_the_screen_says(job: DiagnoseResult) -> None:
    text = visible(render(job, findings(6)))
    screen = screen_of(replace(job, findings=findings(6)))
    headline = headline_of(findings(6), job.outline)
    said = [headline.text, headline.why, *(text for _, text in screen.facts), *screen.praise, *screen.unseen]
    said += [text for card in screen.cards for text in (card.title, *card.evidence)]
    for sentence in said:
        assert " ".join(sentence.split()) in text
    for part in screen.waterfall.bars:
        assert f"{part.name} {part.amount} {part.share}" in text


def test_findings_have_bound_fix_and_all_of_their_page(job: DiagnoseResult) -> None:
    text = visible(render(job, findings()))
    assert "40.0 % of the average step at most typical step at most 1.67 x as fast" in text
    assert "bitwise" in text
    assert 'torch.compile(model, mode="reduce-overhead")' in text
    for heading in ("Cause", "Thorough fix", "Bound", "Numerics", "When to ignore it", "How it can be fooled"):
        assert heading in text
    assert "Longest occurrences rank 0: 10 ns, from 10 ns after its window began" in text


def test_idle_time_is_a_share_of_the_step_as_in_the_verdict(job: DiagnoseResult) -> None:
    found = replace(job.findings, verdict=replace(job.findings.verdict, idle_share=0.1234))
    assert "device idle 12.3 % of the average step; " in visible(render(job, found))


def test_remarks_and_praise_are_there(job: DiagnoseResult) -> None:
    text = visible(render(job, findings()))
    assert "Before you act" in text
    assert "Look first." in text
    assert "Done well Well done: 99.0 % busy." in text


def test_without_findings_it_says_so(job: DiagnoseResult) -> None:
    none = replace(findings(), findings=(), remarks=(), praise=())
    text = visible(render(job, none))
    assert "No known fix would gain any time here." in text
    assert "No finding is worth fixing. Largest accounts above the redline" in text


def test_many_findings_are_folded(job: DiagnoseResult) -> None:
    text = render(job, findings(7))
    assert text.count('<article class="card"') == 4
    assert text.count('<details class="card small" ') == 3
    assert "3 more below." in visible(text)


def test_the_job_is_named_by_its_folder_or_file(job: DiagnoseResult, folder: Path) -> None:
    assert "<title>my job - Redline</title>" in render(job)
    one = min(folder.glob("*.json*"))
    assert f"<title>{one.name} - Redline</title>" in render(diagnose([one]))


# --- sections ---------------------------------------------------------------------------------------------------------


def test_every_section_with_data_is_there(job: DiagnoseResult) -> None:
    text = render(job)
    assert set(data_of(text)["charts"]) == {"steps", "strip", "ranks", "roofline", "collectives"}
    assert set(data_of(text)["tables"]) == {"phases", "kernels", "host", "collectives", "ranks", "sources"}
    for name in data_of(text)["charts"]:
        assert f'data-chart="{name}"' in text
    assert "Left out of this report" not in text


def test_what_has_no_data_is_left_out_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_bytes(document([region("ProfilerStep#1", 0, 100), launch(0, 1), kernel("gemm", 5, 50, correlation=1)]))
    text = render(diagnose([path]))
    assert data_of(text)["charts"] == {}
    assert "data-chart" not in text.partition("<script")[0]
    for reason in (
        "Step times: there is one step only.",
        "One step: needs the trace itself",
        "Ranks: there is one rank only.",
        "Roofline: no operator with known FLOPs",
        "Collectives against the link: there is no communication",
    ):
        assert reason in visible(text)


def test_digests_give_a_page_without_the_strip(folder: Path, tmp_path: Path) -> None:
    digest([folder], tmp_path / "digests")
    text = render(diagnose([tmp_path / "digests"], draw_step=True))
    assert "a digest was given" in visible(text)
    assert "strip" not in data_of(text)["charts"]


def test_what_was_dropped_and_what_could_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(document([region("ProfilerStep#1", 0, 100), op("aten::add", 1, 5), op("aten::mul", 9, -5)]))
    found = diagnose([path])
    broken = [Failure(path=f"{number}.json", message=f"{number}.json: broken <b>\nsee") for number in range(25)]
    text = replace(found, failures=tuple(broken)).rendered("html")
    assert "1: events that end before they begin" in visible(text)
    assert "0.json: broken <b> see" in visible(text)
    assert "5 more files" in visible(text)


def test_the_trace_beside_it_is_linked_by_a_relative_name(job: DiagnoseResult) -> None:
    text = render(job, trace_link="javascript:alert(1) <b>.trace.json.gz")
    assert 'href="./javascript%3Aalert%281%29%20%3Cb%3E.trace.json.gz"' in text
    assert "ui.perfetto.dev" in visible(text)


def test_without_a_trace_it_says_which_command_writes_one(job: DiagnoseResult) -> None:
    assert "redline diagnose ... -o report.html --with-trace" in visible(render(job))


def test_a_job_in_which_nothing_takes_time(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(document([op("aten::add", 5, 0)]))
    assert "Nothing in the traces takes any time" in visible(render(diagnose([path])))


# --- the headline -----------------------------------------------------------------------------------------------------


def test_the_headline_says_what_limits_by_how_much_what_to_do_and_how_sure(job: DiagnoseResult) -> None:
    said = headline_of(findings(), job.outline)
    assert said.text == (
        "Overhead-bound: up to 40.0 % of the step is lost. Replay the launches of a step as a CUDA graph: at most "
        "1.67 x as fast (published results)."
    )
    assert said.why == cause_text("RL-H01")


def test_the_headline_says_what_is_lost_when_most_time_is_elsewhere(job: DiagnoseResult) -> None:
    found = findings()
    found = replace(found, verdict=replace(found.verdict, limit=Limit.COMPUTE))
    assert headline_of(found, job.outline).text.startswith("Up to 40.0 % of the step is lost. Replay ")


def test_the_headline_of_a_job_that_is_well(job: DiagnoseResult) -> None:
    found = findings()
    found = replace(found, verdict=replace(found.verdict, worthwhile=False, healthy=True))
    said = headline_of(found, job.outline)
    assert said.text.startswith("Healthy: compute takes 40.0 % of the step and reaches 50.0 % of its roof")
    assert said.why == "The redline (arithmetic at the machine's peak) is 20.0 % of the step."


def test_what_undermines_the_headline_stands_beside_it(job: DiagnoseResult) -> None:
    text = visible(render(job, findings()))
    assert text.index("Before you act") < text.index("from the redline (math)")


# --- saved ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "begins"), [("a.html", "<!doctype html>"), ("a.json", "{"), ("a.md", "## "), ("a.txt", "4 ranks of 4")]
)
def test_a_diagnosis_saves_itself(job: DiagnoseResult, tmp_path: Path, name: str, begins: str) -> None:
    job.save(tmp_path / name)
    assert (tmp_path / name).read_text().startswith(begins)


def test_a_diagnosis_saves_itself_only_as_what_it_can_be(job: DiagnoseResult, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a\.pdf: a diagnosis is saved as \.html, \.json, \.md, \.txt; give the file"):
        job.save(tmp_path / "a.pdf")
    (tmp_path / "a.txt").write_text("mine")
    with pytest.raises(OutputError, match="already exists"):
        job.save(tmp_path / "a.txt")


# --- safety and size --------------------------------------------------------------------------------------------------


def test_names_are_text_wherever_they_stand(tmp_path: Path) -> None:
    events = [
        region(EVIL, 0, 90),
        region("ProfilerStep#1", 0, 100),
        op(EVIL, 1, 5),
        launch(2, 1),
        kernel(EVIL, 8, 50, correlation=1),
    ]
    path = tmp_path / "a.json"
    path.write_bytes(document(events))
    text = render(diagnose([path], draw_step=True))
    assert "<img" not in text
    assert EVIL in json.dumps(data_of(text)).replace('\\"', '"')


def test_the_policy_names_exactly_the_scripts_of_the_page(job: DiagnoseResult) -> None:
    text = render(job)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert policy
    packed = re.search(r'<script type="text/plain" id="plotly">([^<]+)</script>', text)
    assert packed
    plotly = zlib.decompress(base64.b64decode(packed[1])).decode()
    scripts = [plotly, *re.findall(r"<script>(.*?)</script>", text, re.DOTALL)]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    assert re.findall(r"sha256-([^']+)", html.unescape(policy[1])) == hashes
    assert len(scripts) == 2
    assert plotly == get_plotlyjs()


def test_the_same_diagnosis_gives_the_same_bytes(job: DiagnoseResult) -> None:
    first = render(job)
    frame._packed_plotly.cache_clear()
    assert render(job) == first


def test_nothing_in_it_is_loaded_from_anywhere(job: DiagnoseResult) -> None:
    text = render(job, findings(6))
    markup = re.sub(r"<(script|style).*?</\1>", "", text, flags=re.DOTALL)
    assert not re.search(r"<(link|iframe|object|embed|img|base|form)\b|\bsrc=|\bon\w+=", markup)
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_a_thousand_ranks_fit(job: DiagnoseResult) -> None:
    ranks = [
        replace(job.diagnosis.ranks[number % 4], origin=replace(job.diagnosis.ranks[number % 4].origin, rank=number))
        for number in range(1024)
    ]
    diagnosis = combine(ranks)
    outline = outline_of(diagnosis)
    findings = findings_of(diagnosis, outline)
    text = replace(job, diagnosis=diagnosis, outline=outline, findings=findings, step_view=None).rendered("html")
    assert len(text.encode()) <= MOST_BYTES
    data = data_of(text)
    assert len(data["charts"]["ranks"]["labels"]) == 128
    assert len(data["tables"]["ranks"]["rows"]) == 16
    assert len(data["tables"]["sources"]["rows"]) == 400
    assert "624 further rows are left out here" in visible(text)


def test_long_tables_and_names_fit(tmp_path: Path) -> None:
    """The most that a page can hold: every row of every table and chart with the longest names."""
    events = [region("ProfilerStep#1", 0, 50_000)]
    for number in range(2500):
        name = f"{number}_{'long_name_' * 40}"
        events += [op(name, number * 20, 18), launch(number * 20 + 1, number + 1)]
        events += [kernel(f"void {name}<float>", number * 20 + 5, 9, correlation=number + 1)]
    path = tmp_path / "a.json"
    path.write_bytes(document(events))
    text = render(diagnose([path], draw_step=True))
    assert len(text.encode()) <= MOST_BYTES
    assert len(data_of(text)["tables"]["kernels"]["rows"]) == 400


def test_numbers_keep_their_units_at_the_end_of_a_line(job: DiagnoseResult) -> None:
    assert glued("12.5 ms of 3 %") == "12.5\u00a0ms of 3\u00a0%"
    assert "\u00a0ms" in render(job)
