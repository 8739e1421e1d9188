"""The accounts of a device's memory over time, stacked, as areas of a drawing."""

from collections.abc import Iterator
from dataclasses import dataclass

from redline.ledger.accounts import MemoryAccount
from redline.ledger.memory.device_memory import DeviceMemory
from redline.report.language import _
from redline.report.memory.memory_messages import ACCOUNT_NAMES
from redline.units import format_memory, format_ns

_ORDER = (  # from the bottom: what stays, what a step needs, what it needs for a moment
    MemoryAccount.PARAMETERS,
    MemoryAccount.OPTIMIZER_STATES,
    MemoryAccount.GRADIENTS,
    MemoryAccount.ACTIVATIONS,
    MemoryAccount.LOGITS,
    MemoryAccount.COMMUNICATION,
    MemoryAccount.INPUTS,
    MemoryAccount.BACKWARD,
    MemoryAccount.TEMPORARIES,
    MemoryAccount.UNKNOWN,
    MemoryAccount.CACHED,
)
COLOURS = {  # those of the accounts of time, which can be told apart with any common colour blindness
    MemoryAccount.PARAMETERS: "math",
    MemoryAccount.OPTIMIZER_STATES: "memory",
    MemoryAccount.GRADIENTS: "kernel-loss",
    MemoryAccount.ACTIVATIONS: "input",
    MemoryAccount.LOGITS: "host",
    MemoryAccount.COMMUNICATION: "transfer",
    MemoryAccount.INPUTS: "copy",
    MemoryAccount.BACKWARD: "peer-wait",
    MemoryAccount.TEMPORARIES: "queue",
    MemoryAccount.UNKNOWN: "other",
    MemoryAccount.CACHED: "unrated-compute",
}
_TICKS = 4
_LEAST_MOMENTS = 2
_MOST_STEPS = 40


@dataclass(frozen=True, kw_only=True)
class Area:
    """One account: an outline in percent of the drawing, across and down."""

    name: str
    colour: str  # which of the page's colours
    outline: str
    peak: str


@dataclass(frozen=True, kw_only=True)
class CourseChart:
    """All accounts on top of each other, with a scale."""

    areas: tuple[Area, ...]
    ticks: tuple[tuple[float, str], ...]  # down, and what it is
    length: str  # of the recording
    steps: tuple[float, ...]  # where they begin, across


def course_chart(device: DeviceMemory) -> CourseChart | None:
    """None where there is only one moment."""
    course = device.course
    if len(course.at_ns) < _LEAST_MOMENTS or not course.at_ns[-1]:
        return None
    known = [account for account in _ORDER if account in course.accounts]
    top = max(map(sum, zip(*(course.accounts[account] for account in known), strict=True)))
    across = [_across(at, course.at_ns[-1]) for at in course.at_ns]
    below, areas = [0] * len(across), []
    for account in known:
        above = [low + size for low, size in zip(below, course.accounts[account], strict=True)]
        edge = [*_held(across, above), *reversed([*_held(across, below)])]
        areas.append(
            Area(
                name=_(ACCOUNT_NAMES[account]),
                colour=COLOURS[account],
                outline=" ".join(f"{x},{round(100 - 100 * size / top, 2)}" for x, size in edge),
                peak=format_memory(max(course.accounts[account])),
            )
        )
        below = above
    ticks = tuple((100 - 100 * part / _TICKS, format_memory(top * part // _TICKS)) for part in range(_TICKS + 1))
    length = format_ns(course.at_ns[-1]) if course.has_times else ""
    begins = [step.start_ns for step in device.steps if course.has_times and 0 < step.start_ns < course.at_ns[-1]]
    return CourseChart(
        areas=tuple(reversed(areas)),
        ticks=ticks,
        length=length,
        steps=tuple(_across(begin, course.at_ns[-1]) for begin in begins[:_MOST_STEPS]),
    )


def _across(at: int, end: int) -> float:
    return round(100 * at / end, 2)


def _held(across: list[float], sizes: list[int]) -> Iterator[tuple[float, int]]:
    """Until something changes, memory is what it was."""
    for here, after, size in zip(across, [*across[1:], across[-1]], sizes, strict=True):
        yield here, size
        yield after, size
