"""`redline explain` as users run it."""

import pytest

from redline.capture.lever_kinds import KINDS
from redline.cli import arguments, main
from redline.findings import pages
from redline.findings.rule_modules import LIMITS
from redline.report.explain import HEADINGS, sections
from redline.report.language import LANGUAGES
from redline.report.terminal import width_of
from tests.support.command_line import ROOT

PAGES = ROOT / "docs" / "findings"
LEVERS = ROOT / "docs" / "levers"


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


def listed_in(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.startswith("  ")]


@pytest.mark.parametrize(
    ("language", "first", "last", "line"),
    [
        ("en", "Loading data", "Levers", "  RL-H01   Replay the launches of a step as a CUDA graph"),
        ("zh", "数据加载", "可切换的改动", "  RL-H03   不要每个 step 都从设备读取数值"),
    ],
)
def test_without_a_code_all_are_listed_by_what_limits(
    language: str, first: str, last: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "--lang", language]) == 0
    shown = capsys.readouterr().out
    assert sorted(listed_in(shown)) == sorted([*pages.codes(), *KINDS])
    headings = [each for each in shown.splitlines() if each and not each.startswith("  ")]
    assert headings[0] == first
    assert headings[-1] == last
    assert len(headings) == len(sections()) + 1
    assert line in shown.splitlines()
    assert max(map(width_of, shown.splitlines())) <= 80


def test_every_folder_of_rules_has_a_heading() -> None:
    assert tuple(HEADINGS) == LIMITS


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        (["idle"], {"RL-H01", "RL-D01", "RL-P01"}),  # in symptoms and causes
        (["fp32"], {"RL-C02", "RL-N05"}),  # which looks like a code
        (["CUDA", "graph"], {"RL-H01", "RL-ID01"}),
        (["rl-d"], {"RL-D01", "RL-D02", "RL-D03"}),
        (["--lang", "zh", "sync"], {"RL-H04", "RL-N02"}),  # an English word, and pages in Chinese
        (["--lang", "zh", "同步"], {"RL-H04"}),
    ],
)
def test_a_word_of_several_findings_lists_them(
    words: list[str], codes: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *words]) == 0
    listed = listed_in(capsys.readouterr().out)
    assert codes <= set(listed)
    assert 1 < len(listed) < len(pages.codes()) / 2


def test_findings_with_the_word_in_their_title_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "sync"]) == 0
    assert listed_in(capsys.readouterr().out)[0] == "RL-H04"


@pytest.mark.parametrize(("word", "code"), [("garbage", "RL-H09"), ("Straggler", "RL-N13"), ("MoE", "RL-N17")])
def test_a_word_of_one_finding_shows_it(word: str, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 0
    assert capsys.readouterr().out == (PAGES / f"{code}.md").read_text()


def test_an_unknown_code_is_answered_with_those_near_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "H99"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("redline: explain: no finding or lever matches 'H99'. Similar codes: RL-H01, RL-H02")
    assert "RL-D" not in error


@pytest.mark.parametrize("word", ["nonsense", "Q99", "[[", "idle nonsense"])
def test_an_unknown_word_is_answered_with_what_to_do(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", word]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"redline: explain: no finding or lever matches {word!r}. `redline explain` lists all findings and levers\n"
    )


@pytest.mark.parametrize(
    ("word", "name"),
    [("fused", "fused"), ("Fused", "fused"), ("workers=4", "workers"), ("env", "env"), ("env:OMP_PROC_BIND=a", "env")],
)
@pytest.mark.parametrize(("language", "ending"), [("en", ".md"), ("zh", ".zh-CN.md")])
def test_a_lever_as_people_type_it(
    word: str, name: str, language: str, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word, "--lang", language]) == 0
    assert capsys.readouterr().out == (LEVERS / f"{name}{ending}").read_text()


@pytest.mark.parametrize(("word", "near"), [("fuzed", "fused"), ("Channel-last", "channels-last")])
def test_an_unknown_lever_is_answered_with_those_near_it(
    word: str, near: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", word]) == 2
    error = capsys.readouterr().err
    assert error == f"redline: explain: no finding or lever matches {word!r}. Similar levers: {near}\n"


def test_an_unknown_language_in_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDLINE_LANG", "xx")
    assert main(["explain", "RL-H01"]) == 2
    assert capsys.readouterr().err == "redline: REDLINE_LANG is 'xx'; it can be en or zh\n"


def test_the_languages_of_the_command_line_are_those_of_the_reports() -> None:
    assert tuple(LANGUAGES) == arguments.LANGUAGES
