"""Findings as pieces of text that every format arranges in its own way."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from redline.findings.finding import Finding
from redline.findings.pages import Page, page_of
from redline.report.diagnose.finding_messages import bound_text, first_sentence, sentence
from redline.report.diagnose.replay_messages import forecast_text
from redline.report.language import _, clauses, spoken

_MOST_CODE = 120  # letters
_PART = re.compile(r"\s*(?:```\w*\n(?P<code>.*?)\n```|(?P<text>.+?)(?=\n\n|\s*\Z))", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Card:
    """One finding: what to do, what it can gain at most, why we think so, and the first thing to try."""

    code: str
    title: str
    bound: str  # "" for a remark, which claims no time
    forecast: str  # what the replay says; "" where there was none
    evidence: tuple[str, ...]
    located: tuple[str, ...]  # of the evidence: what names function and line
    doubts: tuple[str, ...]  # of the evidence: what weakens or voids the claim, and is never left out
    fix: str  # here, or the first sentence of the page's
    fix_here: str  # filled with what was seen; "" where that is not enough
    page: Page

    @property
    def gain(self) -> str:
        """What findings are ordered by comes first: the forecast where there is one, then the bound."""
        return clauses(part for part in (self.forecast, self.bound) if part)

    @property
    def head(self) -> str:
        known = {"code": self.code, "title": self.title, "bound": self.gain}
        return (_("{code} {title}: {bound}.") if self.bound else "{code} {title}").format(**known)


def cards_of(findings: Sequence[Finding]) -> tuple[Card, ...]:
    return tuple(map(card_of, findings))


def card_of(finding: Finding) -> Card:
    page = page_of(finding.code, spoken())
    fix_here = sentence(finding.fix) if finding.fix is not None else ""
    return Card(
        code=finding.code,
        title=page.title,
        bound=bound_text(finding),
        forecast=forecast_text(finding),
        evidence=tuple(map(sentence, finding.evidence)),
        located=tuple(sentence(evidence) for evidence in finding.evidence if evidence.place),
        doubts=tuple(map(sentence, finding.doubts)),
        fix=fix_here or fix_text(page.smallest_fix),
        fix_here=fix_here,
        page=page,
    )


def fix_text(markdown: str) -> str:
    """The first sentence of a fix, with the code right below it where that is short."""
    first, *rest = _PART.finditer(markdown)
    if first["code"] is not None:
        return _on_one_line(first["code"]) or fix_text(markdown[first.end() :])
    text = first_sentence(first["text"])
    if not first["text"].endswith((":", "\uff1a")):
        return text
    code = _on_one_line(rest[0]["code"] or "") if rest else ""
    known = {"text": text.rstrip(".:\u3002\uff1a"), "code": code}
    return _("{text}: {code}").format(**known) if code else _("{text}; see its page").format(**known)


def _on_one_line(code: str) -> str:
    """Statements after each other, without their imports; "" where they are long or more than plain statements."""
    lines = [line for line in code.splitlines() if line and not line.startswith(("import ", "from "))]
    simple = all(not line.startswith(" ") and not line.endswith((":", "(", "[", "{")) for line in lines)
    text = "; ".join(lines)
    return text if simple and len(text) <= _MOST_CODE else ""
