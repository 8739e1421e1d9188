"""Findings listed by code and title: all of them by what limits, or those that a word was found in."""

from collections.abc import Iterable

from redline.findings.pages import Page, page_of
from redline.report.language import _, marked, spoken
from redline.report.layout import as_text, left

HEADINGS = {
    "input": marked("Loading data"),
    "host": marked("The host and its launches"),
    "kernels": marked("Kernels and memory traffic"),
    "communication": marked("Communication"),
    "memory": marked("Device memory"),
    "serving": marked("Serving engines"),
    "remarks": marked("Before you act"),
}
"""Of the folders of rules."""


def render_all() -> str:
    from redline.findings.registry import FOLDERS, rules_in  # slow: all rules, and what they need

    by_folder = {folder: sorted(rule.code for rule in rules_in(folder)) for folder in FOLDERS}
    return as_text(
        [_(HEADINGS[folder]), *_lines(page_of(code, spoken()) for code in codes)] for folder, codes in by_folder.items()
    )


def render_several(pages: Iterable[Page]) -> str:
    return as_text([_lines(pages)])


def _lines(pages: Iterable[Page]) -> list[str]:
    return [f"  {left(page.code, 7)}  {page.title}" for page in pages]
