"""The pages of the findings: title, cause, fixes and sources of each, in English or Chinese.

They are documents under docs/findings; the wheel carries them beside this module.
"""

from dataclasses import dataclass
from pathlib import Path

from redline.findings.page_sections import ENDINGS, split_page

SECTIONS = {
    "symptom": ("What is seen", "现象"),
    "cause": ("Cause", "原因"),
    "smallest_fix": ("Smallest fix", "最小改动"),
    "thorough_fix": ("Thorough fix", "彻底解决"),
    "bound": ("Bound", "收益上限"),
    "numerics": ("Numerics", "数值影响"),
    "ignore": ("When to ignore it", "何时可以忽略"),
    "fooled": ("How it can be fooled", "何时会误判"),
    "sources": ("Sources", "来源"),
}
"""Parts of a page in their order, with their headings in English and in Chinese."""

_IN_WHEEL = Path(__file__).with_name("documents")
_IN_CHECKOUT = Path(__file__).parents[3] / "docs" / "findings"


@dataclass(frozen=True, kw_only=True)
class Page:
    """What is to be said of a finding, whatever the job; Markdown."""

    code: str
    title: str  # in the imperative
    symptom: str
    cause: str
    smallest_fix: str
    thorough_fix: str
    bound: str
    numerics: str
    ignore: str
    fooled: str
    sources: str
    text: str  # the whole page


def page_of(code: str, language: str = "en") -> Page:
    """In English where the page has not been translated."""
    path = folder() / f"{code}{ENDINGS[language]}"
    if language != "en" and not path.exists():
        return page_of(code)
    return parsed(path.read_text(encoding="utf-8"), language)


def folder() -> Path:
    """Where the pages are: in a checkout they are documents like the others."""
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT


def codes(language: str = "en") -> list[str]:
    """Of all findings that have a page in this language."""
    paths = folder().glob(f"RL-*{ENDINGS[language]}")
    return sorted(path.name.split(".")[0] for path in paths if path.name.count(".") == ENDINGS[language].count("."))


def request_codes() -> list[str]:
    """Of the causes for which requests of a serving engine wait; all other pages are of rules about steps."""
    return [code for code in codes() if code.startswith("RL-V")]


def parsed(text: str, language: str) -> Page:
    """Raises ValueError where a part is missing or out of order."""
    page = split_page(text, language, SECTIONS, "RL-X01")
    return Page(code=page.name, title=page.title, text=text, **page.parts)
