"""Times two functions in turns inside this process until the pairs decide or the budget is spent."""

import gc
import time
from collections.abc import Callable
from random import Random
from statistics import fmean

from redline.trials.trial_pairs import Tell, TrialOptions, TrialPairs
from redline.trials.trial_result import Timed, TimedPair, TrialResult
from redline.trials.try_levers import block_size

Call = Callable[[], object]


def try_calls(before: Call, after: Call, options: TrialOptions, tell: Tell = lambda decision: None) -> TrialResult:
    """Call both in turns, in random order; each a few times first, so that caches are warm."""
    trial = TrialPairs(options, tell)
    order = Random(options.seed)
    calls = (before, after)
    first_s = [fmean(_lengths_s(call, 2)) for call in calls]
    kept, turns = block_size(max(*first_s, 1e-9), 1)
    started_cpu_s = time.process_time()
    was_on = gc.isenabled()
    gc.disable()  # a run of it would fall on one of the two
    try:
        while not trial.stopped:
            lengths_s: tuple[list[float], list[float]] = ([], [])
            for at in turns * order.sample((0, 1), 2):
                lengths_s[at].extend(_lengths_s(calls[at], kept))
            trial.add(TimedPair(before_s=fmean(lengths_s[0]), after_s=fmean(lengths_s[1])))
            gc.collect()
    finally:
        if was_on:
            gc.enable()
    return trial.result(
        time.process_time() - started_cpu_s,
        before=_name(before),
        after=_name(after),
        timed=Timed.CALLS,
        block_steps=kept * turns,
        steps=2 * kept * turns * len(trial.pairs),
    )


def _lengths_s(call: Call, times: int) -> list[float]:
    """Of some calls, after one that is not counted."""
    call()
    lengths = []
    for _ in range(times):
        started_s = time.perf_counter()
        call()
        lengths.append(time.perf_counter() - started_s)
    return lengths


def _name(call: Call) -> str:
    return str(getattr(call, "__qualname__", call))
