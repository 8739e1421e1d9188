"""Tell an exception that reached our code from outside from one that was raised by a call of ours.

The script may have put its own functions in the place of whatever we call (`open`, `os.fork`, a fake file system), and
its audit hooks are asked about our calls. So frames of the script in a traceback say nothing: what such calls raise
would not have been raised without us, and must never reach the script. What would have been raised without us came
between two instructions, and only there Python looks whether a signal or another thread has something to raise:

- **A handler of a signal** is the only function that is called with the very frame that it interrupts. So is a function
  that `sys.settrace` has set, which some use to end threads. A handler that has lost the frame (it walked up the stack
  with the same name) is still known by its code while it is set.
- **An exception set from another thread**, or by the handler that Python has for Ctrl-C, has no frame of its own: it is
  made of its class alone, where no `raise` stands. Calls in C raise without a `raise` as well, but they say what was
  wrong: their exceptions have arguments. Those that have none are `_WITHOUT_WORDS`.

Not told apart: a handler that is written in C and raises an exception with arguments is taken for a call of ours; and a
function of the script that we call, and that calls `sys.exit()` without an argument, for another thread.
"""

from __future__ import annotations

import sys
from opcode import opmap
from signal import getsignal, valid_signals

TYPE_CHECKING = False  # this runs in the user's process: it imports next to nothing
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, TracebackType

_RAISES = (opmap["RAISE_VARARGS"], opmap["RERAISE"])
_WITHOUT_WORDS = (MemoryError, StopIteration, StopAsyncIteration, Warning)
NO_ROOM = (RecursionError, MemoryError)  # on the script's stack or in its memory, not even to tell whose they are
_TAKES_MORE = 0x04  # of the flags of code: it has an argument such as *args
NOT_THE_SCRIPTS = {"redline", "torch", *sys.stdlib_module_names}


def arrived(error: BaseException) -> BaseException | None:
    """The exception that came from outside: this one, or the one that another took the place of. None for ours.

    It raises nothing itself, as far as that can be: where no stack or memory is left to tell, only what ends a process
    is taken for the script's.
    """
    found = None if isinstance(error, Exception) else error
    try:
        found = _first_arrived(error)
    except BaseException as another:  # noqa: BLE001 (it may have come from outside, too)
        try:
            return _first_arrived(another) or found
        except BaseException:  # noqa: BLE001
            return found
    return found


def pass_on(error: BaseException) -> None:
    """Raise what came from outside, as if we had not been in between; nothing of ours."""
    found = arrived(error)
    if found is not None:
        _raise(found)


def _raise(found: BaseException) -> None:
    context = found.__context__
    try:
        raise found
    finally:
        found.__context__ = context


class tolerated:  # noqa: N801 (it is used as `contextlib.suppress` is)
    """Meanwhile such exceptions of ours are dropped; what came from outside is not, of whichever class it is."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, self._kinds):
            return False
        found = arrived(error)
        if found is not None and found is not error:  # it came while we looked
            _raise(found)
        return found is None


class raised_afterwards:  # noqa: N801
    """Meanwhile what comes from outside where Python drops it, as in hooks around a fork, is kept; then it is raised.

    What keeps it is a function in C: nothing can come from outside there.
    """

    def __enter__(self) -> None:
        self._dropped: list[sys.UnraisableHookArgs] = []
        self._hook, self._ours = sys.unraisablehook, self._dropped.append
        sys.unraisablehook = self._ours

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if sys.unraisablehook is self._ours:
            sys.unraisablehook = self._hook
        came = [arrived(args.exc_value) if args.exc_value else None for args in self._dropped]
        for args, found in zip(self._dropped, came):  # noqa: B905 (Python 3.9 has no `strict`)
            if found is None:
                self._hook(args)
        for found in came:
            if found is not None:
                _raise(found)


def _first_arrived(error: BaseException) -> BaseException | None:
    known = {at.tb_frame for at in _entries(error)}
    one: BaseException | None = error
    while one is not None:
        if _is_from_outside(one):
            return one
        one = one.__context__
        # One that the script itself was handling when it called us was caught in a frame outside of ours.
        if one is None or one.__traceback__ is None or one.__traceback__.tb_frame not in known:
            return None
        known.update(at.tb_frame for at in _entries(one))
    return None


def _entries(error: BaseException) -> Iterator[TracebackType]:
    at = error.__traceback__
    while at is not None:
        yield at
        at = at.tb_next


def _is_from_outside(error: BaseException) -> bool:
    above: FrameType | None = None
    last = -1
    for at in _entries(error):
        if above is not None and _is_handler(at.tb_frame, above):
            return True
        above, last = at.tb_frame, at.tb_lasti
    code = above.f_code.co_code if above is not None else b""
    if not 0 <= last < len(code) or code[last] in _RAISES:  # a frame that C code has made up is nowhere
        return False
    return not isinstance(error, _WITHOUT_WORDS) and (not error.args or _has_words_of_its_own(type(error)))


def _is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    """Nothing is compared by value: what the script's objects do when they are compared is their own affair."""
    is_given_it = any(value is interrupted for value in _arguments(frame))
    return is_given_it or any(code is frame.f_code for code in _codes_of_handlers())


def _arguments(frame: FrameType) -> Iterator[object]:
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & _TAKES_MORE)
    values = frame.f_locals
    for name in code.co_varnames[:count]:
        value = values.get(name)
        if type(value) is tuple:
            yield from value
        else:
            yield value


def _codes_of_handlers() -> Iterator[CodeType]:
    """The code of handlers that are set now, where they are functions or methods."""
    for number in valid_signals():
        handler = getsignal(number)
        code = getattr(getattr(handler, "func", handler), "__code__", None)
        if code is not None:
            yield code


def _has_words_of_its_own(kind: type[BaseException]) -> bool:
    """A class of the script gives its exceptions arguments that nobody has passed."""
    is_the_scripts = kind.__module__.partition(".")[0] not in NOT_THE_SCRIPTS
    return is_the_scripts and any(hasattr(getattr(kind, name), "__code__") for name in ("__init__", "__new__"))
