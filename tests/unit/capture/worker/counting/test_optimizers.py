"""Optimizers have numbers, are not kept alive, and it is known which of them did not step when asked to."""

import gc

from redline.capture.worker.recording.capture import Optimizers


class Optimizer:
    """Has no hash, as one that compares by value."""

    def __eq__(self, other: object) -> bool:
        return True


def test_each_has_a_number_for_as_long_as_it_lives() -> None:
    known = Optimizers()
    first, second = Optimizer(), Optimizer()
    assert [known.stepped(one) for one in (first, second, first)] == [1, 2, 1]  # type: ignore[arg-type]
    del first
    gc.collect()
    assert list(known.alive()) == [second]
    assert known.stepped(Optimizer()) == 3  # type: ignore[arg-type]


def test_those_that_did_not_step_are_told_by_their_numbers() -> None:
    known = Optimizers()
    one, other, unknown = Optimizer(), Optimizer(), Optimizer()
    known.stepped(one)  # type: ignore[arg-type]
    known.stepped(other)  # type: ignore[arg-type]
    assert known.skipped([id(one), id(other)]) == []
    known.stepped(other)  # type: ignore[arg-type]
    assert known.skipped([id(one), id(other)]) == [1]
    assert known.skipped([id(unknown), id(other)]) == [0, 2]


def test_one_that_has_another_do_its_work_did_not_skip() -> None:
    known = Optimizers()
    wrapper, inner = Optimizer(), Optimizer()
    known.stepped(inner)  # type: ignore[arg-type]
    assert known.skipped([id(wrapper)]) == []
    assert known.skipped([id(wrapper)]) == [0]  # neither of them stepped
