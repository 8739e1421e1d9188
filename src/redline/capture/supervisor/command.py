"""From what the user typed to the command that starts the job: plain Python, or torchrun with its own options."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from redline.capture.supervisor import torchrun as of_torchrun
from redline.errors import UsageError

MODULE = ("-m", "--module")
PYTHON_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")  # options of Python
_BLINDING = set("EIS")


@dataclass(frozen=True, kw_only=True)
class Command:
    """How the job is started."""

    arguments: tuple[str, ...]
    elastic: bool  # by torchrun
    processes: int  # on this machine
    restarts: int  # how often torchrun may start the processes anew
    script: str  # the script or module, named as the user did
    blind: str = ""
    """The option of Python with which it does not look where we ask it to, so that the job cannot be watched."""
    job: str | None = None  # a name that the machines of a job have in common, where there are several


def split(words: Sequence[str], with_value: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Options of Redline, of which some take a value, options of torchrun, and the script with its own arguments.

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
        taken = of_torchrun.words_of(word)
        if taken:
            of_torchrun.refuse_about_a_script(word)
            torchrun += words[at : at + taken]
        elif word.startswith("-"):
            taken = 2 if word in with_value else 1
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
        taken = 0 if of_torchrun.is_about_a_script(words[at]) else of_torchrun.words_of(words[at])
        (torchrun if taken else ours).extend(words[at : at + max(taken, 1)])
        at += max(taken, 1)
    return ours, torchrun


def command(torchrun: Sequence[str] | None, job: Sequence[str], of_python: Sequence[str] = ()) -> Command:
    """The command of a job: `job` is a script or `-m module`, with its arguments; None without torchrun."""
    if not job or (job[0] in MODULE and len(job) < 2):
        raise UsageError(
            "run: which script? give it after the options, such as: redline run -- train.py --its-own args"
        )
    is_module = job[0] in MODULE
    script = job[1] if is_module else job[0]
    python = (sys.executable, *of_python)
    if torchrun is None:
        words = ("-m", *job[1:]) if is_module else tuple(job)
        blind = next((word for word in of_python if is_blinding(word)), "")
        return Command(arguments=(*python, *words), elastic=False, processes=1, restarts=0, script=script, blind=blind)
    restarts = of_torchrun.value(torchrun, "max-restarts", "0")
    several = of_torchrun.value(torchrun, "nnodes", "1") != "1"
    return Command(
        arguments=(*python, "-m", of_torchrun.MODULE, *torchrun, *job),
        elastic=True,
        processes=of_torchrun.processes(torchrun),
        restarts=int(restarts) if restarts.isdecimal() else 0,  # of what is no number torchrun complains
        script=script,
        job=(of_torchrun.value(torchrun, "rdzv-id", "") or None) if several else None,
    )


def is_blinding(word: str) -> bool:
    """True of an option of Python that has it ignore its environment, or what it finds there."""
    return not word.startswith(("--", *PYTHON_WITH_VALUE)) and word.startswith("-") and bool(_BLINDING & set(word))
