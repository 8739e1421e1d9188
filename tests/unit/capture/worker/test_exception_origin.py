"""What reached our code from outside goes on to the script; what a call of ours raised never does."""

import ctypes
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redline.capture.worker import exception_origin
from redline.capture.worker.exception_origin import arrived, pass_on, tolerated

Act = Callable[[], object]


class Alarm(Exception):  # noqa: N818 (what a script would call it)
    """Of the script."""


class Worded(Exception):  # noqa: N818
    """Of the script, with words that nobody has passed."""

    def __init__(self, text: str = "time is up") -> None:
        super().__init__(text)


def caught(act: Act) -> BaseException:
    """As a guard of ours catches it."""
    try:
        act()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("it raises nothing")


def busy() -> None:
    """Until it is interrupted."""
    while True:
        time.monotonic()


# --- signals ----------------------------------------------------------------------------------------------------------


def plain(number: int, frame: object) -> None:
    raise Alarm


def of_a_call(number: int, frame: object) -> None:
    Path("/does/not/exist").stat()


def any_arguments(*_: object) -> None:
    raise TimeoutError("with words")


def losing_the_frame(number: int, frame: object) -> None:
    frame = None
    raise Alarm(frame)


def of_no_concern_any_more(number: int, frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)
    raise Alarm


def leaving(number: int, frame: object) -> None:
    sys.exit(3)


class Handler:
    def method(self, number: int, frame: object) -> None:
        raise Alarm

    def __call__(self, number: int, frame: object) -> None:
        raise Alarm


HANDLERS: dict[str, Callable[..., None]] = {
    **{
        one.__name__: one
        for one in (plain, of_a_call, any_arguments, losing_the_frame, of_no_concern_any_more, leaving)
    },
    "method": Handler().method,
    "object": Handler(),
    "partial": functools.partial(lambda word, number, frame: plain(number, frame), "word"),
    "ctrl_c": signal.default_int_handler,
}


@contextmanager
def alarm(handler: Callable[[int, object], None]) -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # a busy machine may take long to come to what it interrupts
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "where", [busy, lambda: time.sleep(9), lambda: sorted(iter(lambda: 1, 0))], ids=["busy", "asleep", "in C"]
)
@pytest.mark.parametrize("name", HANDLERS)
def test_what_a_handler_raises_is_the_scripts(name: str, where: Act) -> None:
    with alarm(HANDLERS[name]):
        error = caught(where)
        assert arrived(error) is error


def test_what_a_call_of_ours_made_of_it_is_not_but_it_is() -> None:
    def replacing() -> None:
        try:
            busy()
        except Alarm:
            raise KeyError("of a library") from None

    with alarm(plain):
        error = caught(replacing)
    assert isinstance(error, KeyError)
    assert isinstance(arrived(error), Alarm)
    with pytest.raises(Alarm) as passed:
        pass_on(error)
    assert passed.value.__context__ is None


def test_what_the_script_was_handling_when_it_called_us_is_not_raised_again() -> None:
    with alarm(plain):
        error = None
        try:
            busy()
        except Alarm:
            error = caught(lambda: Path("/does/not/exist").stat())
    assert error is not None
    assert isinstance(error.__context__, Alarm)
    assert arrived(error) is None


def test_a_function_that_traces_may_end_a_thread() -> None:
    def trace(frame: object, event: str, arg: object) -> object:
        if event == "line":
            raise SystemExit("killed")
        return trace

    def inner() -> None:
        time.monotonic()

    def traced() -> None:
        before = sys.gettrace()
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            inner()
        finally:
            sys.settrace(before)

    error = caught(traced)
    assert arrived(error) is error


# --- other threads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Alarm, Worded, TimeoutError, KeyboardInterrupt, SystemExit])
def test_what_another_thread_sets_is_the_scripts(kind: type[BaseException]) -> None:
    here = ctypes.c_ulong(threading.get_ident())

    def set_it() -> None:
        time.sleep(0.05)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(here, ctypes.py_object(kind))

    thread = threading.Thread(target=set_it)
    thread.start()
    error = caught(busy)
    thread.join()
    assert type(error) is kind
    assert arrived(error) is error


# --- calls of ours ----------------------------------------------------------------------------------------------------


class Blocked(BaseException):
    """Of the script, as libraries for tests have it: `except Exception` does not catch it."""


def raising(error: BaseException | type[BaseException]) -> Act:
    def fail() -> None:
        raise error

    return fail


def asked() -> None:
    armed = [True]

    def hook(event: str, args: object) -> None:
        if armed and event == "open":
            raise Blocked

    sys.addaudithook(hook)  # for good, so that it has to be disarmed
    try:
        Path("/dev/null").open().close()
    finally:
        armed.clear()


@pytest.mark.parametrize(
    "act",
    [
        raising(OSError(24, "Too many open files")),
        raising(Alarm),
        raising(Alarm("blocked")),
        raising(Blocked),
        raising(SystemExit(3)),
        raising(KeyboardInterrupt),
        asked,
        lambda: Path("/does/not/exist").stat(),
        lambda: next(iter(())),
        lambda: bytes(1 << 62),
        lambda: sys.exit(3),
        lambda: [] + 1,  # type: ignore[operator]
        lambda: {"y": 1}["x"],
    ],
)
def test_what_a_call_raises_is_ours_whatever_it_is_and_whoever_is_in_the_traceback(act: Act) -> None:
    error = caught(act)
    assert arrived(error) is None
    pass_on(error)
    with tolerated(BaseException):
        act()


def test_only_what_is_named_is_tolerated() -> None:
    with pytest.raises(KeyError), tolerated(OSError, ValueError):
        raise KeyError("x")
    with alarm(any_arguments), pytest.raises(TimeoutError), tolerated(OSError):
        busy()


@pytest.mark.parametrize(("error", "goes_on"), [(OSError(24, "Too many"), False), (KeyboardInterrupt(), True)])
@pytest.mark.parametrize("times", [1, 2])
def test_where_no_room_is_left_to_tell_only_what_ends_a_process_goes_on(
    error: BaseException, goes_on: bool, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = exception_origin._first_arrived, list[BaseException]()

    def without_room(one: BaseException) -> BaseException | None:
        calls.append(one)
        if len(calls) <= times:
            raise RecursionError("no room")
        return plain(one)

    monkeypatch.setattr(exception_origin, "_first_arrived", without_room)
    assert arrived(error) is (error if goes_on else None)


def test_what_arrives_while_we_look_whose_another_is_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = OSError(24, "Too many")
    with alarm(plain):
        lookups: Iterator[Act] = iter([busy, tuple])
        monkeypatch.setattr(exception_origin, "_entries", lambda _: next(lookups)())
        monkeypatch.setattr(exception_origin, "_is_from_outside", lambda error: isinstance(error, Alarm))
        assert isinstance(arrived(ours), Alarm)


def test_what_arrives_while_we_look_whether_to_tolerate_another_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    with alarm(plain):
        lookups: Iterator[Act] = iter([busy, tuple])
        monkeypatch.setattr(exception_origin, "_entries", lambda _: next(lookups)())
        monkeypatch.setattr(exception_origin, "_is_from_outside", lambda error: isinstance(error, Alarm))
        with pytest.raises(Alarm), tolerated(OSError):
            raise OSError(24, "Too many")
