"""Find the pages of findings by code, as a person types it, or by words."""

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from redline.capture.lever_kinds import KINDS
from redline.errors import UsageError
from redline.findings.pages import Page, codes, page_of

_CODE = re.compile(r"RL-[A-Z]{1,2}[0-9]{1,2}")


def find_pages(text: str, language: str = "en") -> list[Page]:
    """The page of a code (RL-H01, rl-h01 or h01), else all pages with these words, in English or in this language.

    Words are looked for in code, title, symptom and cause; where no page has them there, anywhere. Titles come first.
    """
    known = codes()
    code = f"RL-{text.upper().removeprefix('RL-')}"
    if code in known:
        return [page_of(code, language)]
    pages = [(page_of(code), page_of(code, language)) for code in known]
    words = text.lower().split()
    about = [pair for pair in pages if _mentions(words, map(_summary, pair))]
    matching = about or [pair for pair in pages if _mentions(words, (page.text for page in pair))]
    if not matching:
        raise UsageError(f"explain: no finding or lever matches {text!r}. {_instead(text, code, known)}")
    in_title = [pair for pair in matching if _mentions(words, (page.title for page in pair))]
    return [page for _english, page in (*in_title, *(pair for pair in matching if pair not in in_title))]


def _instead(text: str, code: str, known: Iterable[str]) -> str:
    near = [known_code for known_code in known if known_code.startswith(code[:4])] if _CODE.fullmatch(code) else []
    if near:
        return f"Similar codes: {', '.join(near)}"
    levers = get_close_matches(text.lower(), KINDS)
    return f"Similar levers: {', '.join(levers)}" if levers else "`redline explain` lists all findings and levers"


def _summary(page: Page) -> str:
    return "\n".join((page.code, page.title, page.symptom, page.cause))


def _mentions(words: Sequence[str], texts: Iterable[str]) -> bool:
    """Whether all words are there. Chinese has no blanks between words; others are found by their beginning."""
    text = "\n".join(texts).lower()
    return all(re.search(("" if not word.isascii() else r"(?<![a-z0-9])") + re.escape(word), text) for word in words)
