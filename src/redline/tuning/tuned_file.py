"""The file that a search leaves: the levers that it kept, for `redline run --with` and `redline compare --with`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from redline.artifacts import write_atomic
from redline.artifacts.file_kind import FileKind
from redline.capture.levers import parse_lever
from redline.tuning.tune_result import Ladder

NAME = "tuned.toml"
ENDING = ".toml"


@dataclass(frozen=True, kw_only=True)
class _Tuned:
    """The part of the file that is read."""

    levers: tuple[str, ...]


_TUNED = FileKind(
    "levers that were tuned",
    _Tuned,
    "give the tuned.toml that `redline tune` has written",
    most_bytes=64 << 10,
    is_toml=True,
)


def write_tuned(path: Path, command: str, ladder: Ladder) -> None:
    """What is known of them stands beside them, for people."""
    lines = [
        "# Made by `redline tune`. To have these levers in a job, without a change to its files:",
        f"#   redline run --with {path.name} -- COMMAND",
        f"command = {_quoted(command)}",
        "levers = [",
        *(f"    {_quoted(lever)}," for lever in ladder.levers),
        "]",
    ]
    if ladder.whole is not None and ladder.whole.decision is not None:
        known = ladder.whole.decision.estimate
        lines += [
            "",
            "[measured]  # change of the time of a step with all of them, and its interval of 95 %",
            f"change = {known.change:.6f}",
            f"low = {known.low:.6f}",
            f"high = {known.high:.6f}",
            f"pairs = {known.pairs}",
        ]
    with write_atomic(path, force=True) as file:
        file.write(("\n".join(lines) + "\n").encode())


def levers_of(words: Sequence[str]) -> tuple[str, ...]:
    """Each is a lever, or the name of a file that a search has left. Raises UsageError or InputError."""
    levers: list[str] = []
    for word in words:
        levers += _TUNED.read(Path(word)).levers if word.endswith(ENDING) else [word]
    return tuple(dict.fromkeys(str(parse_lever(lever)) for lever in levers))


def _quoted(text: str) -> str:
    """A basic string of TOML, which escapes as JSON does."""
    return json.dumps(text, ensure_ascii=False)
