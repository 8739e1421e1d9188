"""Where in the user's program the training thread was, by samples of its Python stack.

A sample is due at a moment that does not depend on what the job does, and taken as soon as the interpreter lock is
free. It stands for the time since the sample before was taken: as a point where it was due, and from there on until it
was taken, in which the thread held the lock.
"""

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from redline.timeline.host_evidence import HostEvidence
from redline.timeline.intervals import Intervals
from redline.timeline.table import I64
from redline.timeline.timeline import NONE
from redline.values import dataclass

_NOT_THEIRS = sys.stdlib_module_names | {"torch", "redline"}
LATE_NS = 200_000  # after the end of what it tells of: the first operator that gives the interpreter lock away
_NEAR_NS = 50_000_000  # the farthest that a sample may be from what it tells of
_WRAPPERS = ("decorate_context", "_fn", "wrapper", "inner", "__torch_function__")  # they only call what is meant


@dataclass(frozen=True, slots=True)
class Frame:
    """A position in a Python program."""

    file: str  # as it is found on Python's path
    line: int
    function: str

    @property
    def named(self) -> str:
        """The function without the comprehension or lambda inside it that was at work."""
        return self.function.partition(".<")[0]

    @property
    def site(self) -> str:
        return f"{self.named} ({self.file}:{self.line})"

    @property
    def called(self) -> str:
        """The function, as it is imported and called: torch.serialization.save."""
        module = self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        return f"{module}.{self.named}"

    @property
    def is_theirs(self) -> bool:
        """Whether it is in neither torch nor the standard library."""
        top = self.file.rpartition("site-packages/")[2].partition("/")[0].removesuffix(".py")
        return top not in _NOT_THEIRS and not top.startswith("<")


@dataclass(frozen=True, kw_only=True, slots=True)
class CallSite:
    """Time of the training thread in one function of the user's program."""

    site: str  # the innermost one outside torch and the standard library, at its busiest line; "" where there was none
    calls: str  # what it called most of torch or the standard library; "" for operators and its own work
    time_ns: int
    samples: int


@lru_cache(maxsize=1 << 14)
def frame_of(text: str) -> Frame:
    """Of a line of a stack: `path/file.py:12 function`."""
    place, _, function = text.rpartition(" ")
    file, _, line = place.rpartition(":")
    return Frame(file or place, int(line) if line.isdecimal() else 0, function)


def weights_ns(evidence: HostEvidence, time: Intervals, late_ns: int = LATE_NS) -> I64:
    """For each sample, how much of this time it stands for: nothing if it was taken later than so long after that."""
    samples = evidence.samples
    due_ns, delay_ns = samples.time_ns, np.maximum(samples.delay_ns, 0)
    usual_ns = round(1e9 / evidence.sample_rate_hz) if evidence.sample_rate_hz > 0 else 0
    before_ns = np.append(due_ns[:1] - usual_ns, (due_ns + delay_ns)[:-1])
    waited_ns = np.where(time.contains(due_ns), np.clip(due_ns - before_ns, 0, _NEAR_NS), 0)
    inside_ns = time.overlap_with(due_ns, due_ns + delay_ns)
    weight: I64 = np.where(delay_ns - inside_ns <= late_ns, waited_ns + inside_ns, 0)
    return weight


def call_sites(
    evidence: HostEvidence,
    time: Intervals,
    look_at: Callable[[Sequence[str]], Sequence[str]] = tuple,
    late_ns: int = LATE_NS,
) -> tuple[CallSite, ...]:
    """What the program did in this time, the largest first; `look_at` says which part of a stack tells, if any."""
    weight_ns = weights_ns(evidence, time, late_ns)
    stacks = [look_at(stack) for stack in evidence.stacks]
    functions: dict[tuple[str, str], list[tuple[int, str, str]]] = {}
    for sample in np.flatnonzero(weight_ns).tolist():
        stack = stacks[evidence.samples.stack[sample]]
        if stack:
            frame, calls = site_and_call(stack)
            key = (frame.file, frame.named) if frame is not None else ("", "")
            seen = (int(weight_ns[sample]), frame.site if frame is not None else "", calls)
            functions.setdefault(key, []).append(seen)
    sites = (
        CallSite(
            site=_heaviest((time_ns, site) for time_ns, site, _ in seen),
            calls=_heaviest((time_ns, calls) for time_ns, _, calls in seen),
            time_ns=sum(time_ns for time_ns, _, _ in seen),
            samples=len(seen),
        )
        for seen in functions.values()
    )
    return tuple(sorted(sites, key=lambda site: (-site.time_ns, site.site)))


def _heaviest(texts: Iterable[tuple[int, str]]) -> str:
    sums: dict[str, int] = {}
    for time_ns, text in texts:
        sums[text] = sums.get(text, 0) + time_ns
    return max(sums, key=lambda text: sums[text])


def site_and_call(stack: Sequence[str]) -> tuple[Frame | None, str]:
    """The user's innermost frame, and what it called."""
    calls = ""
    for text in stack:
        frame = frame_of(text)
        if frame.is_theirs:
            return frame, calls
        if frame.named.rpartition(".")[2] not in _WRAPPERS:
            calls = frame.called
    return None, calls


class NearestSites:
    """The user's innermost frame at any time: that of the nearest sample."""

    def __init__(self, evidence: HostEvidence) -> None:
        samples = evidence.samples
        frames = (site_and_call(stack)[0] for stack in evidence.stacks)
        of_stack = [frame.site if frame is not None else "" for frame in frames]
        self.texts = sorted(set(of_stack) - {""})
        number = {text: place for place, text in enumerate(self.texts)}
        self._time_ns = samples.time_ns
        self._site = np.array([number.get(site, NONE) for site in of_stack], np.int64)[samples.stack]

    def borders_ns(self) -> I64:
        """Between two samples that say different things: where the one ends and the other begins."""
        differ = self._site[1:] != self._site[:-1]
        middle: I64 = (self._time_ns[1:] + self._time_ns[:-1])[differ] // 2
        return middle

    def at(self, start_ns: I64, end_ns: I64) -> I64:
        """For each stretch the place of its site in `texts`; NONE where no sample is near."""
        if not len(self._time_ns):
            return np.full(len(start_ns), NONE, np.int64)
        middle_ns = (start_ns + end_ns) // 2
        after = np.searchsorted(self._time_ns, middle_ns).clip(0, len(self._time_ns) - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(self._time_ns[before] - middle_ns) <= np.abs(self._time_ns[after] - middle_ns)
        nearest = np.where(nearer, before, after)
        near = np.abs(self._time_ns[nearest] - middle_ns) <= _NEAR_NS + (end_ns - start_ns) // 2
        place: I64 = np.where(near, self._site[nearest], NONE)
        return place
