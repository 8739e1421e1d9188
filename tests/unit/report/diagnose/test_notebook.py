"""What a notebook shows: verdict, waterfall, findings; no script, and nothing from a trace is markup."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

import redline
from redline.findings.evidence import Evidence
from redline.job.read_failures import Failure
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.language import speaking
from tests.support.made_findings import FINDING, findings
from tests.support.traces.synthetic import JobSpec, write_job

PAYLOADS = (
    "<script>window.pwned=1</script>",
    "</div></script><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)' x='",
    '"><svg/onload=alert(1)>',
    "javascript:alert(1)",
    "<!--<iframe src='javascript:alert(1)'>",
)
ALLOWED = {"div", "table", "tbody", "tr", "td", "ol", "ul", "li", "b", "details", "summary"}


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> DiagnoseResult:
    folder = tmp_path_factory.mktemp("jobs") / "job"
    write_job(JobSpec(ranks=2, steps=3, layers=1), folder)
    return replace(redline.diagnose([folder]), findings=findings(5))


def parsed(found: DiagnoseResult) -> Tags:
    tags = Tags()
    tags.feed(found._repr_html_())
    tags.close()
    return tags


def test_it_says_the_verdict_the_waterfall_and_the_first_findings(found: DiagnoseResult) -> None:
    tags = parsed(found)
    text = " ".join(tags.texts)
    assert "2 ranks of 2" in text
    assert "= step" in text
    assert "kernel loss" in text
    assert "Replay the launches of a step as a CUDA graph" in text
    assert "The device waits 4.000 ms for a|b." in text
    assert "Fix: Compile the model with CUDA graphs" in text
    assert "and 2 more" in text
    assert tags.names.count("tr") == len([bar for bar in found.outline.waterfall if bar.share >= 0.0005]) + 1


def test_it_is_markup_without_script(found: DiagnoseResult) -> None:
    tags = parsed(found)
    assert set(tags.names) <= ALLOWED
    assert tags.attributes == {"style"}
    assert "url(" not in found._repr_html_()


@pytest.mark.parametrize("payload", PAYLOADS)
def test_names_are_text_and_nothing_else(payload: str, found: DiagnoseResult) -> None:
    evidence = (Evidence("The device waits for {name}.", {"name": payload}),)
    rank = found.diagnosis.ranks[0]
    origin = replace(rank.origin, step_anchor=payload, synthetic=payload, source=payload)
    facts = replace(rank.facts, device_name=payload, machine=payload)
    hostile = replace(
        found,
        diagnosis=replace(found.diagnosis, ranks=(replace(rank, origin=origin, facts=facts),)),
        findings=replace(findings(1), findings=(replace(FINDING, evidence=evidence),)),
        failures=(Failure(path=payload, message=payload),),
    )
    tags = parsed(hostile)
    assert set(tags.names) <= ALLOWED
    assert tags.attributes == {"style"}
    assert len([text for text in tags.texts if payload[:20] in text]) >= 3


def test_it_says_what_was_taken_out(found: DiagnoseResult) -> None:
    assert "redacted: 1 host, 2 names of traces" in " ".join(parsed(found.redacted()).texts)


def test_it_speaks_the_language_that_is_spoken(found: DiagnoseResult) -> None:
    with speaking("zh"):
        chinese = parsed(found)
    assert set(chinese.names) <= ALLOWED


def test_a_healthy_job_has_no_list(found: DiagnoseResult) -> None:
    healthy = replace(found, findings=replace(findings(1), findings=()))
    assert "ol" not in parsed(healthy).names


def test_the_repr_is_one_readable_line(found: DiagnoseResult) -> None:
    assert re.fullmatch(
        r"<diagnosis of 2 ranks: step [\d.]+ ms, idle 40\.0 %; 5 findings, first RL-H01 with at most 40\.0 %>",
        repr(found),
    )
    healthy = replace(found, findings=replace(findings(1), findings=()))
    assert repr(healthy).endswith("idle 40.0 %; 0 findings>")
