"""The language of a report: English as it stands in the code, or another one from its gettext catalogue.

Texts are constants and the first argument of `_`, `ngettext` or `marked`, so that `scripts/update_catalogue.py` finds
them. A sentence is translated as a whole; its values are put in afterwards, by name.
"""

import gettext
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

from redline.report.po_file import translations

LANGUAGES: Final = {"en": "", "zh": "zh_CN"}  # the name of an option, and the folder of its catalogue
_FOLDER = Path(__file__).with_name("locale")
_spoken: ContextVar[tuple[str, gettext.NullTranslations]] = ContextVar(
    "spoken", default=("en", gettext.NullTranslations())
)


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Every text that is made inside is in this language, one of LANGUAGES."""
    folder = LANGUAGES[language]
    path = _FOLDER / folder / "LC_MESSAGES" / "redline.po"
    catalogue = translations(path) if folder else gettext.NullTranslations()
    token = _spoken.set((language, catalogue))
    try:
        yield
    finally:
        _spoken.reset(token)


def spoken() -> str:
    """The language that is spoken now."""
    return _spoken.get()[0]


def _(text: str) -> str:
    """The text in the language that is spoken now."""
    return _spoken.get()[1].gettext(text)


def ngettext(single: str, many: str, count: int) -> str:
    return _spoken.get()[1].ngettext(single, many, count)


def marked(text: str) -> str:
    """The text as it is, for constants: whoever shows it translates it."""
    return text


def translate_rendered(text: str, known: Sequence[str]) -> str:
    """A text that a lower layer put together, in the language that is spoken now where it is one of those known."""
    for template in known:
        pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>.*)", re.escape(template))
        match = re.fullmatch(pattern, text, re.DOTALL)
        if match:
            return _(template).format(**match.groupdict())
    return text


# --- putting texts together -------------------------------------------------------------------------------------------


def sentences(parts: Iterable[str]) -> str:
    """Whole sentences one after another, as the language that is spoken now writes them; empty ones are left out."""
    return ("" if spoken() == "zh" else " ").join(part for part in parts if part)


def sentence_of(text: str) -> str:
    """With the full stop of the language that is spoken now."""
    return _("{text}.").format(text=text)


def clauses(parts: Iterable[str]) -> str:
    """Parts of one sentence."""
    return _("; ").join(parts)


def listed(words: Iterable[str]) -> str:
    return _(", ").join(words)
