"""The options of torchrun: which there are, and what the ones that were given say."""

from __future__ import annotations

import os
from collections.abc import Sequence

from redline.errors import UsageError

MODULE = "torch.distributed.run"

# They are handed on as they are.
WITH_VALUE = (
    "nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "max-restarts",
    "monitor-interval", "start-method", "event-log-handler", "role", "log-dir", "redirects", "tee",
    "local-ranks-filter", "node-rank", "master-addr", "master-port", "local-addr", "logs-specs",
    "duplicate-stdout-filters", "duplicate-stderr-filters", "shutdown-timeout", "numa-binding", "signals-to-handle",
)  # fmt: skip
WITHOUT_VALUE = ("standalone", "virtual-local-rank", "no-python", "run-path")
_SHORT = ("-r", "-t")  # after the word torchrun; elsewhere they might be somebody else's
_ABOUT_A_SCRIPT = {"no-python": "only Python programs can be watched", "run-path": "give the script itself"}


def words_of(word: str, short: bool = False) -> int:
    """How many words an option of torchrun is with its value; 0 for what is no such option."""
    if short and word[:2] in _SHORT:
        return 2 if word in _SHORT else 1
    name = option_name(word)
    if not word.startswith("--") or name not in (*WITH_VALUE, *WITHOUT_VALUE):
        return 0
    return 1 if "=" in word or name in WITHOUT_VALUE else 2


def option_name(word: str) -> str:
    return word.removeprefix("--").partition("=")[0].replace("_", "-")


def is_about_a_script(word: str) -> bool:
    return option_name(word) in _ABOUT_A_SCRIPT


def refuse_about_a_script(word: str) -> None:
    name = option_name(word)
    if name in _ABOUT_A_SCRIPT:
        raise UsageError(f"run: --{name} of torchrun does not go with Redline: {_ABOUT_A_SCRIPT[name]}")


def value(options: Sequence[str], name: str, default: str) -> str:
    """The value that torchrun reads: what was typed last, else what the environment says."""
    text = os.environ.get("PET_" + name.upper().replace("-", "_"), default)
    for at, word in enumerate(options):
        if word.startswith("--") and option_name(word) == name:
            text = word.partition("=")[2] if "=" in word else options[at + 1] if at + 1 < len(options) else text
    return text


def processes(options: Sequence[str]) -> int:
    """How many processes torchrun will start here; for its words, at least as many as it could mean."""
    text = value(options, "nproc-per-node", "1")
    return int(text) if text.isdecimal() else max(64, os.cpu_count() or 1)
