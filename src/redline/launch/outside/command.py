"""From what the user typed to the command that starts the job: plain Python, or torchrun with its own options."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from redline.errors import UsageError

# Options of torchrun that take a value, and those that do not; they are handed on as they are.
_WITH_VALUE = (
    "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
    "monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee",
    "local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "logs-specs",
    "duplicate-stdout-filters", "duplicate-stderr-filters", "shutdown-timeout", "numa-binding", "signals-to-handle",
)  # fmt: skip
_WITHOUT_VALUE = ("standalone", "virtual-local-rank", "no-python", "run-path")
_NOT_OURS = {"no-python": "only Python programs can be watched", "run-path": "give the script itself"}
MODULE = ("-m", "--module")


@dataclass(frozen=True, kw_only=True)
class Command:
    """How the job is started."""

    arguments: tuple[str, ...]
    elastic: bool
    """By torchrun."""
    processes: int
    """On this machine."""
    restarts: int
    """How often torchrun may start the processes anew."""
    script: str
    """As the user named it."""
    job: str | None = None
    """What the machines of a job have in common, where there are several."""


def split(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Options of Redline, options of torchrun, and the script with its own arguments.

    The script begins after `--`, or at the first word that is no option.
    """
    ours: list[str] = []
    torchrun: list[str] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return ours, torchrun, list(words[at + 1 :])
        if word in MODULE:
            return ours, torchrun, list(words[at:])
        taken = _torchrun_words(word)
        if taken:
            name = _option_name(word)
            if name in _NOT_OURS:
                raise UsageError(f"run: --{name} of torchrun does not go with Redline: {_NOT_OURS[name]}")
            torchrun += words[at : at + taken]
        elif word.startswith("-"):
            taken = 2 if _takes_value(word) else 1
            ours += words[at : at + taken]
        else:
            return ours, torchrun, list(words[at:])
        at += taken
    return ours, torchrun, []


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Words for Redline and options of torchrun, of a verb that starts no script of the user.

    Options that are about a script are not taken for torchrun's.
    """
    ours: list[str] = []
    torchrun: list[str] = []
    at = 0
    while at < len(words):
        taken = 0 if _option_name(words[at]) in _NOT_OURS else _torchrun_words(words[at])
        (torchrun if taken else ours).extend(words[at : at + max(taken, 1)])
        at += max(taken, 1)
    return ours, torchrun


def _torchrun_words(word: str) -> int:
    """How many words an option of torchrun is with its value; 0 for what is no such option."""
    name = _option_name(word)
    if not word.startswith("--") or name not in (*_WITH_VALUE, *_WITHOUT_VALUE):
        return 0
    return 1 if "=" in word or name in _WITHOUT_VALUE else 2


def _option_name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0].replace("_", "-")


_OWN_WITH_VALUE = (
    "-o", "--output", "--after", "--steps", "--every", "--when", "--budget", "--keep", "--max-disk",
    "--max-memory", "--stall-after", "--lang", "--capture-signal",
)  # fmt: skip


def _takes_value(word: str) -> bool:
    return word in _OWN_WITH_VALUE


def command(torchrun: Sequence[str], job: Sequence[str]) -> Command:
    """The command of a job: `job` is a script or `-m module`, with its arguments."""
    if not job or (job[0] in MODULE and len(job) < 2):
        raise UsageError(
            "run: which script? give it after the options, such as: redline run -- train.py --its-own args"
        )
    script = job[1] if job[0] in MODULE else job[0]
    if not torchrun:
        words = ["-m", *job[1:]] if job[0] in MODULE else [*job]
        return Command(arguments=(sys.executable, *words), elastic=False, processes=1, restarts=0, script=script)
    return Command(
        arguments=(sys.executable, "-m", "torch.distributed.run", *torchrun, *job),
        elastic=True,
        processes=_processes(_value(torchrun, "nproc-per-node", "1")),
        restarts=int(_value(torchrun, "max-restarts", "0") or 0),
        script=script,
        job=None if _value(torchrun, "nnodes", "1") == "1" else _value(torchrun, "rdzv-id", "") or None,
    )


def _value(torchrun: Sequence[str], name: str, default: str) -> str:
    for at, word in enumerate(torchrun):
        option, _, value = word.partition("=")
        if option.startswith("--") and option[2:].replace("_", "-") == name:
            return value if "=" in word else torchrun[at + 1] if at + 1 < len(torchrun) else default
    return default


def _processes(text: str) -> int:
    """How many processes torchrun will start here; for its words, at least as many as it could mean."""
    import os

    if text.isdecimal():
        return int(text)
    return max(64, os.cpu_count() or 1)
