"""What failures leave of a job's time: goodput, and the best time between checkpoints.

A job fails at a constant rate, whatever it does: works, writes a checkpoint or restarts. It works for `interval_s`,
then stands still for `checkpoint_s` to write a checkpoint. After a failure it takes `restart_s` until it works again
(noticed, replaced, started, loaded), and it repeats what it did since the last checkpoint.

With L the rate, R the restart and w = interval + checkpoint, getting from one checkpoint to the next takes on average

    e^(L R) (e^(L w) - 1) / L

and goodput is the interval divided by that. It is computed as three factors that each lie between 0 and 1:

    e^(-L R)                 what restarts leave
    interval / w             what writing checkpoints leaves
    L w / (e^(L w) - 1)      what repeated work leaves

An argument is a number or a column of numbers. docs/explanation/goodput.md derives it and says what it leaves out.
"""

import numpy as np

from redline.model.model import Number

SECONDS_PER_DAY = 86_400.0

_NEWTON_STEPS = 12  # quadratic from Young's value, which is at most a third too long where checkpoints are short
_ALL_IS_LOST = 1000.0  # failures per interval from which e^-x is 0 in a double


def goodput(*, failures_per_s: Number, interval_s: Number, restart_s: Number, checkpoint_s: Number) -> Number:
    """The share of time that is progress, from 0 to 1. It becomes 0 where the job hardly ever reaches a checkpoint."""
    with np.errstate(over="ignore"):
        restarts = np.exp(-np.multiply(failures_per_s, restart_s))
    return restarts * checkpoint_share(interval_s, checkpoint_s) * _first_time(failures_per_s, interval_s, checkpoint_s)


def checkpoint_share(interval_s: Number, checkpoint_s: Number) -> Number:
    """The share of time without failures that is not spent on writing checkpoints; 1 where they cost nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        share = 1 / (1 + np.divide(checkpoint_s, interval_s))
    return np.where(np.equal(checkpoint_s, 0), 1.0, share)[()]


def _first_time(failures_per_s: Number, interval_s: Number, checkpoint_s: Number) -> Number:
    """The share of work between restarts that need not be done again: x / (e^x - 1), x failures per interval."""
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.multiply(failures_per_s, np.add(interval_s, checkpoint_s))
    expected = np.where(np.equal(failures_per_s, 0), 0.0, np.minimum(expected, _ALL_IS_LOST))
    with np.errstate(invalid="ignore"):
        share = expected * np.exp(-expected) / -np.expm1(-expected)
    return np.where(expected > 0, share, 1.0)[()]


def best_interval(failures_per_s: Number, checkpoint_s: Number, least_s: Number = 0.0) -> Number:
    """Seconds of work between checkpoints at which goodput is highest, and not below `least_s`.

    Where the derivative of goodput is 0, x + e^-(x + c) = 1, with x = rate * interval and c = rate * checkpoint. The
    left side is convex and Young's x lies above the solution, so Newton's method falls onto it. Goodput has one peak:
    if that is below `least_s`, then `least_s` is best. Without failures the best is never to write one: infinity.
    """
    cost = np.multiply(failures_per_s, checkpoint_s)
    work = np.sqrt(2 * cost)
    for _ in range(_NEWTON_STEPS):
        slope = -np.expm1(-(work + cost))
        with np.errstate(invalid="ignore"):
            work = np.where(slope > 0, work - (work - slope) / slope, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        interval_s = np.where(np.equal(failures_per_s, 0), np.inf, work / failures_per_s)
    return np.maximum(interval_s, least_s)[()]


def mean_time_between_failures(failures_per_s: Number) -> Number:
    """Seconds from one failure to the next on average; infinity where there are none."""
    with np.errstate(divide="ignore"):
        return np.divide(1.0, failures_per_s)
