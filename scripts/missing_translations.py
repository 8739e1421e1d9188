"""List what has no Chinese yet, before a release: `python -m scripts.missing_translations`.

A contribution may be in English only: its pages and texts are shown in English meanwhile. Exits with 1 if there is
anything to do before a release. Pages of the documentation that nobody has translated are listed, and are no reason.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml

from redline.findings.pages import codes
from redline.report.language import LANGUAGES
from scripts import update_catalogue
from scripts.copy_commands import BLOCK, ROOT, TRANSLATED, translations
from scripts.docs_site import headings_of

DOCS = ROOT / "docs"


def missing_pages() -> Iterator[str]:
    for language in LANGUAGES:
        for code in sorted(set(codes()) - set(codes(language))):
            yield f"{language}: no page of {code}: write docs/findings/{code}.zh-CN.md"


def missing_texts() -> Iterator[str]:
    wanted = {str(message.id) for message in update_catalogue.messages(update_catalogue.extracted())}
    for language, path in update_catalogue.languages():
        catalogue = update_catalogue.read(path, language)
        known = {str(message.id) for message in update_catalogue.messages(catalogue)}
        missing = sorted((wanted - known) | (set(update_catalogue.untranslated(catalogue)) & wanted))
        yield from (f"{language}: not translated: {text}" for text in missing)
        if known - wanted:
            yield f"{language}: {len(known - wanted)} translations of texts that are gone"
        if missing or known - wanted:
            yield "run scripts/update_catalogue.py, translate what it names, and run it again"


def lagging_pages() -> Iterator[str]:
    """Translated pages that lack a part of their English one."""
    for page, original in translations().items():
        here, there = shape_of(page), shape_of(original)
        differing = [
            f"{there[part]} {part} in English, {here[part]} here" for part in here if here[part] != there[part]
        ]
        if differing:
            yield f"zh: {page.relative_to(ROOT)} lags behind: {'; '.join(differing)}"


def shape_of(page: Path) -> dict[str, int]:
    text = page.read_text(encoding="utf-8")
    return {
        "headings": len(headings_of(text)),
        "blocks of commands": len(BLOCK.findall(text)),
        "rows of tables": len(re.findall(r"^\|", text, re.MULTILINE)),
    }


def missing_titles() -> Iterator[str]:
    """Of the navigation; a verb is called the same in every language."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (chinese,) = (names for one in site["plugins"]["i18n"]["languages"] if (names := one.get("nav_translations")))
    for title in titles_of(site["nav"]):
        if title not in chinese and not title.islower():
            yield f"zh: mkdocs.yml has no nav_translations for {title!r}"


def titles_of(nav: object) -> Iterator[str]:
    for section in nav if isinstance(nav, list) else []:
        for title, inner in section.items():
            yield title
            yield from titles_of(inner)


def english_only() -> list[str]:
    pages = [
        page for page in DOCS.rglob("*.md") if page.parent.name != "findings" and not page.name.endswith(TRANSLATED)
    ]
    return sorted(str(page.relative_to(DOCS)) for page in pages if not page.with_suffix(TRANSLATED).exists())


def main() -> int:
    missing = [*missing_pages(), *missing_texts(), *lagging_pages(), *missing_titles()]
    print("\n".join(missing or ["everything that was translated is complete"]))
    print(f"in English only, which is no reason to wait: {', '.join(english_only())}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
