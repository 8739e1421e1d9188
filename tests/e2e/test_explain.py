"""`redline explain` as users run it."""

import pytest

from redline.cli import arguments, main
from redline.findings import pages
from redline.report.language import LANGUAGES
from tests.conftest import ROOT

PAGES = ROOT / "docs" / "findings"


@pytest.mark.parametrize("word", ["RL-H01", "rl-h01", "h01", "H01"])
def test_a_code_as_people_type_it(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 0
    assert capsys.readouterr().out == (PAGES / "RL-H01.md").read_text()


@pytest.mark.parametrize(("given", "from_environment"), [("zh", None), (None, "zh"), ("zh", "en")])
def test_the_language_is_chosen(
    given: str | None,
    from_environment: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if from_environment:
        monkeypatch.setenv("REDLINE_LANG", from_environment)
    assert main(["explain", "RL-H01", *(["--lang", given] if given else [])]) == 0
    assert capsys.readouterr().out == (PAGES / "RL-H01.zh-CN.md").read_text()


def test_the_locale_is_not_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    monkeypatch.delenv("REDLINE_LANG", raising=False)
    assert main(["explain", "RL-H01"]) == 0
    assert capsys.readouterr().out == (PAGES / "RL-H01.md").read_text()


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines] == pages.codes()
    assert "RL-H01  Replay the launches of a step as a CUDA graph" in lines


def test_an_unknown_code_is_answered_with_those_near_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "H99"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("redline: explain: there is no finding 'H99'; there are: RL-H01")
    assert "RL-D" not in error
    assert main(["explain", "nonsense"]) == 2
    assert "there is no finding 'nonsense'; there are: RL-" in capsys.readouterr().err


def test_an_unknown_language_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDLINE_LANG", "xx")
    assert main(["explain", "RL-H01"]) == 2
    assert capsys.readouterr().err == "redline: REDLINE_LANG is 'xx'; it can be en or zh\n"


def test_the_languages_of_the_command_line_are_those_of_the_reports() -> None:
    assert tuple(LANGUAGES) == arguments.LANGUAGES
