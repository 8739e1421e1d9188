"""What ends a step: optimizers, the data loader, calls, or the script itself; and what is kept of each."""

from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from redline.capture.shared_state import (
    BATCHES,
    BY_CALLS,
    BY_HAND,
    BY_OPTIMIZER,
    CHUNK_ENTRIES,
    ENTRIES,
    KIND,
    LOADER_NS,
    STEPS,
    SharedState,
)
from redline.capture.worker.counting import steps as module
from redline.capture.worker.counting.optimizer_cycles import OptimizerCycles
from redline.capture.worker.counting.steps import StepCounter


class Counted:
    """Steps of a training whose optimizers step in this order, with what is open at the end."""

    def __init__(self, optimizers: list[int], *, in_backward: bool = False) -> None:
        self.cycles, self.steps, self.restarts_at = OptimizerCycles(), 0, []
        ended_ns: list[int] = []
        for now_ns, optimizer in enumerate(optimizers, start=1):
            ended = self.cycles.stepped(optimizer, now_ns, self.steps, in_backward=in_backward)
            if self.cycles.regrouped:
                self.restarts_at.append(self.steps)
                self.steps = 0
                ended_ns.clear()
            self.steps += len(ended)
            ended_ns += ended
        ended = self.cycles.cycle_is_over(self.steps)
        self.steps += len(ended)
        ended_ns += ended
        assert ended_ns == sorted(set(ended_ns))  # no moment ends two steps, and none ends before another


def counted(optimizers: list[int], *, in_backward: bool = False) -> int:
    return Counted(optimizers, in_backward=in_backward).steps


def new_ones(count: int) -> range:
    """Optimizers that the job makes anew each time."""
    return range(1000, 1000 + count)


@given(st.integers(1, 200))
def test_with_one_optimizer_each_of_its_steps_is_one(steps: int) -> None:
    assert counted([1] * steps) == steps


@given(st.integers(2, 60), st.integers(2, 100))
def test_with_several_a_round_is_one(optimizers: int, rounds: int) -> None:
    assert counted(list(range(1, optimizers + 1)) * rounds) == rounds


@given(st.integers(1, 40), st.integers(2, 30))
def test_a_critic_that_steps_more_often(times: int, rounds: int) -> None:
    assert counted(([1] * times + [2]) * rounds) == rounds


@given(st.integers(2, 10), st.integers(3, 30))
def test_a_generator_that_steps_more_often(times: int, rounds: int) -> None:
    """It is not known where a round begins, so that the last one may count as begun."""
    assert rounds - 1 <= counted(([1] + [2] * times) * rounds) <= rounds


@pytest.mark.parametrize(("critics", "more"), [(1, 5), (2, 9), (3, 13)])
def test_an_optimizer_that_stays_away_is_waited_for_as_long_as_four_rounds_take(critics: int, more: int) -> None:
    """After that, whoever steps next ends a round, and from then on each."""
    before = ([1] * critics + [2]) * 3
    assert [counted([*before, *[1] * (more + late)]) for late in (-1, 0, 1, 2, 3)] == [3, 3, 4, 5, 6]


@given(st.integers(9, 300), st.integers(2, 20))
def test_an_optimizer_per_parameter_in_the_backward_pass(parameters: int, rounds: int) -> None:
    assert counted(list(range(1, parameters + 1)) * rounds, in_backward=True) == rounds


@given(st.integers(2, 300), st.integers(2, 300), st.integers(2, 10))
def test_a_second_fold_with_an_optimizer_per_parameter(first: int, second: int, rounds: int) -> None:
    folds = list(range(1, first + 1)) * rounds + list(range(1001, 1001 + second)) * rounds
    run = Counted(folds, in_backward=True)
    assert (run.steps, run.restarts_at) == (2 * rounds, [])


def test_an_optimizer_that_appears_late_makes_the_steps_longer() -> None:
    assert counted([1] * 10 + [2, 1] * 20) == 20
    assert counted([1] * 100 + [2, 1] * 20) == 120  # too late: what was counted stays
    assert counted([1] * 100 + [1, 2] * 20) == 120


def test_an_optimizer_that_is_gone_does_not_close_steps_for_ever() -> None:
    """One step with two optimizers, then only the first one steps; or three, then only the one in the middle."""
    assert 95 <= counted([1, 2] + [1] * 100) <= 101
    assert 95 <= counted([1, 2, 3, 1] + [2] * 100) <= 101


@given(st.lists(st.integers(2, 150), min_size=1, max_size=8))
def test_optimizers_one_after_another(folds: list[int]) -> None:
    """A sweep, folds, a fit and a fine-tuning, layers that are unfrozen: nothing is lost, and no window is cut."""
    run = Counted([number for number, steps in enumerate(folds, start=1) for _ in range(steps)])
    assert (run.steps, run.restarts_at) == (sum(folds), [])


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(2, 50)), min_size=1, max_size=6))
def test_cycles_one_after_another(cycles: list[tuple[int, int]]) -> None:
    """Such as one adversarial training after another, or a classifier on top of one."""
    order = [
        100 * cycle + one for cycle, (size, rounds) in enumerate(cycles) for _ in range(rounds) for one in range(size)
    ]
    run = Counted([1 + one for one in order])
    assert (run.steps, run.restarts_at) == (sum(rounds for _, rounds in cycles), [])


@given(st.integers(2, 12), st.integers(2, 30))
def test_one_critic_after_another(times: int, rounds: int) -> None:
    run = Counted(([1] * times + [2]) * rounds + ([3] * times + [4]) * rounds)
    assert 2 * rounds <= run.steps <= 2 * rounds + times  # until its generator is met, each step of a critic is one
    assert run.restarts_at == [times]


@given(st.integers(2, 4), st.integers(2, 100), st.integers(2, 6))
def test_optimizers_that_take_turns_for_several_steps(optimizers: int, times: int, turns: int) -> None:
    """Policy and value, a model per fold with the epochs around them: steps of their own, and never a long silence."""
    run = Counted([one for _ in range(turns) for one in range(1, optimizers + 1) for _ in range(times)])
    assert (run.steps, run.restarts_at) == (optimizers * times * turns, [])


def test_one_step_before_the_real_optimizer_is_made() -> None:
    assert counted([1] + [2] * 40) == 41


@given(st.integers(1, 20), st.integers(1, 20), st.integers(2, 30))
def test_both_are_warmed_up_alone(first: int, second: int, rounds: int) -> None:
    assert counted([1] * first + [1, 2] * rounds) == rounds
    warmed_up = [1] * (first + 1) + [2] * (second + 1)
    assert rounds - 1 <= counted(warmed_up + [1, 2] * rounds) - len(warmed_up) <= rounds


@given(st.integers(1, 3000))
def test_an_optimizer_of_its_own_in_each_step(steps: int) -> None:
    assert counted(list(new_ones(steps))) == (steps if steps > 8 else 1)  # so few could be one round


@given(st.integers(1, 3), st.integers(2, 5), st.integers(5, 200))
def test_inner_optimizers_that_are_made_anew_are_parts_of_a_step(tasks: int, times: int, rounds: int) -> None:
    """As in meta-learning. What is counted before the outer one is seen again stays."""
    inner = iter(new_ones(tasks * rounds))
    order = [one for _ in range(rounds) for one in [*(task for _ in range(tasks) for task in [next(inner)] * times), 1]]
    run = Counted(order)
    assert rounds - 1 <= run.steps <= rounds + 2 * tasks * times
    assert run.restarts_at == []


def test_what_is_kept_of_optimizers_is_bounded() -> None:
    for order in (
        list(new_ones(20_000)),
        [one for new in new_ones(20_000) for one in (new, new)],
        [one for new in new_ones(20_000) for one in (new, 1)],
        [one for new in new_ones(20_000) for one in (new, new, 1)],
    ):
        cycles = Counted(order).cycles
        assert max(map(len, (cycles._cycle.members, cycles._former, cycles._newcomers, cycles._newcomer_ids))) <= 1001


@given(st.lists(st.integers(1, 6), max_size=300), st.booleans())
def test_whatever_steps_no_more_is_counted_than_stepped(order: list[int], in_backward: bool) -> None:
    assert counted(order, in_backward=in_backward) <= len(order)


# --- in shared state --------------------------------------------------------------------------------------------------


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
    """Steps with their shared state, and what they told."""

    def __init__(self) -> None:
        shared = SharedState.make(1)
        self.slot = shared.claim(0)
        self.told: list[tuple[int, int, bool]] = []
        self.restarts = 0
        context = SimpleNamespace(shared=shared, number=0, slot=self.slot)
        self.steps = StepCounter(context, lambda *one: self.told.append(one), self._restarted)  # type: ignore[arg-type]

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
    assert watched.told == [(2, 10, True), (3, 10, True), (4, 10, True), (5, 10, True)]
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


def test_steps_that_are_skipped_are_steps(clock: Clock, watched: Watched) -> None:
    """The first two, before any optimizer is known; one after the first of the optimizer; one in between."""
    for is_skipped in (True, True, False, True, False, False, True):
        clock.passes(7)
        if is_skipped:
            watched.steps.optimizers_skipped()
        else:
            watched.steps.optimizer_stepped(1)
    watched.steps.finish()
    assert watched.slot.words[KIND] == BY_OPTIMIZER
    assert watched.count() == 7
    assert watched.slot.steps()[0] == [0, *[7] * 6]


def test_a_skipped_round_of_several_optimizers_is_one_step(clock: Clock, watched: Watched) -> None:
    for number in range(20):
        clock.passes(5)
        if number % 4 == 3:
            watched.steps.optimizers_skipped()
        else:
            watched.steps.optimizer_stepped(1)
            watched.steps.optimizer_stepped(2)
    watched.steps.finish()
    assert watched.count() == 20


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


@settings(max_examples=6, deadline=None)
@example(extra=ENTRIES, length_ns=1)
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
    monkeypatch.setattr(watched.steps._shared, "set_aside", refuse)
    for number in range(1, 3 * CHUNK_ENTRIES + 1):
        watched.slot.words[STEPS] = number
        watched.steps._keep(5, 1)
    lengths_ns, waits_ns, stride = watched.slot.steps()
    assert (sum(lengths_ns), sum(waits_ns), stride) == (15 * CHUNK_ENTRIES, 3 * CHUNK_ENTRIES, 4)
    assert len(lengths_ns) <= CHUNK_ENTRIES
