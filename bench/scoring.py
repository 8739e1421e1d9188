"""Whether a diagnosis names the cause of a case, its rank and its pattern of steps, and whether its bound holds.

A finding names a cause if `causes.toml` lists its code for the cause and one of the label's words stands in what the
finding says. A cause that no table lists is judged by the words alone, and the totals say how many were.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from bench.label import Label
from redline.errors import RedlineError
from redline.findings.pages import page_of

ALARM_SHARE = 0.05  # of the step: what a healthy twin must not be told
FEW = 3  # findings that people read
_PATTERNS = {
    "first steps": re.compile(r"first steps?\b", re.IGNORECASE),
    "some steps": re.compile(r"\b(some|few) (of the )?steps|now and then|\d+ of (the )?\d+ steps", re.IGNORECASE),
}
_EVERY_N = re.compile(r"every (\d+) steps|every (\d+)\w\w step", re.IGNORECASE)

Record = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Score:
    """How a case fared."""

    place: int  # of the first finding that names the cause, from 1; 0 where none does
    code: str  # of that finding
    unsaid: tuple[str, ...]  # findings with a right code whose text has none of the label's words
    by_words: bool  # no table lists the cause
    codes: tuple[tuple[str, float], ...]  # all findings of the flawed twin, with their shares
    alarms: tuple[tuple[str, float], ...]  # findings of the healthy twin that claim 5 % or more
    bound: float | None  # share of the step that the finding could gain as the only fix
    gain: float | None  # realised
    gain_low: float | None
    gain_high: float | None
    rank_right: bool | None  # None where no rank is at fault
    pattern_right: bool | None  # None for a single rank

    @property
    def bound_holds(self) -> bool | None:
        """Whether the bound is at least the realised gain, within its interval; None where either is not known."""
        if self.bound is None or self.gain_low is None:
            return None
        return self.bound >= self.gain_low


def causes_of(*folders: Path) -> dict[str, tuple[str, ...]]:
    """Which codes name each cause, from the tables of these folders; a later one adds to those before it."""
    table: dict[str, tuple[str, ...]] = {}
    for folder in dict.fromkeys(folders):
        path = folder / "causes.toml"
        if path.exists():
            table |= {cause: tuple(codes) for cause, codes in tomllib.loads(path.read_text(encoding="utf-8")).items()}
    return table


def score_of(
    label: Label, flawed: Record, healthy: Record, gain: Record | None, causes: Mapping[str, Sequence[str]]
) -> Score:
    """Judge what was said about both twins."""
    findings = flawed["findings"]
    codes, listed = causes.get(label.cause, ()), label.cause in causes
    right = [finding for finding in findings if not listed or finding["code"] in codes]
    naming = [finding for finding in right if _says(finding, label.says)]
    first = naming[0] if naming else None
    several = label.ranks > 1
    return Score(
        place=0 if first is None else findings.index(first) + 1,
        code="" if first is None else first["code"],
        unsaid=tuple(finding["code"] for finding in right if finding not in naming) if listed else (),
        by_words=not listed,
        codes=tuple((finding["code"], finding["share"]) for finding in findings),
        alarms=tuple(
            (finding["code"], finding["share"])
            for finding in healthy["findings"]
            if (finding["share"] or 0) >= ALARM_SHARE
        ),
        bound=None if first is None else first.get("alone_share"),
        gain=None if gain is None else gain["wall"],
        gain_low=None if gain is None else gain["wall_low"],
        gain_high=None if gain is None else gain["wall_high"],
        rank_right=None if label.rank is None else first is not None and _names_rank(first, label.rank),
        pattern_right=None if not several else first is not None and _pattern_said(first) == label.pattern,
    )


def _says(finding: Record, words: Sequence[str]) -> bool:
    text = f"{finding['title']} {_page_text(finding['code'])} {_evidence_text(finding)}".casefold()
    return any(word.casefold() in text for word in words)


@lru_cache(maxsize=256)
def _page_text(code: str) -> str:
    try:
        page = page_of(code)
    except (OSError, RedlineError):
        return ""
    return f"{page.cause} {page.smallest_fix} {page.thorough_fix}"


def _evidence_text(finding: Record) -> str:
    return " ".join(evidence["text"] for evidence in finding["evidence"])


def _names_rank(finding: Record, rank: int) -> bool:
    """Whether the first rank that the finding's evidence names is the one at fault."""
    named = [evidence["values"]["rank"] for evidence in finding["evidence"] if "rank" in evidence["values"]]
    return bool(named) and str(named[0]) == str(rank)


def _pattern_said(finding: Record) -> str:
    """In which steps the finding says that it shows; every step where it does not say."""
    text = _evidence_text(finding)
    period = _EVERY_N.search(text)
    if period is not None:
        return f"every {period[1] or period[2]} steps"
    return next((pattern for pattern, words in _PATTERNS.items() if words.search(text)), "every step")
