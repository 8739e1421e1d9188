"""A record as JSON for people and programs: no letter in it does anything to a terminal, and every number is one."""

import json
import re
from collections.abc import Mapping

from redline.report.terminal import is_hidden

_NOT_ASCII = re.compile(r"[^ -~\n]")


def json_text(record: Mapping[str, object]) -> str:
    """Hidden letters as escapes, all others as they are. ValueError where a number is infinite or none."""
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    return text if text.isascii() and "\x7f" not in text else _NOT_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """All that is not ASCII stands inside of strings, where an escape means the same."""
    return json.dumps(match[0])[1:-1] if is_hidden(match[0]) else match[0]
