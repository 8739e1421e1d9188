"""Every rule has its page: whole, with sources, and with code that can be run; a translation says the same."""

import re
import shutil
from pathlib import Path

import pytest

from redline.findings import pages
from redline.findings.pages import SECTIONS, codes, folder, page_of, parsed, request_codes
from redline.findings.registry import RULES
from redline.ledger.memory.causes import RULES as MEMORY_RULES
from redline.numerics import Numerics
from redline.report.language import LANGUAGES
from redline.serving.causes import RULES as SERVING_RULES
from tests.support.finding_pages import ADDRESS, BLOCK, AnyRule, blocks, faults_of

EVERY_RULE: list[AnyRule] = [*RULES, *SERVING_RULES, *MEMORY_RULES]
BY_CODE = {rule.code: rule for rule in EVERY_RULE}
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
SPELLED_OUT = 0.8  # of the figures of a page: the other language may write small ones as words


def test_every_rule_has_a_page_and_every_page_a_rule() -> None:
    assert codes() == sorted(BY_CODE)
    assert len(BY_CODE) == len(EVERY_RULE)
    assert request_codes() == sorted(rule.code for rule in SERVING_RULES)


def test_every_file_is_a_page_or_a_translation() -> None:
    written = {path.name for path in folder().iterdir()}
    assert written <= {f"{code}{ending}" for code in BY_CODE for ending in (".md", ".zh-CN.md")}


@pytest.mark.parametrize("language", list(LANGUAGES))
@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_a_page_is_whole(code: str, language: str) -> None:
    page = page_of(code, language)
    assert page.code == code
    assert list(faults_of(page, BY_CODE[code])) == []


@pytest.mark.parametrize("code", codes("zh"))
def test_a_page_says_the_same_in_both_languages(code: str) -> None:
    english, chinese = page_of(code, "en"), page_of(code, "zh")
    assert blocks(english) == blocks(chinese)
    assert ADDRESS.findall(english.text) == ADDRESS.findall(chinese.text)
    assert english.title != chinese.title
    for name in SECTIONS:
        stated, told = (set(NUMBER.findall(getattr(page, name))) for page in (english, chinese))
        assert len(stated & told) >= SPELLED_OUT * len(stated), (name, stated - told)


NUMERICS_OF_CODE = (
    (re.compile(r"torch\.compile\(|mark_dynamic|fused=True|channels_last|scaled_dot_product"), Numerics.REASSOCIATION),
    (re.compile(r"autocast|compress_hook|quantize_"), Numerics.LOWER_PRECISION),
)
"""What code does to numbers at least, by what it calls."""


@pytest.mark.parametrize("code", sorted(BY_CODE))
def test_numerics_are_those_of_the_code_that_is_pasted(code: str) -> None:
    order = list(Numerics)
    for found in BLOCK.finditer(page_of(code).smallest_fix + "\n"):
        for pattern, numerics in NUMERICS_OF_CODE:
            if pattern.search(found["code"]):
                assert order.index(BY_CODE[code].numerics) >= order.index(numerics)


def test_titles_fit_on_a_line() -> None:
    assert [page.title for page in map(page_of, BY_CODE) if len(page.title) > 70 or page.title.endswith(".")] == []


def test_a_page_without_a_translation_is_shown_in_english(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder() / "RL-H01.md", tmp_path)
    monkeypatch.setattr(pages, "folder", lambda: tmp_path)
    assert (codes(), codes("zh")) == (["RL-H01"], [])
    assert page_of("RL-H01", "zh") == page_of("RL-H01")
    pytest.importorskip("babel")
    from scripts.missing_translations import missing_pages

    assert list(missing_pages()) == ["zh: no page of RL-H01: write docs/findings/RL-H01.zh-CN.md"]


# --- reading them -----------------------------------------------------------------------------------------------------


def test_a_page_without_a_part_is_refused() -> None:
    text = page_of("RL-H01").text
    with pytest.raises(ValueError, match="a page is '# RL-X01: Title' and the parts What is seen, Cause"):
        parsed(text.replace("## Cause\n", ""), "en")
    with pytest.raises(ValueError, match=r"RL-H01: empty: \['cause'\]"):
        parsed(re.sub(r"(?<=## Cause\n).*?(?=## )", "\n", text, flags=re.DOTALL), "en")
