"""Times collectives on all ranks at once: every case in turn, round after round. Runs on the ranks only.

A sample is a number of calls in a row after a barrier; all ranks make the same number. Nothing else is exchanged in a
round: the times of all ranks meet at the end. So the calls are as bare as in a loop of the user's own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from redline.calibration.collectives.agree import broadcast_numbers, largest
from redline.calibration.collectives.operations import Buffers, Call, Circle, barrier, fill, is_right, prepared, result
from redline.calibration.collectives.results import CollectiveCase, CollectiveTimings, repeats
from redline.calibration.device import ProbeDevice

_FEWEST_ROUNDS, _WANTED_ROUNDS, _MOST_ROUNDS = 3, 40, 200
_SAMPLE_NS = (300_000, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class CollectiveBudget:
    """How much time may be spent."""

    seconds: float
    call_limit_s: float
    """A case is dropped where one call takes longer than this, and so are those of larger messages."""


class Harness:
    """The ranks of the world, and their groups by level."""

    def __init__(self, circles: Mapping[str, Circle | None], device: ProbeDevice) -> None:
        self._circles = circles
        """None where this rank is in no group of the level."""
        world = circles["world"]
        assert world is not None
        self._barrier = barrier(world)
        self._device = device

    def measure(self, cases: Sequence[CollectiveCase], buffers: Buffers, effort: CollectiveBudget) -> CollectiveTimings:
        """Check every case, drop those that take too long, and time the rest."""
        until_s = time.monotonic() + effort.seconds
        right = self._check(cases, buffers, effort.call_limit_s)
        kept = [case for case in cases if case in right]
        calls = [self._call(case, buffers) for case in kept]
        rows = self._rounds(calls, self._repeats(calls, until_s), until_s)
        return CollectiveTimings(
            cases=tuple(kept),
            samples_ns=tuple(map(tuple, rows)),
            correct=tuple(right[case] for case in kept),
            dropped=tuple(case for case in cases if case not in right),
        )

    def _call(self, case: CollectiveCase, buffers: Buffers) -> Call | None:
        circle = self._circles[case.level]
        if circle is None:
            return None
        return prepared(case.operation, circle, *buffers.of(case.operation, circle, case.size_bytes))

    # --- correctness ----------------------------------------------------------------------------------------------

    def _check(self, cases: Sequence[CollectiveCase], buffers: Buffers, limit_s: float) -> dict[CollectiveCase, bool]:
        """Which results are right on every rank. It is the first warm-up, too."""
        right: dict[CollectiveCase, bool] = {}
        too_long: set[tuple[str, str]] = set()
        for case in sorted(cases, key=lambda case: case.size_bytes):
            if (case.operation, case.level) in too_long:
                continue
            wrong, took_s = self._checked(case, buffers)
            worst = largest([[float(wrong), took_s]], self._device)[0]
            if worst[1] > limit_s:
                too_long.add((case.operation, case.level))
            else:
                right[case] = not worst[0]
        return right

    def _checked(self, case: CollectiveCase, buffers: Buffers) -> tuple[bool, float]:
        """Whether the result of one call is wrong, and how long it took."""
        circle = self._circles[case.level]
        if circle is None:
            return False, 0.0
        give, take = buffers.of(case.operation, circle, case.size_bytes)
        call = prepared(case.operation, circle, give, take)
        call()  # the first one of a group may have to connect its ranks
        fill(case.operation, circle, case.size_bytes, give, take)
        took_s = self._device.timed_ns(call, 1) / 1e9
        held = result(case.operation, give, take)
        right = is_right(case.operation, circle, case.size_bytes, held)
        give.zero_()
        take.zero_()
        return not right, took_s

    # --- times ----------------------------------------------------------------------------------------------------

    def _repeats(self, calls: Sequence[Call | None], until_s: float) -> list[int]:
        """How many calls make a sample of each case, for enough rounds in the time left. The first rank decides."""
        once = [min(row) for row in zip(*(self._row(calls, [1] * len(calls), 0) for _ in range(2)), strict=True)]
        slowest_ns = largest([once], self._device)[0]
        spare_ns = (until_s - time.monotonic()) * 1e9
        least_ns, most_ns = _SAMPLE_NS
        sample_ns = min(most_ns, max(least_ns, spare_ns / _WANTED_ROUNDS / max(1, len(calls))))
        wanted = [repeats(once_ns, sample_ns) for once_ns in slowest_ns]
        return broadcast_numbers(wanted, self._device)

    def _rounds(self, calls: Sequence[Call | None], counts: Sequence[int], until_s: float) -> list[list[float]]:
        """The slowest rank's time of one call, by round and case."""
        rows: list[list[float]] = []
        goes_on = True
        while goes_on:
            began_s = time.monotonic()
            rows.append(self._row(calls, counts, len(rows)))
            is_time = time.monotonic() + (time.monotonic() - began_s) < until_s
            wanted = len(rows) < _FEWEST_ROUNDS or (is_time and len(rows) < _MOST_ROUNDS)
            goes_on = bool(broadcast_numbers([int(wanted)], self._device)[0])
        return largest(rows, self._device)

    def _row(self, calls: Sequence[Call | None], counts: Sequence[int], turn: int) -> list[float]:
        """Each case once, beginning at another one from round to round."""
        row = [0.0] * len(calls)
        start = turn * len(calls) // _WANTED_ROUNDS % max(1, len(calls))
        for at in [*range(start, len(calls)), *range(start)]:
            row[at] = self.sample_ns(calls[at], counts[at])
        return row

    def sample_ns(self, call: Call | None, count: int) -> float:
        """One call of so many in a row, as this rank sees it; 0 on a rank that takes no part."""
        if call is not None:
            call()  # what other cases left in the caches is theirs
        self._meet()
        return 0.0 if call is None else self._device.timed_ns(call, count)

    def _meet(self) -> None:
        self._barrier()
        self._device.synchronise()
