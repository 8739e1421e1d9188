"""A file of a job that cannot be used: whatever goes wrong with one becomes an entry of a list, and ends nothing."""

import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import redline
from redline.artifacts.masking import masked
from redline.errors import InputError, OtherKindError, UnexpectedError, UsageError, first_line
from redline.storage import released_after
from redline.values import dataclass

Result = TypeVar("Result")
_PACKAGE = Path(redline.__file__).parent
_LONGEST_REASON = 120  # letters, so that reports do not cut off what follows


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A file, or a member of an archive, that could not be read or analysed."""

    path: str
    message: str
    traceback: str = ""  # where the failure is a bug in Redline
    costs_a_rank: bool = True  # not where the file is of another kind, or only a part of the report is missing

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", masked(self.message))  # it may quote the file


def attempted(work: Callable[[Path], Result], path: Path) -> Result | InputError:
    """The result of the work on one file, or why there is none: one bad file among a thousand ends nothing."""
    try:
        with released_after(path):
            return work(path)
    except UsageError:
        raise  # what was asked for makes no sense, on whatever file it shows
    except Exception as error:  # noqa: BLE001 (the work on a file begins here: a bug that it meets costs this file only)
        return explained(path, error)


def failure_of(path: Path, error: InputError) -> Failure:
    return Failure(
        path=str(path),
        message=str(error),
        traceback=getattr(error, "traceback", ""),
        costs_a_rank=not isinstance(error, OtherKindError),
    )


def unread_of(failures: Iterable[Failure]) -> int:
    """How many files could not be read in which ranks of the job should be."""
    return sum(failure.costs_a_rank for failure in failures)


def explained(path: Path, error: Exception) -> InputError:
    """Why a file cannot be used. Of a bug it says which exception was raised where: by the innermost line of ours."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, MemoryError):
        return InputError(f"{path}: there is not enough memory to read it.")
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents] or frames
    at = ours[-1]
    place = f"{Path(*Path(at.filename).parts[-3:])}:{at.lineno}, {at.name}"
    return UnexpectedError(
        f"{path}: Redline failed on it: {type(error).__name__}: {first_line(error)[:_LONGEST_REASON]} ({place}).\n"
        "This is a bug; please report this line, or all of what -v prints.",
        "".join(traceback.format_exception(error)),
    )
