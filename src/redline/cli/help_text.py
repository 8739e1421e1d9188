"""Help on a terminal that is narrower than its lines: broken where words end, and under the text that they continue."""

import re
import textwrap
from itertools import groupby

_COLUMN = re.compile(r" *\S+ {2,}|usage: (?:redline \S+ )?| *")


def folded(text: str, columns: int) -> str:
    """Lines of prose that follow each other are one paragraph; rows and indented lines are broken one by one."""
    lines: list[str] = []
    for is_prose, part in groupby(text.split("\n"), key=_is_prose):
        block = list(part)
        if max(map(len, block)) <= columns:
            lines += block
        elif is_prose:
            lines += textwrap.wrap(" ".join(block), columns, break_on_hyphens=False)
        else:
            lines += [piece for line in block for piece in _broken(line, columns)]
    return "\n".join(lines)


def _is_prose(line: str) -> bool:
    return bool(line) and not line.startswith((" ", "usage: "))


def _broken(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    start = _COLUMN.match(line)
    indent = " " * (start.end() if start else 0)
    return textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)
