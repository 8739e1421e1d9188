"""Collect all texts of the reports, and merge them into the translations: run it after changing a text.

`python scripts/update_catalogue.py` writes `src/redline/report/locale`: `redline.pot` with all texts, and for each
language `redline.po`, which people edit and the program reads. Translations of texts that are no longer there go away.
It prints what has no translation yet, and exits with 1 if there is such.
"""

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "redline"
FOLDER = SOURCES / "report" / "locale"
TEMPLATE = FOLDER / "redline.pot"
METHODS = [("report/**.py", "python"), ("findings/**.py", "python"), ("report/html/**.j2", "jinja2")]
KEYWORDS: dict[str, tuple[int, ...] | None] = {
    "_": None,
    "ngettext": (1, 2),
    "marked": None,
    "Evidence": (1,),
    "says": (1,),
}
_NO_DATE = datetime(2026, 1, 1, tzinfo=UTC)  # so that the same texts make the same files
_VARYING = (
    "POT-Creation-Date",
    "PO-Revision-Date",
    "Last-Translator",
    "Generated-By",
    "Report-Msgid-Bugs-To",
    "Language-Team",
)


def extracted() -> Catalog:
    """All texts of the reports."""
    catalog = Catalog(project="redline-perf", version="1", charset="utf-8")
    catalog.header_comment = "# Texts of the reports, by scripts/update_catalogue.py."
    found = extract_from_dir(str(SOURCES), METHODS, keywords=KEYWORDS, strip_comment_tags=True)
    for _name, _line, text, _comments, _context in found:
        catalog.add(text)
    return catalog


def languages() -> Iterator[tuple[str, Path]]:
    for path in sorted(FOLDER.glob("*/LC_MESSAGES")):
        yield path.parent.name, path / "redline.po"


def messages(catalog: Catalog) -> Iterator[Message]:
    return (message for message in catalog if message.id)


def read(path: Path, language: str | None = None) -> Catalog:
    return read_po(BytesIO(path.read_bytes()), locale=language)


def merged(path: Path, language: str, template: Catalog) -> Catalog:
    catalog = read(path, language) if path.exists() and path.stat().st_size else Catalog(locale=language)
    catalog.header_comment = (
        f"# {language} of the texts of the reports. Edit this file, then run scripts/update_catalogue.py."
    )
    catalog.project, catalog.version = template.project, template.version
    catalog.creation_date = catalog.revision_date = _NO_DATE
    catalog.update(template, no_fuzzy_matching=True, update_creation_date=False)
    catalog.obsolete.clear()
    return catalog


def untranslated(catalog: Catalog) -> list[str]:
    return [str(message.id) for message in messages(catalog) if not message.string or not all(message.string)]


def write(catalog: Catalog, path: Path) -> None:
    """Without what changes although no text has changed: neither places nor the order of modules."""
    catalog.fuzzy = False  # the header
    for message in messages(catalog):
        message.flags.discard("python-format")  # every percent sign is one
    written = BytesIO()
    write_po(written, catalog, width=120, sort_output=True, no_location=True)
    lines = written.getvalue().decode().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(tuple(f'"{name}: ' for name in _VARYING))]
    path.write_text("".join(kept), encoding="utf-8")


def main() -> int:
    template = extracted()
    FOLDER.mkdir(exist_ok=True)
    write(template, TEMPLATE)
    missing = []
    for language, path in languages():
        catalog = merged(path, language, template)
        write(catalog, path)
        missing += [f"{language}: {text}" for text in untranslated(catalog)]
    print(
        "\n".join([*missing, f"{len(missing)} texts have no translation"] if missing else ["all texts are translated"])
    )
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
