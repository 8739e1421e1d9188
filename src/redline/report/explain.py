"""Findings listed by code and title: all of them by what limits, or those that a word was found in; and levers."""

from collections.abc import Iterable

from redline.capture.lever_kinds import KINDS
from redline.findings.pages import Page, page_of, request_codes
from redline.findings.rule_modules import LIMITS, codes_of
from redline.ledger.memory.causes import RULES as MEMORY_RULES
from redline.report.language import _, marked, spoken
from redline.report.terminal import as_text, fitted, left
from redline.trials.lever_pages import lever_page_of

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
REQUESTS = marked("Requests of a serving engine")
BYTES = marked("What fills the memory")
LEVERS = marked("Levers")


def sections() -> dict[str, list[str]]:
    """Codes of all findings by heading, in the order in which they are listed everywhere."""
    of_steps = {HEADINGS[limit]: codes_of(limit) for limit in LIMITS}
    return {**of_steps, REQUESTS: request_codes(), BYTES: [rule.code for rule in MEMORY_RULES]}


def render_all() -> str:
    findings = (
        [_(heading), *_lines(page_of(code, spoken()) for code in codes)] for heading, codes in sections().items()
    )
    return as_text([*findings, [_(LEVERS), *_lever_lines()]])


def render_several(pages: Iterable[Page]) -> str:
    return as_text([_lines(pages)])


def _lines(pages: Iterable[Page]) -> list[str]:
    return [line for page in pages for line in fitted(page.title, f"  {left(page.code, 7)}  ")]


def _lever_lines() -> list[str]:
    width = max(map(len, KINDS))
    return [line for name in KINDS for line in fitted(lever_page_of(name, spoken()).title, f"  {left(name, width)}  ")]
