"""What ends a step: optimizers, the data loader, calls, or the script itself; and what is kept of each."""

from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from redline.launch.board import (
    BATCHES,
    BY_CALLS,
    BY_HAND,
    BY_OPTIMIZER,
    CHUNK_ENTRIES,
    ENTRIES,
    KIND,
    LOADER_NS,
    STEPS,
    Board,
)
from redline.launch.inside import steps as module
from redline.launch.inside.steps import Rounds, Steps


def counted(optimizers: list[int], *, in_backward: bool = False) -> int:
    """Steps of a training whose optimizers step in this order, with what is open at the end."""
    rounds, steps = Rounds(), 0
    for now_ns, optimizer in enumerate(optimizers, start=1):
        ended = rounds.stepped(optimizer, now_ns, steps, in_backward=in_backward)
        steps = 0 if ended < 0 else steps + ended
    return steps + rounds.open


@given(st.integers(1, 200))
def test_with_one_optimizer_each_of_its_steps_is_one(steps: int) -> None:
    assert counted([1] * steps) == steps


@given(st.integers(2, 6), st.integers(1, 100))
def test_with_several_a_round_is_one(optimizers: int, rounds: int) -> None:
    assert counted(list(range(1, optimizers + 1)) * rounds) == rounds


@given(st.integers(1, 40), st.integers(2, 30))
def test_a_critic_that_steps_more_often(times: int, rounds: int) -> None:
    assert counted(([1] * times + [2]) * rounds) == rounds


@given(st.integers(9, 300), st.integers(2, 20))
def test_an_optimizer_per_parameter_in_the_backward_pass(parameters: int, rounds: int) -> None:
    assert counted(list(range(1, parameters + 1)) * rounds, in_backward=True) == rounds


def test_an_optimizer_that_appears_late_makes_the_steps_longer() -> None:
    assert counted([1] * 10 + [2, 1] * 20) == 20
    assert counted([1] * 100 + [2, 1] * 20) == 120  # too late: what was counted stays


def test_an_optimizer_that_is_gone_does_not_close_steps_for_ever() -> None:
    """One step with two optimizers, then only the first one steps."""
    assert 95 <= counted([1, 2] + [1] * 100) <= 101


def test_another_optimizer_takes_over() -> None:
    assert counted([1] * 30 + [2] * 30) >= 30


def test_an_optimizer_of_its_own_in_each_step() -> None:
    assert 90 <= counted(list(range(1, 101))) <= 100


# --- on the board -----------------------------------------------------------------------------------------------------


class Clock:
    now_ns = 1_000

    def __call__(self) -> int:
        return self.now_ns

    def passes(self, length_ns: int) -> None:
        self.now_ns += length_ns


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "perf_counter_ns", clock)
    return clock


class Watched:
    """Steps with their board, and what they told."""

    def __init__(self) -> None:
        board = Board.make(1)
        self.slot = board.claim(0)
        self.told: list[tuple[int, int, bool]] = []
        self.restarts = 0
        place = SimpleNamespace(board=board, number=0, slot=self.slot)
        self.steps = Steps(place, lambda *one: self.told.append(one), self._restarted)  # type: ignore[arg-type]

    def _restarted(self) -> None:
        self.restarts += 1

    def count(self) -> int:
        return self.slot.words[STEPS]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_lengths_go_from_one_optimizer_step_to_the_next(clock: Clock, watched: Watched) -> None:
    for _ in range(5):
        clock.passes(10)
        watched.steps.optimizer_stepped(1)
    assert watched.slot.words[KIND] == BY_OPTIMIZER
    assert watched.told == [(1, 0, True), (2, 10, True), (3, 10, True), (4, 10, True), (5, 10, True)]
    assert watched.slot.steps() == ([0, 10, 10, 10, 10], [0] * 5, 1)


def test_where_a_loader_is_asked_a_step_begins_there(clock: Clock, watched: Watched) -> None:
    """What comes after the optimizer, such as logging, belongs to its step; waiting for data to the next."""
    for _ in range(4):
        watched.steps.loader_asked()
        clock.passes(5)
        watched.steps.loader_gave()
        clock.passes(10)
        watched.steps.optimizer_stepped(1)
        clock.passes(3)
    assert watched.count() == 3  # the fourth ends when the loader is asked again, or the process ends
    watched.steps.finish()
    assert watched.count() == 4
    lengths_ns, waits_ns, _ = watched.slot.steps()
    assert lengths_ns[2:] == [18, 15]  # the last one ends with its optimizer
    assert waits_ns[2:] == [5, 5]
    assert (watched.slot.words[LOADER_NS], watched.slot.words[BATCHES]) == (20, 4)
    assert not any(at_work for _, _, at_work in watched.told[2:])


def test_accumulating_gradients_asks_the_loader_several_times_a_step(clock: Clock, watched: Watched) -> None:
    for _ in range(6):
        for _ in range(4):
            watched.steps.loader_asked()
            clock.passes(1)
            watched.steps.loader_gave()
            clock.passes(9)
        watched.steps.optimizer_stepped(1)
    watched.steps.finish()
    assert watched.count() == 6
    assert watched.slot.steps()[0][2:] == [40] * 4
    assert watched.slot.steps()[1][2:] == [4] * 4


def test_a_loader_that_is_no_longer_asked_does_not_hold_steps_up(clock: Clock, watched: Watched) -> None:
    watched.steps.loader_asked()
    for _ in range(10):
        clock.passes(10)
        watched.steps.optimizer_stepped(1)
    watched.steps.finish()
    assert watched.count() == 10


def test_calls_end_steps_until_an_optimizer_steps(clock: Clock, watched: Watched) -> None:
    watched.steps.called_before(3)
    for _ in range(4):
        clock.passes(7)
        watched.steps.called()
    assert watched.slot.words[KIND] == BY_CALLS
    assert watched.count() == 6
    assert watched.slot.steps()[0][-4:] == [7] * 4
    watched.steps.finish()
    assert watched.count() == 7
    watched.steps.optimizer_stepped(1)
    watched.steps.optimizer_stepped(1)
    assert (watched.slot.words[KIND], watched.count()) == (BY_OPTIMIZER, 2)


def test_what_the_script_says_wins(clock: Clock, watched: Watched) -> None:
    for _ in range(3):
        watched.steps.optimizer_stepped(1)
    for _ in range(5):
        clock.passes(2)
        watched.steps.optimizer_stepped(1)
        watched.steps.by_hand()
    assert (watched.slot.words[KIND], watched.count()) == (BY_HAND, 5)
    assert watched.restarts == 2


@settings(max_examples=8, deadline=None)
@given(extra=st.integers(1, ENTRIES * 5), length_ns=st.integers(1, 1000))
def test_more_steps_than_entries_keep_their_sums(extra: int, length_ns: int) -> None:
    watched = Watched()
    steps = ENTRIES + extra
    keep = watched.steps._keep
    for number in range(1, steps + 1):
        watched.slot.words[STEPS] = number
        keep(length_ns + number % 3, number % 2)
    lengths_ns, waits_ns, stride = watched.slot.steps()
    assert len(lengths_ns) == len(waits_ns) <= ENTRIES
    assert stride == (2 if steps <= 2 * ENTRIES else 4 if steps <= 4 * ENTRIES else 8)
    assert sum(lengths_ns) == sum(length_ns + number % 3 for number in range(1, steps + 1))
    assert sum(waits_ns) == sum(number % 2 for number in range(1, steps + 1))
    assert (len(lengths_ns) - 1) * stride < steps <= len(lengths_ns) * stride


def test_without_more_memory_steps_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(number: int, entry: int) -> None:
        raise OSError("the limit on files forbids it")

    watched = Watched()
    monkeypatch.setattr(watched.steps._board, "set_aside", refuse)
    for number in range(1, 3 * CHUNK_ENTRIES + 1):
        watched.slot.words[STEPS] = number
        watched.steps._keep(5, 1)
    lengths_ns, waits_ns, stride = watched.slot.steps()
    assert (sum(lengths_ns), sum(waits_ns), stride) == (15 * CHUNK_ENTRIES, 3 * CHUNK_ENTRIES, 4)
    assert len(lengths_ns) <= CHUNK_ENTRIES
