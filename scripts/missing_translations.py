"""List what has no Chinese yet, before a release: `python -m scripts.missing_translations`.

A contribution may be in English only: its pages and texts are shown in English meanwhile. Exits with 1 if there is any.
"""

import sys
from collections.abc import Iterator

from redline.findings.pages import codes
from redline.report.language import LANGUAGES
from scripts import update_catalogue


def missing_pages() -> Iterator[str]:
    for language in LANGUAGES:
        for code in sorted(set(codes()) - set(codes(language))):
            yield f"{language}: no page of {code}: write docs/findings/{code}.zh-CN.md"


def missing_texts() -> Iterator[str]:
    wanted = {str(message.id) for message in update_catalogue.messages(update_catalogue.extracted())}
    for language, path in update_catalogue.languages():
        catalogue = update_catalogue.read(path, language)
        known = {str(message.id) for message in update_catalogue.messages(catalogue)}
        for text in sorted((wanted - known) | (set(update_catalogue.untranslated(catalogue)) & wanted)):
            yield f"{language}: not translated: {text}"
        if known - wanted:
            yield f"{language}: {len(known - wanted)} translations of texts that are gone"


def main() -> int:
    missing = [*missing_pages(), *missing_texts()]
    if missing:
        missing.append("run scripts/update_catalogue.py, translate what it names, and run it again")
    print("\n".join(missing or ["everything is translated"]))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
