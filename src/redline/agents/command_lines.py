"""The exact command line that shows what an answer claims, for a shell in any folder."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path


def command_line(*words: str, paths: Sequence[Path] = (), options: Mapping[str, object] | None = None) -> str:
    """`redline` with these words and paths; options without a value are left out, True stands for a flag."""
    given = [(name, value) for name, value in (options or {}).items() if value not in {None, False}]
    spelt = [word for name, value in given for word in ([name] if value is True else [name, str(value)])]
    return shlex.join(["redline", *words, *map(str, paths), *spelt])
