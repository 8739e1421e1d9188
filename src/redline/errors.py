"""Every failure Redline expects, as one tree; each class carries its exit code. Imports nothing of ours.

RedlineError                  2   anything expected to go wrong
├── UsageError                2   what was asked for makes no sense
│   └── ParameterError        2   one parameter of it does not
├── InputError                2   a file cannot be used
│   ├── NotATraceError        2   the content is not a PyTorch trace
│   │   └── OtherKindError    2   and whole, so no rank is missing for it
│   ├── RefusedInputError     2   inflates or nests beyond the limits
│   ├── DamagedError          2   damage was found, and none was to be tolerated
│   ├── ClockError            2   the ranks' clocks cannot be aligned
│   ├── UnknownHardwareError  2   no record of the catalogue fits, or more than one
│   ├── StorageError          2   a store does not give what was asked of it
│   └── UnexpectedError       2   a bug in Redline that one file brings out
└── OutputError               2   a result cannot be written

A message is one or two lines: what failed, in which file, why, and what to do about it.
A parameter that would help is named as in Python, `force=True`; the command line spells it as its option.
"""


class RedlineError(Exception):
    """An expected failure: shown as its message, never as a traceback."""

    exit_code = 2


class UsageError(RedlineError):
    """What was asked for makes no sense."""


class ParameterError(UsageError):
    """One parameter makes no sense. The message begins with its name, so that the command line can name its option."""

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"{parameter}{problem}")
        self.parameter = parameter
        self.problem = problem

    def __reduce__(self) -> tuple[type["ParameterError"], tuple[str, str]]:
        return type(self), (self.parameter, self.problem)


class InputError(RedlineError):
    """A file cannot be used."""


class NotATraceError(InputError):
    """The content is not a PyTorch trace."""


class OtherKindError(NotATraceError):
    """The content is whole and of another kind than a trace: no rank is missing for it."""


class RefusedInputError(InputError):
    """The content inflates or nests beyond the limits."""


class DamagedError(InputError):
    """Damage was found and the user asked to be strict about it."""


class ClockError(InputError):
    """The ranks' clocks cannot be aligned well enough to merge them."""


class UnknownHardwareError(InputError):
    """No record of the catalogue fits a device or a name, or more than one does."""


class StorageError(InputError):
    """A store cannot be used, or does not give what was asked of it; what cannot be put there is an OutputError."""


class UnexpectedError(InputError):
    """A bug of Redline that one file brings out; the message has what a report of it needs."""

    def __init__(self, message: str, traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = traceback


class OutputError(RedlineError):
    """A result cannot be written."""


def first_line(error: BaseException) -> str:
    """What went wrong, in one line that is short enough for a table."""
    text = str(error).strip().split("\n", maxsplit=1)[0]
    return (text or type(error).__name__)[:200]
