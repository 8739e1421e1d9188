"""What goes to stdout, to files and to the terminal, and how writing them may fail."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager

from redline.errors import OutputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from redline.job.read_failures import Failure


class ReaderLeft(Exception):  # noqa: N818 (nobody's error)
    """Whatever read our stdout closed it, as `head` does. Unlike BrokenPipeError, it is never another pipe's."""


@contextmanager
def for_stdout(output: str | None = None) -> Iterator[None]:
    """Every text that is made inside is as wide and colourful as stdout is; plain if it goes to a file instead."""
    from redline.report.display import PLAIN, display_of, displaying

    with displaying(display_of(sys.stdout) if output is None else PLAIN):
        yield


def show(text: str, *, is_safe: bool = False) -> None:
    """Write to stdout at once, so that failures surface here and not when the interpreter exits.

    Only what rich made from pages of our own is safe as it is.
    """
    if sys.stdout is None:
        raise OutputError("cannot write to standard output: it is closed")
    try:
        sys.stdout.write(text if is_safe else harmless(text, sys.stdout))
        sys.stdout.flush()
    except BrokenPipeError as error:
        _abandon_stdout()
        raise ReaderLeft from error
    except OSError as error:
        _abandon_stdout()
        raise OutputError(f"cannot write to standard output: {error.strerror}") from error


def complain(text: str, style: str = "") -> None:
    """Write lines to stderr; `style` is the name of a style, for a terminal that has colours."""
    from redline.artifacts.masking import masked

    print(harmless(_in_style(masked(text), style), sys.stderr), file=sys.stderr)


def _in_style(text: str, style: str) -> str:
    if not style or sys.stderr is None or not sys.stderr.isatty():
        return text
    from redline.report.display import Style, display_of, displaying, styled

    with displaying(display_of(sys.stderr)):
        return styled(text, Style[style])


def harmless(text: str, stream: object = None) -> str:
    """Nothing in names from strangers' files may reach the terminal as a command, whatever made the text.

    Marks of styles become colours where the stream has them.
    """
    if text.replace("\n", "").isprintable():
        return text
    from redline.report.display import MARKS, display_of

    if MARKS.intersection(text) and display_of(stream).has_colour:
        from redline.cli.paint import painted

        return painted(text)
    from redline.report.terminal import visible_lines

    return visible_lines(text)


def _abandon_stdout() -> None:
    """Send what is still buffered nowhere, or the interpreter fails again when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def tolerate_odd_names() -> None:
    """File names need not be valid text; show what cannot be encoded as escapes instead of failing."""
    import io

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def deliver(text: str, output: str | None, *, force: bool) -> None:
    """The result of a verb: into the file that the user named, or on stdout."""
    if output is None:
        show(text)
        return
    from redline.artifacts import write_atomic
    from redline.storage import path_of

    with write_atomic(path_of(output), force=force) as file:
        file.write(text.encode(errors="backslashreplace"))


def speaks_unicode(stream: object = None) -> bool:
    """Whether stdout does, or another stream; either may be closed."""
    encoding = getattr(stream or sys.stdout, "encoding", None) or ""
    return encoding.lower().replace("-", "").startswith("utf")


def quoted(words: Sequence[str], most: int = 3) -> str:
    import shlex

    return shlex.join(words[:most]) + (" ..." if len(words) > most else "")


def unused(name: str) -> str:
    from pathlib import Path

    return next(free for free in (name, *(f"{number}-{name}" for number in range(2, 1000))) if not Path(free).exists())


def point_to(command: str) -> None:
    remark(f"next: {command}", "LABEL")


def tell_tracebacks(failures: Sequence[Failure], *, verbose: bool) -> None:
    """With -v, where in Redline each bug was met."""
    for failure in failures if verbose else ():
        for line in failure.traceback.splitlines():
            remark(line)


def complain_at_length(message: str) -> None:
    """Names in a message may come from strangers' files, and be long; what is said of them is not cut off with them."""
    import re

    message = re.sub(r"\S{400,}", lambda word: f"{word[0][:100]}...", message)
    lines = (f"{line[:997]}..." if len(line) > 1000 else line for line in message.split("\n"))
    complain("redline: " + "\n".join(lines), "ERROR")


def code_of_read(read: int, failures: Sequence[Failure]) -> int:
    """The exit code of a result of so many ranks or devices: 2, and it is said, where more files could not be read."""
    from redline.errors import InputError
    from redline.job.read_failures import unread_of

    unread = unread_of(failures)
    if unread <= read:
        return 0
    complain(f"redline: {unread:,} of {read + unread:,} files could not be read: what is said is about the others")
    return InputError.exit_code


def remark(text: str, style: str = "SECONDARY") -> None:
    """One line that is not part of the result."""
    complain(text.replace("\n", " ")[:1000], style)
