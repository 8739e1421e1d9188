"""Translations from a .po file, compiled when they are first needed: what people edit is what the program reads."""

import gettext
import re
import struct
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

_LINE = re.compile(r'(?:(msgid|msgid_plural|msgstr)(?:\[(\d+)\])? )?"(.*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_MAGIC = 0x950412DE  # of .mo files, which is the one format that gettext reads


@cache
def translations(path: Path) -> gettext.GNUTranslations:
    return gettext.GNUTranslations(BytesIO(_compiled(dict(_messages(path.read_text(encoding="utf-8"))))))


def _messages(text: str) -> Iterator[tuple[str, str]]:
    """Texts with their translations; forms of a plural are joined by zeros, as in a .mo file."""
    for entry in text.split("\n\n"):
        parts: dict[str, list[str]] = defaultdict(list)
        key = ""
        for match in filter(None, map(_LINE.fullmatch, entry.splitlines())):
            keyword, form, quoted = match.groups()
            key = f"{keyword}{form or ''}" if keyword else key
            parts[key].append(_ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), quoted))
        said = {name: "".join(pieces) for name, pieces in parts.items()}
        texts = [said[name] for name in ("msgid", "msgid_plural") if name in said]
        forms = [said[name] for name in sorted(said) if name.startswith("msgstr")]
        if any(forms):
            yield "\0".join(texts), "\0".join(forms)


def _compiled(messages: dict[str, str]) -> bytes:
    """As a .mo file: a head, two tables of lengths and offsets, and the texts themselves."""
    ordered = sorted((text.encode(), translation.encode()) for text, translation in messages.items())
    texts = [text for text, _ in ordered] + [translation for _, translation in ordered]
    count, head = len(ordered), struct.calcsize("<7I")
    offset, table = head + 16 * count, []
    for text in texts:
        table += [len(text), offset]
        offset += len(text) + 1
    start = struct.pack("<7I", _MAGIC, 0, count, head, head + 8 * count, 0, head + 16 * count)
    return start + struct.pack(f"<{len(table)}I", *table) + b"".join(text + b"\0" for text in texts)
