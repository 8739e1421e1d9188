"""Where steps begin and end: by the profiler's own marks, else by what repeats; says which anchor was used."""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np

from redline.errors import UsageError
from redline.timeline.table import I64, Column, numbers_in
from redline.timeline.timeline import NONE, Kind, Spans, StepWindows
from redline.trace import schema
from redline.values import dataclass

ENGINE_ANCHOR = "steps of the serving engine"
IN_SEQUENCE = ("a repeating sequence", "no mark")  # anchors that are no marks of the host begin so
_REGION_KINDS = (Kind.ANNOTATION, Kind.OPERATOR)
_LEAST_LIKENESS = 0.9  # share of the sequence that must repeat after one period
_LEAST_COVERED = 0.25  # share of the window that repeats: less is a part of a step, or a loop beside the job
_MOST_UNREPEATED = 0.005  # share of the sequence that may appear less often than the steps do
_LONGEST_SEQUENCE = 200_000  # work enough to see a period in; the rest is not looked at

_MOST_REGEX_S = 10  # of CPU time, on the names of one file
_SEARCH = f"""
import json, re, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, ({_MOST_REGEX_S}, {_MOST_REGEX_S}))
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
regex, names = json.load(sys.stdin)
try:
    search = re.compile(regex).search
    print([place for place, name in enumerate(names) if search(name)])
except (re.error, RecursionError, OverflowError, MemoryError) as error:
    sys.exit(str(error) or "it needs too much memory")
"""


@dataclass(frozen=True, kw_only=True)
class RecognisedSteps:
    """Step windows and what they were taken from."""

    steps: StepWindows
    anchor: str


def find_steps(
    spans: Spans, texts: Sequence[str], window_ns: tuple[int, int], step_regex: str | None = None
) -> RecognisedSteps:
    """Steps of one rank by the first anchor that the trace offers."""
    if step_regex is not None:
        return _by_regex(spans, texts, window_ns, step_regex)
    for anchored in (_by_profiler_step, _by_optimizer, _by_data_loader, _by_engine, _by_repetition):
        recognised = anchored(spans, texts, window_ns)
        if recognised is not None:
            return recognised
    return _whole_window(window_ns, "no mark: the whole window is one")


def _by_regex(spans: Spans, texts: Sequence[str], window_ns: tuple[int, int], regex: str) -> RecognisedSteps:
    kinds = (*_REGION_KINDS, Kind.PYTHON)
    matching = _matching(regex, [texts[name] for name in numbers_in(spans.name[spans.rows_of(*kinds)])])
    rows = _named(spans, texts, matching.__contains__, kinds)
    if not len(rows):
        return _whole_window(window_ns, f"no mark: nothing is named like {regex!r}")
    return _own_windows(spans, rows, f"spans named like {regex!r}")


def _matching(regex: str, names: Sequence[str]) -> set[str]:
    """Names that the expression is found in. A process of its own looks for it, as `(a+)+$` may try for ever."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SEARCH],
            input=json.dumps([regex, names]),
            capture_output=True,
            timeout=3 * _MOST_REGEX_S,
            check=True,
            encoding="ascii",
            errors="replace",
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        why = error.stderr if isinstance(error, subprocess.CalledProcessError) else ""
        reason = why.strip() or "it takes too long on the names of this trace; simplify it"
        raise UsageError(f"`step_regex=...`: {regex!r:.80} cannot be searched for: {reason}") from error
    return {names[place] for place in json.loads(done.stdout)}


def _by_profiler_step(spans: Spans, texts: Sequence[str], _: tuple[int, int]) -> RecognisedSteps | None:
    rows = _named(spans, texts, lambda text: text.startswith(schema.PROFILER_STEP))
    return _own_windows(spans, rows, "ProfilerStep") if len(rows) else None


def _by_optimizer(spans: Spans, texts: Sequence[str], window_ns: tuple[int, int]) -> RecognisedSteps | None:
    """A step ends with its optimizer's step; of several optimizers the first one to appear counts."""
    rows = _named(spans, texts, lambda text: text.startswith(schema.OPTIMIZER_STEP))
    if not len(rows):
        return None
    rows = rows[spans.name[rows] == spans.name[rows[0]]]
    ends = spans.end_ns[rows]
    starts = np.concatenate([[window_ns[0]], ends[:-1]])
    return RecognisedSteps(
        steps=_steps(starts, ends, spans.name[rows]), anchor=f"optimizer steps ({texts[spans.name[rows[0]]]})"
    )


def _by_data_loader(spans: Spans, texts: Sequence[str], window_ns: tuple[int, int]) -> RecognisedSteps | None:
    rows = _named(spans, texts, lambda text: text.startswith(schema.DATA_LOADER))
    if len(rows) < 2:
        return None
    rows = rows[spans.name[rows] == spans.name[rows[0]]]
    return RecognisedSteps(steps=_from_starts(spans, rows, window_ns[1]), anchor="data-loader rounds")


def _by_engine(spans: Spans, texts: Sequence[str], _: tuple[int, int]) -> RecognisedSteps | None:
    rows = _named(spans, texts, schema.is_engine_step)
    return _own_windows(spans, rows, ENGINE_ANCHOR) if len(rows) else None


def _by_repetition(spans: Spans, _: Sequence[str], window_ns: tuple[int, int]) -> RecognisedSteps | None:
    """The period of the sequence of collectives, else of kernels on the busiest stream."""
    for kinds, what in (((Kind.COMMUNICATION,), "collectives"), ((Kind.KERNEL,), "kernels")):
        rows = spans.rows_of(*kinds)
        if len(rows) < 4:
            continue
        busiest = np.bincount(spans.lane[rows]).argmax()
        rows = rows[spans.lane[rows] == busiest][:_LONGEST_SEQUENCE]
        first, period = repeating_part(spans.name[rows])
        if period:
            at = rows[first::period]
            steps = _steps(spans.start_ns[at[:-1]], spans.start_ns[at[1:]], spans.name[at[:-1]])
            covered = int((steps.end_ns - steps.start_ns).sum())
            if covered >= _LEAST_COVERED * (window_ns[1] - window_ns[0]):
                noun = what if period > 1 else what.removesuffix("s")
                return RecognisedSteps(steps=steps, anchor=f"a repeating sequence of {period} {noun}")
    return None


def repeating_part(sequence: I64) -> tuple[int, int]:
    """Where a repeating part begins and how long it is, or (0, 0).

    What appears least often, but at equal distances, marks the longest structure. If much appears even less often
    than that, the structure lies inside a step (its layers), not from step to step: then nothing is claimed.
    """
    _, inverse, counts = np.unique(sequence, return_inverse=True, return_counts=True)
    for number in np.argsort(counts, kind="stable").tolist():
        repeats = int(counts[number])
        if repeats < 2:
            continue
        if int(counts[counts < repeats - 1].sum()) > _MOST_UNREPEATED * len(sequence):
            return 0, 0
        places = np.flatnonzero(inverse == number)
        period = int(places[1] - places[0])
        if 2 * period > len(sequence) or not (np.diff(places) == period).all():
            continue
        if float((sequence[period:] == sequence[:-period]).mean()) >= _LEAST_LIKENESS:
            return int(places[0]), period
    return 0, 0


def _named(
    spans: Spans, texts: Sequence[str], is_meant: Callable[[str], bool], kinds: tuple[Kind, ...] = _REGION_KINDS
) -> I64:
    """Rows of regions whose name is meant, in time order, outermost only."""
    rows = spans.rows_of(*kinds)
    names = numbers_in(spans.name[rows])
    meant = np.array([name for name in names if is_meant(texts[name])], np.int32)
    return _apart(spans, rows[np.isin(spans.name[rows], meant)])


def _apart(spans: Spans, rows: I64) -> I64:
    """Rows that do not begin inside an earlier one."""
    if not len(rows):
        return rows
    reach = np.maximum.accumulate(spans.end_ns[rows])
    apart: I64 = rows[np.concatenate([[True], spans.start_ns[rows][1:] >= reach[:-1]])]
    return apart


def _own_windows(spans: Spans, rows: I64, anchor: str) -> RecognisedSteps:
    return RecognisedSteps(steps=_steps(spans.start_ns[rows], spans.end_ns[rows], spans.name[rows]), anchor=anchor)


def _from_starts(spans: Spans, rows: I64, end_ns: int) -> StepWindows:
    starts = spans.start_ns[rows]
    return _steps(starts, np.append(starts[1:], end_ns), spans.name[rows])


def _whole_window(window_ns: tuple[int, int], anchor: str) -> RecognisedSteps:
    if window_ns[0] == window_ns[1]:
        return RecognisedSteps(steps=StepWindows.empty(), anchor=anchor)
    edges = np.array(window_ns, np.int64)
    return RecognisedSteps(steps=_steps(edges[:1], edges[1:], np.array([NONE])), anchor=anchor)


def _steps(start_ns: I64, end_ns: I64, label: Column) -> StepWindows:
    return StepWindows(start_ns=start_ns.astype(np.int64), end_ns=end_ns.astype(np.int64), label=label.astype(np.int32))
