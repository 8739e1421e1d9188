"""What the columns of a digest promise: checked where one is read from a file, which anybody may have written."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from redline.ledger.accounts import ACCOUNTS
from redline.ledger.rank.digest import Arithmetic, Facts
from redline.ledger.rank.digest_limits import LONGEST_NS, MOST, MOST_NS
from redline.ledger.rank.exchanges import POINT_TO_POINT, CollectiveSeries, Exchanges, Spent
from redline.ledger.rank.kernel_table import KernelRow
from redline.ledger.rank.ledger import Ledger
from redline.ledger.rank.phases import CELLS, PhaseSums
from redline.ledger.rank.rank_match import MOST_PLACES, RankMatch
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64, Column
from redline.trace.rank_claim import is_rank

_OF_MATCHES = frozenset({"compute", *map(str, ACCOUNTS)})  # accounts, and all of those of kernels as one
_LARGEST_NEED_NS = 1e18
_AMOUNTS = ("hidden_ns", "exposed_ns", *Spent.layout())


def check_ledger(ledger: Ledger, window_ns: tuple[int, int]) -> None:
    first_ns, last_ns = window_ns
    _expect(0 <= last_ns - first_ns <= LONGEST_NS, "window_ns is no stretch of time")
    for name, times in (("start", ledger.start_ns), ("end", ledger.end_ns)):
        _expect(_all_within(times, first_ns, last_ns), f"a step does not {name} inside the window")
    _expect(_all_within(ledger.steps, 0, LONGEST_NS), "an account of a step is no time")
    _expect(_all_within(ledger.outside, 0, LONGEST_NS), "an account outside of steps is no time")
    ledger.self_check()


def check_intervals(name: str, time: Intervals, window_ns: tuple[int, int]) -> None:
    inside = _all_within(time.start, *window_ns) and _all_within(time.end, *window_ns)
    _expect(inside, f"{name} is not inside the window")
    time.self_check()


def check_exchanges(exchanges: Exchanges, spent: I64, series: Sequence[CollectiveSeries]) -> None:
    """`spent` has a row for each column of Spent."""
    start_ns, end_ns = exchanges.start_ns, exchanges.end_ns
    _expect(_all_within(exchanges.series, 0, len(series) - 1), "an exchange of no kind")
    _expect(_all_within(end_ns - start_ns, 0, LONGEST_NS), "an exchange of no length")
    amounts = np.vstack([exchanges.hidden_ns, exchanges.exposed_ns, spent])  # thousands of ranks: once for all columns
    if not _all_within(amounts, 0, LONGEST_NS):
        wrong = ((amounts < 0) | (amounts > LONGEST_NS)).any(axis=1)
        raise ValueError(f"an exchange whose {_AMOUNTS[wrong.argmax()]} is no time")
    for collective_series in series:
        if collective_series.collective == POINT_TO_POINT:
            _expect(
                all(map(is_rank, collective_series.ranks)),
                f"ranks {collective_series.group!r:.40} of an exchange are none",
            )


def check_rates(facts: Facts, arithmetic: Sequence[Arithmetic]) -> None:
    """Zero says that one is not known; what is divided by one that is hardly more has no end."""
    links = (facts.fabric_bytes_per_s, facts.pair_bytes_per_s, facts.nic_bytes_per_s)
    rates = (*links, *(peak.peak_flops_per_s for peak in arithmetic))
    _expect(all(rate == 0 or rate >= 1 for rate in rates), "a rate of a machine is next to nothing")


def check_kernels(rows: Sequence[KernelRow]) -> None:
    """A need may be nan: then it is not known. Whoever adds up rows of one operator needs 64 bits at most."""
    is_possible = sum(row.calls for row in rows) <= MOST and sum(row.time_ns for row in rows) <= MOST_NS
    _expect(is_possible, "kernels of more calls or time than there can be")
    needs_ns = np.array([(row.math_ns, row.memory_ns) for row in rows])
    _expect(not ((needs_ns < 0) | (needs_ns > _LARGEST_NEED_NS)).any(), "what a kernel needs is no time")
    unknown = np.isnan(needs_ns.reshape(-1, 2))
    _expect(bool((unknown[:, 0] == unknown[:, 1]).all()), "a kernel of which one need is known, and the other is not")


def check_phases(phases: PhaseSums, ledger: Ledger) -> None:
    """There are none, or they add up to the steps."""
    _expect(len(phases) in (0, CELLS), "phases of another number")
    _expect(not phases or sum(phases) == int(ledger.steps.sum()), "phases do not add up to the steps")


def check_match(match: RankMatch, ledger: Ledger, window_ns: tuple[int, int]) -> None:
    claimed_ns, alone_ns = match.claimed_ns, match.alone_ns
    fits = len(claimed_ns) == len(ledger.start_ns) and bool(
        ((claimed_ns >= 0) & (claimed_ns <= alone_ns) & (alone_ns <= ledger.end_ns - ledger.start_ns)).all()
    )
    _expect(fits, f"what {match.code!r:.40} claims does not fit the steps")
    check_intervals(f"what {match.code!r:.40} saw", match.places, window_ns)
    _expect(len(match.places) <= MOST_PLACES, f"{match.code!r:.40} has too many places")
    unknown = sorted(set(match.accounts) - _OF_MATCHES)
    _expect(not unknown, f"{match.code!r:.40} claims an account that is none: {unknown[:1]!r:.60}")


def _all_within(values: Column | npt.NDArray[np.int64], least: int, most: int) -> bool:
    return not values.size or bool(values.min() >= least and values.max() <= most)


def _expect(holds: bool, promise: str) -> None:
    if not holds:
        raise ValueError(promise)
