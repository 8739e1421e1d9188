"""Copy commands, their output and code from English pages to translated ones: `python -m scripts.copy_commands`.

Only English pages are executed, so what a translated page shows must stand on the English one. Run this after a change
to an English page; it needs no Chinese. A block that is new in English is left to a translator.
"""

import re
import sys
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).parents[1]
TRANSLATED = ".zh-CN.md"
BLOCK = re.compile(r"(?:^<!-- file: \S+ -->\n+)?^```(?:console|python|sh|text)\n.*?^```$\n?", re.MULTILINE | re.DOTALL)


def translations() -> dict[Path, Path]:
    """Translated pages with their English ones. Pages of findings hold code that no test runs."""
    pages = [ROOT / f"README{TRANSLATED}", *sorted((ROOT / "docs").rglob(f"*{TRANSLATED}"))]
    return {
        page: page.with_name(page.name.replace(TRANSLATED, ".md")) for page in pages if page.parent.name != "findings"
    }


def blocks_of(text: str) -> list[str]:
    return [match[0] for match in BLOCK.finditer(text)]


def unknown_blocks(translated: str, english: str) -> list[str]:
    """What a translated page shows and its English one does not."""
    known = blocks_of(english)
    return [block for block in blocks_of(translated) if block not in known]


def renewed(translated: str, english: str) -> str:
    """The translated page with the blocks of the English one in the same places."""
    old, new = blocks_of(translated), blocks_of(english)
    for block, replacement in _changed(old, new):
        translated = translated.replace(block, replacement, 1)
    return translated


def _changed(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    for kind, first, last, other_first, other_last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "delete":
            yield from ((block, "") for block in old[first:last])
        elif kind == "replace":
            count = min(last - first, other_last - other_first)
            yield from zip(old[first : first + count], new[other_first : other_first + count], strict=True)


def main() -> int:
    for page, original in translations().items():
        text = page.read_text(encoding="utf-8")
        copied = renewed(text, original.read_text(encoding="utf-8"))
        if copied != text:
            page.write_text(copied, encoding="utf-8")
            print(page.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
