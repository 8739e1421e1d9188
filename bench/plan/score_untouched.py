"""Hold plans against the runs that nothing was fitted to: errors, and how often the stated interval holds.

    python -m bench.plan.score_untouched [--set 2]

Run it once after the last change to the constants, and write down what it says, whatever it is: a set that is looked at
while constants change is no longer untouched. Each run is predicted as a plan would be, with the stack that its source
names where the planner has one, and the interval of its situation.
"""

from argparse import ArgumentParser
from collections import Counter

import numpy as np

from bench.plan.predicted_steps import predicted
from bench.plan.rows import UNTOUCHED, Mask, Numbers, untouched_runs
from bench.plan.training import expressed_untouched
from bench.plan.user_intervals import planned_runs
from redline.plan.train.search.plan_trust import Trust, trust_of
from redline.plan.train.stacks import DEFAULT_STACK


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("--set", type=int, choices=tuple(UNTOUCHED), default=1, help="which set of runs", dest="which")
    which: int = parser.parse_args().which
    runs = expressed_untouched(which)
    errors = predicted(runs).step_s / runs.measured_s - 1
    trust = [trust_of(run) for run in planned_runs(runs)]
    inside = _inside(errors, trust)
    print(f"{len(runs)} of {len(untouched_runs(which))} runs can be expressed")
    named = runs.stacks != DEFAULT_STACK
    masks: dict[str, Mask] = {"all": np.ones(len(runs), np.bool_), "named stack": named, "no stack": ~named}
    masks |= {"experts": runs.sparse, "adapters": runs.adapters, "fewer bits": runs.narrow, "dense": ~runs.sparse}
    news = np.array([each.situations[0] for each in trust])
    masks |= {f"new: {new}": news == new for new in np.unique(news).tolist()}
    masks |= {f"source: {source}": runs.sources == source for source in np.unique(runs.sources).tolist()}
    for name, mask in masks.items():
        if mask.any():
            _line(name, errors[mask], inside[mask])
    for row in np.argsort(-np.abs(errors)):
        new = " + ".join(trust[row].situations)
        print(f"  {runs.ids[row]:8} {runs.names[row]:24} {runs.stacks[row]:14} {100 * errors[row]:+7.1f} %  {new}")
    print(Counter(runs.machines.tolist()))


def _line(name: str, errors: Numbers, inside: Mask) -> None:
    median, p90 = 100 * np.quantile(np.abs(errors), (0.5, 0.9))
    bias, held = 100 * np.median(errors), 100 * inside.mean()
    print(
        f"{name:60} {len(errors):3}  bias {bias:+6.1f}  median {median:5.1f}  p90 {p90:6.1f}  in interval {held:5.1f} %"
    )


def _inside(errors: Numbers, trust: list[Trust]) -> Mask:
    measured = 1 / (1 + errors)
    low, high = (np.array([getattr(each, end) for each in trust]) for end in ("low", "high"))
    return np.asarray((low <= measured) & (measured <= high), np.bool_)


if __name__ == "__main__":
    main()
