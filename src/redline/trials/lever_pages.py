"""The pages of levers: what each changes and risks, how that is proven, and how to keep it, in English or Chinese.

They are documents under docs/levers; the wheel carries them beside this module.
"""

from dataclasses import dataclass
from pathlib import Path

from redline.capture.lever_kinds import KINDS
from redline.findings.pages import ENDINGS, split_page

SECTIONS = {
    "changes": ("What it changes", "改变什么"),
    "moment": ("When it is applied", "何时生效"),
    "findings": ("Which findings suggest it", "哪些发现建议它"),
    "numerics": ("Numerics", "数值影响"),
    "risk": ("Risk", "风险"),
    "order": ("Conflicts and order", "冲突与顺序"),
    "proof": ("How its effect is proven", "如何证明它生效"),
    "keep": ("How to keep it", "如何保留"),
    "limits": ("Where it cannot run", "何处不能运行"),
    "sources": ("Sources", "来源"),
}
"""Parts of a page in their order, with their headings in English and in Chinese."""

_IN_WHEEL = Path(__file__).with_name("lever_documents")
_IN_CHECKOUT = Path(__file__).parents[3] / "docs" / "levers"


@dataclass(frozen=True, kw_only=True)
class LeverPage:
    """What is to be said of a kind of lever, whatever the job; Markdown."""

    name: str
    title: str  # in the imperative
    changes: str
    moment: str
    findings: str
    numerics: str
    risk: str
    order: str
    proof: str
    keep: str  # the lines to paste
    limits: str
    sources: str
    text: str  # the whole page


def lever_page_of(name: str, language: str = "en") -> LeverPage:
    """Of a kind of lever, such as `fused` or `env:NAME`; in English where the page has not been translated."""
    path = folder() / f"{short_name(name)}{ENDINGS[language]}"
    if language != "en" and not path.exists():
        return lever_page_of(name)
    text = path.read_text(encoding="utf-8")
    page = split_page(text, language, SECTIONS, "lever")
    return LeverPage(name=page.name, title=page.title, text=text, **page.parts)


def kind_meant(text: str) -> str | None:
    """The kind of lever that a person means by `Fused`, `workers=4` or `env:OMP_PROC_BIND`, if any."""
    name = short_name(text.partition("=")[0].lower())
    return next((kind for kind in KINDS if short_name(kind) == name), None)


def short_name(name: str) -> str:
    """The file of a lever is called so, and people may type it: `env` for `env:NAME`."""
    return name.partition(":")[0]


def folder() -> Path:
    """Where the pages are: in a checkout they are documents like the others."""
    return _IN_WHEEL if _IN_WHEEL.is_dir() else _IN_CHECKOUT
