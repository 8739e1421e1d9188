"""A call is told of by reading its function, and goes on as if nobody looked."""

import inspect
from types import FrameType

from redline.capture.worker.engines.engine_log import tell_reads


class Base:
    def work(self, x: int) -> int:
        """Twice."""
        return 2 * x


class Derived(Base):
    pass


def _base() -> type[Base]:
    """One that may be changed."""
    return type("Base", (), dict(Base.__dict__))


def test_reading_is_told_with_the_object_and_the_frame() -> None:
    told: list[tuple[object, str]] = []
    base = _base()

    def tell(instance: object, frame: FrameType) -> None:
        told.append((instance, frame.f_code.co_name))

    assert tell_reads(base, "work", tell)
    one = base()
    assert one.work(4) == 8
    assert told == [(one, "test_reading_is_told_with_the_object_and_the_frame")]


def test_a_class_that_inherits_it_is_told_of_too_and_once() -> None:
    told: list[object] = []
    base = _base()
    derived = type("Derived", (base,), {})
    assert tell_reads(derived, "work", lambda instance, frame: told.append(instance))
    assert tell_reads(base, "work", lambda instance, frame: told.append("again"))
    one = derived()
    assert one.work(1) == 2
    assert told == [one]


def test_what_fails_in_telling_is_not_seen() -> None:
    base = _base()

    def fail(instance: object, frame: FrameType) -> None:
        raise ValueError("ours")

    tell_reads(base, "work", fail)
    assert base().work(3) == 6


def test_the_function_itself_is_what_the_class_has() -> None:
    base = _base()
    tell_reads(base, "work", lambda instance, frame: None)
    assert base.work is Base.work
    assert inspect.signature(base.work) == inspect.signature(Base.work)
    assert inspect.getdoc(base.work) == "Twice."


def test_a_function_that_is_not_there_is_said() -> None:
    assert not tell_reads(_base(), "absent", lambda instance, frame: None)
