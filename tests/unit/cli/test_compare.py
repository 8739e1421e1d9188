"""`redline compare` on the command line: two recordings, baselines, forms, and rubbish."""

import json
from pathlib import Path

import pytest

import redline
from redline.cli import main
from redline.errors import UsageError
from tests.conftest import document, op
from tests.unit.findings.conftest import FP32, described, step


def recorded(folder: Path, name: str, *lengths_us: float) -> str:
    events = []
    at = 0.0
    for number, length in enumerate(lengths_us):
        events += [step(number, at, length), op("aten::mm", at, length / 2, **described(FP32, [64, 64], [64, 64]))]
        at += length
    path = folder / f"{name}.json"
    path.write_bytes(document(events))
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
        (["--fail-on", "faster>1%", "{0}", "{1}"], "there is no 'faster'"),
        (["-o", "out.pdf", "{0}", "{1}"], "out.pdf"),
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
