"""When the pairs of a trial are enough: decided, without a possible gain, or more than they are worth."""

from redline.trials.trial_pairs import TrialOptions, TrialPairs
from redline.trials.trial_result import Stopped, TimedPair

NOISE = (0.9, 1.13, 1.1, 0.88, 0.92, 1.08)


def stopped_after(options: TrialOptions, change: float) -> tuple[int, Stopped | None]:
    """Pairs of so much noise that nothing is decided soon."""
    trial = TrialPairs(options, lambda decision: None)
    while not trial.stopped:
        after_s = (1 + change) * NOISE[len(trial.pairs) % len(NOISE)]
        trial.add(TimedPair(before_s=1.0, after_s=after_s))
    return len(trial.pairs), trial.stopped


def test_what_looks_like_no_gain_ends_sooner_than_what_may_be_one() -> None:
    options = TrialOptions(pairs=18, unpromising_pairs=9, negligible=0.02)
    assert stopped_after(options, 0.01) == (9, Stopped.PAIRS_SPENT)
    assert stopped_after(options, -0.04) == (18, Stopped.PAIRS_SPENT)


def test_it_ends_as_soon_as_no_gain_is_possible_where_only_that_is_looked_for() -> None:
    pairs, stopped = stopped_after(TrialOptions(gains_only=True, negligible=0.02), 0.15)
    assert stopped in (Stopped.NO_GAIN, Stopped.DECIDED)
    assert pairs < 60


def test_a_larger_batch_is_worth_more_steps() -> None:
    trial = TrialPairs(TrialOptions(after_work=4.0), lambda decision: None)
    trial.add(TimedPair(before_s=1.0, after_s=2.0))
    assert trial.pairs == [TimedPair(before_s=1.0, after_s=0.5)]
