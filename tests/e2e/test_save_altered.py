"""The timelines of a what-if as traces: as long as forecast, and whatever reads them says what they were altered by."""

import json
from pathlib import Path

import msgspec
import pytest

import redline
from redline.cli import main
from redline.errors import InputError, OutputError, UsageError
from redline.job.read_files import JobOptions
from redline.ledger.accounts import Account
from redline.model.huggingface import describe
from redline.plan.train.workload import Transformer
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.inspect import document_of
from redline.report.terminal import text_of
from redline.report.written import document_of_merge
from redline.timeline.timeline import TimelineOrigin
from redline.trace.reader import read_file
from redline.trials.limits import check, parse
from redline.trials.recordings import Judgement
from redline.verbs.inspect import inspect
from redline.verbs.merge import merge
from redline.verbs.plan_measured import from_recording
from tests.support.real_traces import RealTraces
from tests.support.traces.synthetic import Faults, JobSpec, write_job

READING = JobOptions(jobs=1, use_cache=False)
CHANGES = "kernels*2, host/2"
SAYS = f"altered by {CHANGES}, not measured"


def step_ns(result: DiagnoseResult) -> float:
    return float(result.diagnosis.in_steps.sum()) / result.diagnosis.rank_steps


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job")
    write_job(JobSpec(ranks=2, steps=3, layers=3, step_compute_us=4_000), folder)
    return folder


@pytest.fixture(scope="module")
def saved(job: Path, tmp_path_factory: pytest.TempPathFactory) -> DiagnoseResult:
    folder = tmp_path_factory.mktemp("saved") / "altered"
    return redline.diagnose(job, options=READING, what_if=CHANGES, save_altered=folder)


@pytest.fixture(scope="module")
def folder(saved: DiagnoseResult) -> Path:
    return Path(saved.saved[0]).parent


@pytest.fixture(scope="module")
def again(folder: Path) -> DiagnoseResult:
    return redline.diagnose(folder, options=READING)


def forecast_ns(result: DiagnoseResult) -> float:
    assert result.replayed is not None
    return result.replayed.asked[0].after_ns


def test_there_is_a_trace_of_each_rank(saved: DiagnoseResult, folder: Path) -> None:
    assert [Path(path).name for path in saved.saved] == ["rank-0.json.gz", "rank-1.json.gz"]
    assert sorted(path.name for path in folder.iterdir()) == ["rank-0.json.gz", "rank-1.json.gz"]


def test_its_diagnosis_has_the_step_that_was_forecast(saved: DiagnoseResult, again: DiagnoseResult) -> None:
    assert step_ns(again) == pytest.approx(forecast_ns(saved), rel=0.002)
    assert step_ns(again) > 1.3 * step_ns(saved)
    assert again.diagnosis.world_size == saved.diagnosis.world_size
    assert again.diagnosis.clocks.trusted


@pytest.mark.parametrize("form", ["text", "md", "html"])
def test_every_report_of_it_says_so(form: str, again: DiagnoseResult) -> None:
    said = again.rendered(form).replace("\\*", "*")
    assert SAYS in said
    assert "measured step" not in said
    assert "measured time" not in said.replace("over the measured time", "")  # of a roof, in the page's definitions


def test_a_notebook_and_the_json_say_so(again: DiagnoseResult) -> None:
    assert SAYS in again._repr_html_()
    record = json.loads(again.rendered("json"))
    assert record["synthetic"]
    assert [rank["altered"] for rank in record["ranks"]] == [[CHANGES]] * 2
    assert [remark["detail"] for remark in record["unseen"] if remark["what"] == "altered"] == [CHANGES]


def test_it_survives_a_digest(folder: Path, again: DiagnoseResult, tmp_path: Path) -> None:
    redline.digest([folder], tmp_path, options=READING)
    digested = redline.diagnose(tmp_path, options=READING)
    assert digested.diagnosis.altered == CHANGES
    assert SAYS in digested.rendered("text")
    assert step_ns(digested) == step_ns(again)


def test_it_survives_a_merge(folder: Path, again: DiagnoseResult, tmp_path: Path) -> None:
    merged = merge([folder], tmp_path / "merged.json", options=READING)
    assert SAYS in text_of(document_of_merge(merged))
    record = msgspec.json.decode((tmp_path / "merged.json").read_bytes())
    assert (record["timelineOrigin"], record["timelineChanges"]) == ("altered", [CHANGES])
    assert record["redline"]["synthetic"]
    processes = [event["args"]["name"] for event in record["traceEvents"] if event["name"] == "process_name"]
    assert all(SAYS in name for name in processes)
    assert SAYS in text_of(document_of(inspect([tmp_path / "merged.json"], READING)))
    from_merged = redline.diagnose(tmp_path / "merged.json", options=READING)
    assert from_merged.diagnosis.altered == CHANGES
    assert step_ns(from_merged) == pytest.approx(step_ns(again), rel=1e-6)


def test_a_comparison_calls_it_altered_and_never_faster_or_slower(job: Path, folder: Path) -> None:
    for before, after in ((job, folder), (folder, job), (folder, folder)):
        compared = redline.compare(before, after, options=READING)
        assert compared.difference.judgement is Judgement.ALTERED
        said = " ".join(compared.rendered("text").split())
        assert f"altered by {CHANGES}" in said
        assert "Slower" not in said
        assert "Faster" not in said
        assert said.count("The median step that was recorded took") == [before, after].count(job)
        assert json.loads(compared.rendered("json"))["verdict"]["judgement"] == "altered"
        assert compared.rendered("csv")
        assert "Not measured on both sides" in compared.rendered("html")


def test_a_limit_that_it_crosses_is_not_called_measured(job: Path, folder: Path) -> None:
    outcome = check(parse("slower>3%"), redline.compare(job, folder, options=READING).difference)
    assert "% of the step, which nobody measured" in outcome.said


def test_it_can_be_altered_again(folder: Path, tmp_path: Path) -> None:
    result = redline.diagnose(folder, options=READING, what_if="collectives=0", save_altered=tmp_path / "twice")
    assert redline.diagnose(result.saved, options=READING).diagnosis.altered == f"{CHANGES}; collectives=0"


def test_no_plan_starts_from_it(folder: Path) -> None:
    with pytest.raises(InputError, match=r"it is altered by kernels\*2, host/2, not measured; give a recording"):
        from_recording(folder, Transformer(describe(layers=1, hidden=64, heads=1, ffn=64, vocab=100)), 1024, {}, None)


def test_a_trace_that_does_not_state_its_changes_is_still_altered(tmp_path: Path) -> None:
    (tmp_path / "rank-0.json").write_text('{"timelineOrigin": "altered", "timelineChanges": 7, "traceEvents": []}')
    (timeline,) = read_file(tmp_path / "rank-0.json").timelines
    assert timeline.origin is TimelineOrigin.ALTERED
    assert timeline.changes == ("changes that its file does not state",)


@pytest.mark.parametrize("asked", [(), ("host/2", "kernels/2")])
def test_one_scenario_is_saved(asked: tuple[str, ...], job: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"`save_altered=...` saves the timelines of one scenario"):
        redline.diagnose(job, what_if=asked, save_altered=tmp_path / "altered")


def test_a_folder_that_holds_something_is_refused_before_anything_is_read(job: Path) -> None:
    with pytest.raises(OutputError, match=r"a folder that is not empty; give `save_altered=...` a new folder"):
        redline.diagnose("no-such-trace.json", what_if="host/2", save_altered=job)


def test_what_is_not_replayed_is_not_saved(job: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"altered: nothing was saved\. nothing in the trace is changed by kernels"):
        redline.diagnose(job, options=READING, what_if="kernels(no_such)=0", save_altered=tmp_path / "altered")
    assert not (tmp_path / "altered").exists()


def test_digests_have_nothing_to_save(tmp_path: Path) -> None:
    write_job(JobSpec(ranks=1, steps=2, layers=2, faults=Faults(item_reads=8)), tmp_path / "traces")
    redline.digest([tmp_path / "traces"], tmp_path / "digests", options=READING)
    with pytest.raises(InputError, match=r"nothing was saved\. the traces of 1 of 1 ranks are not at hand"):
        redline.diagnose(tmp_path / "digests", options=READING, what_if="host/2", save_altered=tmp_path / "altered")


def test_the_command_line_saves_and_says_what_is_next(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "altered"
    asked = ["diagnose", str(job), "--no-cache", "--what-if", "loader=0", "--save-altered", str(folder)]
    assert main(asked) == 0
    told = capsys.readouterr().err
    assert f"saved in {folder}, altered and not measured: 2 x trace" in told
    assert f"next: redline compare {job} {folder}" in told
    assert main(asked) == 2
    assert "give --save-altered a new folder" in capsys.readouterr().err
    assert main([*asked, "--redact"]) == 2
    assert "--redact cleans the report alone" in capsys.readouterr().err


def test_on_a_cpu_the_accounts_that_a_change_is_about_change_and_no_others(tmp_path: Path) -> None:
    trace = Path("tests/data/recorded/plain_loop.pt.trace.json.gz")
    before = redline.diagnose(trace, options=READING).diagnosis.per_step
    for asked, expected in (
        ("kernels*2", {Account.UNRATED: 2.0, Account.HOST: 1.0, Account.INPUT: 1.0}),
        ("loader=0", {Account.UNRATED: 1.0, Account.HOST: 1.0, Account.INPUT: 0.0}),
        ("host/2", {Account.UNRATED: 1.0, Account.HOST: 0.5, Account.INPUT: 1.0}),
    ):
        folder = tmp_path / asked.replace("/", "-")
        redline.diagnose(trace, options=READING, what_if=asked, save_altered=folder)
        after = redline.diagnose(folder, options=READING).diagnosis.per_step
        for account, factor in expected.items():
            assert after[account] == pytest.approx(factor * before[account], abs=0.01 * before[account]), (
                asked,
                account,
            )


@pytest.mark.needs_traces
def test_a_real_trace_lasts_as_long_as_forecast(traces: RealTraces, tmp_path: Path) -> None:
    path = traces / "mi300_ddp_resnet18.json.gz"
    result = redline.diagnose(path, options=READING, what_if="kernels*2", save_altered=tmp_path / "altered")
    again = redline.diagnose(tmp_path / "altered", options=READING)
    assert again.diagnosis.altered == "kernels*2"
    assert step_ns(again) == pytest.approx(forecast_ns(result), rel=0.01)
    assert step_ns(again) > 1.01 * step_ns(result)
