"""A program that is started again and again to be compared: what a user typed, and with which changes."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redline.capture.supervisor.command import Command, command
from redline.capture.supervisor.command_line import understood
from redline.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class TrialCommand:
    """A command to start, and the changes that it is started with."""

    words: tuple[str, ...]  # as they were typed, without the environment
    environment: tuple[tuple[str, str], ...] = ()  # in addition to that of this process
    kept: tuple[str, ...] = ()  # levers that are on all the time, on both sides of a comparison
    levers: tuple[str, ...] = ()  # those that are tried
    python: Command | None = None  # None where it cannot be watched: then it has neither steps nor numbers
    why_unwatched: str = ""
    folder: Path = field(default_factory=Path.cwd)  # where a user would start it

    def __str__(self) -> str:
        typed = shlex.join([*(f"{name}={value}" for name, value in self.environment), *self.words])
        return f"{typed} with {' '.join(self.kept)}" if self.kept else typed

    @property
    def with_levers(self) -> str:
        """The command with the levers that are on."""
        joined = " ".join(self.levers)
        return f"{self} {'and' if self.kept else 'with'} {joined}" if joined else str(self)


def trial_command(words: Sequence[str], levers: Sequence[str] = (), folder: Path | None = None) -> TrialCommand:
    """Read a command line that may begin with settings of the environment."""
    rest = list(words)
    environment: list[tuple[str, str]] = []
    while rest and "=" in rest[0] and rest[0].partition("=")[0].isidentifier():
        name, _, value = rest.pop(0).partition("=")
        environment.append((name, value))
    if not rest:
        raise UsageError("compare: which command? a program is a command line, such as 'python train.py'")
    python, why = _python_command(tuple(rest))
    return TrialCommand(
        words=tuple(rest),
        environment=tuple(environment),
        levers=tuple(levers),
        python=python,
        why_unwatched=why,
        folder=folder or Path.cwd(),
    )


def _python_command(words: tuple[str, ...]) -> tuple[Command | None, str]:
    """How it is started so that it can be watched; None, and why not, where it cannot be."""
    try:
        typed = understood((), words)
        known = command(typed.torchrun, typed.job, typed.of_python)
    except UsageError as error:
        return None, str(error).removeprefix("run: ")
    return (None, f"python {known.blind} cannot be watched") if known.blind else (known, "")
