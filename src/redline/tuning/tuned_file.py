"""The file that a search leaves: the levers that it kept, for `redline run --with` and `redline compare --with`."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from redline.artifacts import read_whole, write_atomic
from redline.errors import InputError
from redline.launch.levers import parse_lever
from redline.tuning.tune_result import Ladder

NAME = "tuned.toml"
ENDING = ".toml"
_MOST_BYTES = 1 << 20


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
        levers += _read_tuned(Path(word)) if word.endswith(ENDING) else [word]
    return tuple(dict.fromkeys(str(parse_lever(lever)) for lever in levers))


def _read_tuned(path: Path) -> list[str]:
    text = read_whole(path, _MOST_BYTES, "levers that were tuned").decode(errors="replace")
    try:
        levers = tomllib.loads(text).get("levers")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}; give the tuned.toml that `redline tune` has written") from None
    if not isinstance(levers, list) or not all(isinstance(lever, str) for lever in levers):
        raise InputError(f"{path} has no list of levers; give the tuned.toml that `redline tune` has written")
    return levers


def _quoted(text: str) -> str:
    """A basic string of TOML, which escapes as JSON does."""
    return json.dumps(text, ensure_ascii=False)
