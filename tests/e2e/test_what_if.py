"""What-ifs and forecasts: on a job whose healthy twin is known, in every format, and why there are none."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

import redline
from redline.cli import main
from redline.errors import UsageError
from redline.job.read_files import JobOptions
from redline.report.diagnose.diagnose_result import DiagnoseResult
from tests.support.traces.synthetic import Faults, JobSpec, Truth, write_job

READING = JobOptions(jobs=1, use_cache=False)


def spec(*, flawed: bool) -> JobSpec:
    return JobSpec(
        ranks=1,
        steps=3,
        layers=4,
        step_compute_us=6_000,
        loader_workers=not flawed,
        input_us=3_000 if flawed else 40,
    )


def step_ns(truth: Truth) -> float:
    windows = truth.ranks[0].step_windows_ns
    return sum(end - start for start, end in windows) / len(windows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("what-if")


@pytest.fixture(scope="module")
def result(folder: Path) -> DiagnoseResult:
    write_job(spec(flawed=True), folder / "flawed")
    asked = ["loader=0", "kernels*2", "kernels(no_such_kernel)=0"]
    return redline.diagnose(folder / "flawed", options=READING, what_if=asked)


def test_a_scenario_is_what_the_healthy_twin_takes(result: DiagnoseResult, folder: Path) -> None:
    healthy_ns = step_ns(write_job(spec(flawed=False), folder / "healthy"))
    assert result.replayed is not None
    without_loader, slower, nothing = result.replayed.asked

    assert without_loader.after_ns == pytest.approx(healthy_ns, rel=0.03)
    assert slower.gain_share < -0.2
    assert nothing.declined == "nothing in the trace is changed by kernels(no_such_kernel)"
    assert nothing.after_ns == nothing.step_ns


def test_findings_have_forecasts_within_their_bounds(result: DiagnoseResult) -> None:
    findings = result.findings.findings
    expected = [finding.expected_ns for finding in findings]

    assert any(finding.forecast_ns for finding in findings)
    assert all(finding.forecast is not None for finding in findings)
    assert all((finding.forecast_ns or 0.0) <= finding.alone_ns for finding in findings)
    assert expected == sorted(expected, reverse=True)


def test_the_critical_path_is_as_long_as_the_step(result: DiagnoseResult) -> None:
    assert result.replayed is not None
    assert result.replayed.path is not None
    path = result.replayed.path

    assert sum(part.share for part in path.accounts) == pytest.approx(1, abs=0.001)
    assert path.accounts[0].what in ("input", "compute")


@pytest.mark.parametrize(
    ("form", "parts"),
    [
        ("text", ("what if", "loader=0", "critical path", "largest forecast first", "forecast")),
        ("md", ("### What if", "### Critical path")),
        ("html", ('id="what-if"', "loader=0", "<h2>Critical path</h2>")),
    ],
)
def test_every_format_shows_it(form: str, parts: tuple[str, ...], result: DiagnoseResult) -> None:
    text = result.rendered(form)

    assert all(part in text for part in parts)


def test_the_page_answers_what_was_asked_above_the_findings(result: DiagnoseResult) -> None:
    page = result.rendered("html")
    assert page.index('id="what-if"') < page.index('id="findings"') < page.index('id="critical-path"')
    only_forecasts = replace(result, replayed=None if result.replayed is None else replace(result.replayed, asked=()))
    page = only_forecasts.rendered("html")
    assert page.index('id="findings"') < page.index('id="what-if"') < page.index('id="critical-path"')


@pytest.mark.parametrize(("form", "beside"), [("text", "as fast ("), ("html", "as fast (")])
def test_the_verdict_quotes_the_forecast_of_the_first_fix_beside_its_bound(
    form: str, beside: str, result: DiagnoseResult
) -> None:
    findings = result.findings
    first = next(finding for finding in findings.findings if finding.code == findings.verdict.first)
    text = " ".join(result.rendered(form).replace("\u00a0", " ").split())
    assert first.alone_share == pytest.approx(first.expected_share, abs=0.005)
    quoted = "A replay forecasts the same."
    assert beside in text[text.index(quoted) - 60 : text.index(quoted)]
    assert first is max(findings.findings, key=lambda finding: finding.expected_ns)


def test_nothing_is_forecast_where_nothing_was_replayed(result: DiagnoseResult) -> None:
    plain = tuple(replace(finding, forecast=None) for finding in result.findings.findings)
    without = replace(result, findings=replace(result.findings, findings=plain), replayed=None)
    assert "forecast" not in without.rendered("text")


def test_a_notebook_shows_it(result: DiagnoseResult) -> None:
    assert "loader=0" in result._repr_html_()


def test_the_json_has_every_key_of_the_page(result: DiagnoseResult) -> None:
    record = json.loads(result.rendered("json"))
    page = Path("docs/reference/what-if.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `replay\.(\w+)", page, re.MULTILINE))

    assert named == set(record["replay"])
    of_scenarios = set(re.findall(r"^\| `replay\.what_if\[\]\.(\w+)", page, re.MULTILINE))
    assert of_scenarios == set(record["replay"]["what_if"][0])
    assert set(record["replay"]["critical_path"]) == {"accounts", "phases", "operators", "ranks", "beside"}
    assert all(row["slack_ns"] > 0 for row in record["replay"]["critical_path"]["beside"])
    assert set(record["findings"][0]["forecast"]) == {"gain_ns", "replayed_ns", "declined"}


def test_it_can_be_redacted(result: DiagnoseResult) -> None:
    assert result.redacted().replayed == result.replayed


def test_a_scenario_is_checked_before_anything_is_read() -> None:
    with pytest.raises(UsageError, match=r"diagnose: `what_if=...`: 'kernel/2', at character 1: there is no 'kernel'"):
        redline.diagnose("no-such-file.json", what_if="kernel/2")


def test_the_command_line_spells_it_as_its_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "no-such-file.json", "--what-if", "kernel/2"]) == 2
    assert "--what-if: 'kernel/2', at character 1" in capsys.readouterr().err


def test_digests_are_replayed_by_phases_and_exchanges(folder: Path, tmp_path: Path) -> None:
    write_job(JobSpec(ranks=2, steps=2, layers=2, faults=Faults(item_reads=8)), tmp_path / "traces")
    redline.digest([tmp_path / "traces"], tmp_path / "digests", options=READING)
    asked = ["host/2", "kernels/2", "collectives=0"]
    fine, coarse = (redline.diagnose(tmp_path / name, options=READING, what_if=asked) for name in ("traces", "digests"))

    assert fine.replayed is not None
    assert coarse.replayed is not None
    assert coarse.replayed.coarse == "the traces of 2 of 2 ranks are not at hand, only their digests"
    for of_traces, of_digests in zip(fine.replayed.asked, coarse.replayed.asked, strict=True):
        assert of_digests.after_ns == pytest.approx(of_traces.after_ns, rel=0.05), of_traces.name
    assert coarse.replayed.path is not None
    assert coarse.replayed.path.limit == "compute"
    text = " ".join(coarse.rendered("text").split())
    assert "phases and exchanges alone were replayed, as the traces of 2 of 2 ranks are not at hand" in text
    assert {finding.forecast.declined for finding in coarse.findings.findings if finding.forecast is not None} == {
        "its forecast needs what digests do not hold"
    }
    assert json.loads(coarse.rendered("json"))["replay"]["coarse"] == coarse.replayed.coarse


def test_of_a_trace_in_which_nothing_takes_time_nothing_is_forecast(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.json").write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 0}]}')
    assert main(["diagnose", str(tmp_path / "t.json"), "--forecast", "--jobs", "1", "--no-cache"]) == 0
    assert "Nothing in the traces takes any time" in capsys.readouterr().out
