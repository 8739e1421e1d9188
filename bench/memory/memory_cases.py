"""Labelled cases of memory: a script with one flaw, and its healthy twin."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

JOB = Path(__file__).with_name("memory_job.py")
SET_ASIDE = Path(__file__).with_name("set_aside.toml")
_CODES = {
    "keeps": "RL-M02",
    "activations": "RL-M03",
    "attention": "RL-M03",
    "logits": "RL-M04",
    "cleared": "RL-M05",
    "foreach": "RL-M06",
    "uneven": "RL-M08",
    "states": "RL-M09",
    "left": "RL-M10",
    "padded": "RL-M11",
}
"""By the first word of an open case."""
_LABELS = {
    "leak": "RL-M02",
    "activations": "RL-M03",
    "logits": "RL-M04",
    "stale gradients": "RL-M05",
    "optimizer temporaries": "RL-M06",
    "uneven ranks": "RL-M08",
    "replicated states": "RL-M09",
    "previous step alive": "RL-M10",
    "padding": "RL-M11",
}
"""By what is said of those that were set aside."""


@dataclass(frozen=True, kw_only=True)
class MemoryCase:
    """`words` run it, and then comes the side: flawed or healthy."""

    name: str
    code: str
    ranks: int
    words: tuple[str, ...]


def open_cases() -> Iterator[MemoryCase]:
    """Those that the rules were written with."""
    from bench.memory.memory_job import PAIRS

    for name, (job, _) in PAIRS.items():
        yield MemoryCase(name=name, code=_CODES[name.partition("_")[0]], ranks=job.ranks, words=(str(JOB), name))


def cases_set_aside(path: Path = SET_ASIDE) -> Iterator[MemoryCase]:
    """Scripts in the folder beside the file, written by somebody who did not know the rules."""
    for told in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
        script = path.with_suffix("") / f"{told['name']}.py"
        yield MemoryCase(name=told["name"], code=_LABELS[told["label"]], ranks=told["ranks"], words=(str(script),))
