"""`redline compare` on the command line: two recordings, baselines, forms, and rubbish."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.calibration.figures import machine_of
from redline.cli import main
from redline.errors import UsageError
from redline.verbs.calibrate import Calibrated
from tests.support.events import document, op
from tests.support.made_calibrations import calibration, peak
from tests.support.rules.matching import FP32, described, step


def recorded(folder: Path, name: str, *lengths_us: float, rows: int = 64, **metadata: Any) -> str:
    events = []
    at = 0.0
    for number, length in enumerate(lengths_us):
        product = op("aten::mm", at, length / 2, **described(FP32, [rows, 64], [64, 64]))
        events += [step(number, at, length), product]
        at += length
    path = folder / f"{name}.json"
    path.write_bytes(document(events, **metadata))
    return str(path)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """The second takes half as long again."""
    usual = (100, 102, 98, 101)
    return recorded(tmp_path, "before", *usual), recorded(tmp_path, "after", *(1.5 * length for length in usual))


def test_text_says_what_got_slower(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *pair]) == 0
    said = capsys.readouterr().out
    flat = " ".join(said.split())
    assert "Slower: the average step takes 150.4 us instead of 100.2 us, 50.0 % more." in flat
    assert "The median step takes 150.8 us instead of 100.5 us, +50.0 %." in flat
    assert "not interleaved" in said
    assert "= step" in said


def test_json_adds_up(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--json", *pair]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kind"] == "comparison"
    assert record["verdict"]["judgement"] == "slower"
    total = sum(row["difference_ns"] for row in record["accounts"])
    assert total == pytest.approx(record["step"]["difference_ns"])


def test_markdown_folds_all_but_the_accounts(pair: tuple[str, str], tmp_path: Path) -> None:
    target = tmp_path / "comment.md"
    assert main(["compare", "-q", "-o", str(target), *pair]) == 0
    text = target.read_text(encoding="utf-8")
    assert text.startswith("## Slower: ")
    assert text.index("| account |") < text.index("<details>")
    assert text.count("<details>") == text.count("</details>")


def test_csv_has_the_accounts(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--format", "csv", *pair]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "account,before_ns,after_ns,difference_ns"
    assert lines[-1].startswith("step,100250.0,150375.0,50125.0")


def test_chinese(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "--lang", "zh", *pair]) == 0
    assert "变慢" in capsys.readouterr().out


def test_a_limit_that_is_crossed_ends_with_1(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "-q", "--fail-on", "slower>3%", *pair]) == 1
    assert "slower>3%: +50.0 % of the step" in capsys.readouterr().err
    assert main(["compare", "-q", "--fail-on", "slower>3%", *reversed(pair)]) == 0


def test_a_baseline_is_kept_and_compared_with(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["--baselines", str(tmp_path / "kept")]
    assert main(["compare", "--save-as", "main", *kept, pair[0]]) == 0
    assert main(["compare", "--against", "main", "--json", *kept, pair[1]]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["judgement"] == "slower"
    assert main(["compare", "--save-as", "main", *kept, pair[0]]) == 2
    assert "there is a baseline 'main'" in capsys.readouterr().err
    assert main(["compare", "--save-as", "main", "--force", *kept, pair[1]]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{0}"], "give two recordings, BEFORE and AFTER"),
        (["{0}", "{1}", "{1}"], "give two recordings, BEFORE and AFTER"),
        (["{0}", "nowhere.json"], "nowhere.json"),
        (["--against", "main", "{0}", "{1}"], "with --against give one recording"),
        (["--against", "main", "{0}"], "no baseline 'main'; there is none"),
        (["--save-as", "../main", "{0}"], "is no name for a baseline"),
        (["--save-as", "n" * 300, "{0}"], "no file has a name of "),
        (["--fail-on", "faster>1%", "{0}", "{1}"], "there is no 'faster'"),
        (["-o", "out.pdf", "{0}", "{1}"], "out.pdf"),
        (["--redact", "--a", "python a.py", "--b", "python b.py"], "--redact is for recordings"),
    ],
)
def test_what_cannot_be_compared_is_said_in_a_line(
    words: list[str],
    said: str,
    pair: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compare", *(word.format(*pair) for word in words)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.strip().splitlines()) <= 2


def test_work_that_differs_is_said_instead_of_a_verdict_on_the_speed(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    larger = recorded(tmp_path, "larger", 300, 306, 294, 303, rows=128)
    assert main(["compare", "-q", pair[0], larger]) == 0
    flat = " ".join(capsys.readouterr().out.split())
    assert "The known work differs: the average step has 1.05e+06 FLOPs instead of 5.24e+05 (+100.0 %)" in flat
    assert "the time per FLOP changed by +50.0 %" in flat
    assert main(["compare", "-q", "--json", "--fail-on", "slower>3%", pair[0], larger]) == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["verdict"]["judgement"] == "other work"
    assert "+200.0 % of the step; its known work changed by +100.0 %" in told.err


def test_what_else_differs_is_named_in_chinese(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair = recorded(tmp_path, "one", 100, 101, 99), recorded(tmp_path, "two", 100, 101, 99, rows=128, world_size=2)
    assert main(["compare", "-q", "--lang", "zh", *pair]) == 0
    said = capsys.readouterr().out
    assert "每 step 已知的 FLOPs" in said
    assert "FLOPs per step" not in said


def test_redacted_outputs_name_no_file_and_no_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ("acme-before", "acme-after")
    pair = [recorded(tmp_path, name, 100, 101, 99, host_name=f"{name}-node17") for name in names]
    for form in ("text", "json", "md", "csv"):
        assert main(["compare", "--redact", "--format", form, *pair]) == 0
        told = capsys.readouterr()
        assert "acme" not in told.out + told.err
        assert ("redacted: 2 hosts" in told.out) == (form in ("text", "md"))
        assert ("redacted: 2 hosts" in told.err) == (form in ("json", "csv"))
    page = tmp_path / "page.html"
    assert main(["compare", "--redact", "-q", "-o", str(page), *pair]) == 0
    shown = page.read_text(encoding="utf-8")
    assert "acme" not in shown
    assert "redacted: 2" in shown
    assert main(["compare", "--redact", *pair[:1], str(tmp_path / "acme-nowhere.json")]) == 2
    assert "acme" not in capsys.readouterr().err


def test_a_host_that_is_named_like_an_account_hides_no_account(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pair = [recorded(tmp_path, name, 100, 101, 99, host_name=name) for name in ("queue", "math")]
    assert main(["compare", "-q", "--redact", "--format", "csv", *pair]) == 0
    assert "\nqueue,0.0" in capsys.readouterr().out
    assert main(["compare", "-q", "--redact", *pair]) == 0
    assert "hosts" in capsys.readouterr().out


def test_digests_are_kept_as_a_baseline_and_replace_all_of_the_one_before(
    pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = ["-q", "--baselines", str(tmp_path / "kept")]
    assert main(["digest", "-q", pair[0], "-o", str(tmp_path / "digests")]) == 0
    assert main(["compare", "--save-as", "main", *kept, str(tmp_path / "digests")]) == 0
    stale = tmp_path / "kept" / "main" / "rank-00001.digest"
    stale.write_bytes(b"of a rank that is no more")
    assert main(["compare", "--save-as", "main", "--force", *kept, str(tmp_path / "digests")]) == 0
    assert not stale.exists()
    capsys.readouterr()
    assert main(["compare", "--against", "main", "--json", *kept, pair[1]]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"]["judgement"] == "slower"


def test_a_comparison_replaces_one_that_redline_wrote(pair: tuple[str, str], tmp_path: Path) -> None:
    for _ in range(2):
        assert main(["compare", "-q", "-o", str(tmp_path / "comparison.json"), *pair]) == 0


# --- plans and profiles -----------------------------------------------------------------------------------------------

PLAN = """plan train --layers 2 --hidden 256 --heads 4 --vocab 1000 --machine H100-SXM5-80GB --gpus 1 --sequence 128
--batch 4 --micro-batch 4 --recompute none --zero 0 --tp 1 --pp 1 -q"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan in all of its forms, the record of a run, and two profiles."""
    folder = tmp_path_factory.mktemp("plan")
    written = [word for ending in ("json.gz", "json", "html", "txt") for word in ("-o", str(folder / f"plan.{ending}"))]
    assert main([*PLAN.split(), *written]) == 0
    (folder / "run.json").write_text('{"kind": "run", "made_by": "redline run", "redline_version": "0.1.0"}')
    faster = calibration(peaks=(peak("fp32", 1.5 * 2.05e11), peak("bf16", 0.5 * 1.55e12)))
    for name, measured in (("first", calibration()), ("second", faster)):
        Calibrated(calibration=measured, machine=machine_of(measured)).save(folder / f"{name}.json")
    return folder


def test_a_plan_and_a_run_in_any_order(plan: Path, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    predicted = str(plan / "plan.json.gz")
    assert main(["compare", "-q", predicted, pair[0]]) == 0
    step_ms = json.loads((plan / "plan.json").read_text())["best"]["step_s"] * 1e3
    said = " ".join(capsys.readouterr().out.split())
    assert "before is a plan, after is a recording. The average step is 100.2 us instead of" in said
    assert f"instead of {step_ms:.4g} ms" in said
    assert main(["compare", "-q", "--json", pair[0], predicted]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["verdict"]["judgement"] == "predicted"
    assert record["verdict"]["text"].startswith("Not measured on both sides: before is a recording, after is a plan.")
    assert main(["compare", "-q", predicted, predicted]) == 0
    assert "before is a plan, after is a plan." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("plan.json", "figures of a plan, not its step; give that: `redline plan train ... -o plan.json.gz` writes it"),
        ("plan.html", "a report of Redline, not a recording"),
        ("plan.txt", "not JSON, so not a trace"),
        ("run.json", "the record of a run; give the folder that it is in"),
        (
            "first.json",
            "a profile, not a recording; `redline compare` takes two profiles, and with",
        ),
    ],
)
def test_what_is_no_recording_is_refused_with_what_to_give(
    name: str, said: str, plan: Path, pair: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([str(plan / name), pair[0]], [pair[0], str(plan / name)], ["--save-as", "x", str(plan / name)]):
        assert main(["compare", *words]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert len(error.strip().splitlines()) == 1


def test_two_profiles_are_compared_in_every_form(
    plan: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profiles = [str(plan / "first.json"), str(plan / "second.json")]
    told = {}
    for form in ("text", "json", "md", "csv"):
        assert main(["compare", "--format", form, *profiles]) == 0
        told[form] = capsys.readouterr().out
    assert "114 same, 2 faster, 2 slower" in told["text"]
    assert "not measured in turns" in told["text"]
    record = json.loads(told["json"])
    assert (record["made_by"], record["interleaved"]) == ("redline compare", False)
    assert "| best matmul fp32 | 205 GFLOP/s ±2.0 % | 308 GFLOP/s ±2.0 % | 1.50 | faster |" in told["md"]
    rows = list(csv.DictReader(told["csv"].splitlines()))
    assert len(rows) == len(record["rows"])
    assert (rows[0]["difference"], rows[0]["ratio"], rows[0]["verdict"]) == ("102500000000.0", "1.5", "faster")
    page = tmp_path / "page.html"
    assert main(["compare", "--lang", "zh", "-o", str(page), *profiles]) == 0
    assert "两次测量不是交替进行的" in page.read_text(encoding="utf-8")


def test_profiles_take_no_options_of_recordings(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profiles = [str(plan / "first.json"), str(plan / "second.json")]
    assert main(["compare", "--fail-on", "slower>3%", *profiles]) == 2
    assert "--fail-on is for recordings; two profiles were given" in capsys.readouterr().err


def test_from_python(pair: tuple[str, str], tmp_path: Path) -> None:
    result = redline.compare(*pair)
    assert repr(result).startswith("<redline comparison: Slower")
    result.save(tmp_path / "comparison.json")
    with pytest.raises(UsageError, match="is saved as"):
        result.save(tmp_path / "comparison.pdf")


def test_the_page_shows_both_steps(pair: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "report.html"
    assert main(["compare", "-q", "-o", str(target), *pair]) == 0
    page = target.read_text(encoding="utf-8")
    assert "<h1>Slower: the average step takes 150.4" in page.replace("\u00a0", " ")
    assert page.count('class="stack wide"') == 2
    assert main(["compare", "--format", "html", *pair]) == 2
    assert "an HTML report is 2 MB of text" in capsys.readouterr().err
