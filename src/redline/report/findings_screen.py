"""Findings as pieces of text that every format arranges in its own way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redline.findings.finding import Finding
from redline.findings.pages import Page, page_of
from redline.report.findings_words import bound_words, first_sentence, sentence
from redline.report.language import _, spoken

_CODE = re.compile(r"^```\w*\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One finding: what to do, what it can gain at most, why we think so, and the first thing to try."""

    code: str
    title: str
    bound: str  # "" for a remark, which claims no time
    evidence: tuple[str, ...]
    fix: str
    page: Page

    @property
    def head(self) -> str:
        known = {"code": self.code, "title": self.title, "bound": self.bound}
        return (_("{code} {title}: {bound}.") if self.bound else "{code} {title}").format(**known)


def cards_of(findings: Sequence[Finding]) -> tuple[Card, ...]:
    return tuple(map(card_of, findings))


def card_of(finding: Finding) -> Card:
    page = page_of(finding.code, spoken())
    return Card(
        code=finding.code,
        title=page.title,
        bound=bound_words(finding),
        evidence=tuple(map(sentence, finding.evidence)),
        fix=fix_words(page.smallest_fix),
        page=page,
    )


def fix_words(markdown: str) -> str:
    """The first sentence of a fix, with the code that it announces where that is one line."""
    text = first_sentence(_CODE.sub("", markdown).strip().partition("\n\n")[0])
    code = _CODE.search(markdown)
    lines = code["code"].strip().splitlines() if code else []
    if not text.endswith((":", "：")):
        return text
    if len(lines) != 1:
        return _("{text}; see its page").format(text=text[:-1])
    return f"{text} {lines[0]}" if text.endswith(":") else text + lines[0]
