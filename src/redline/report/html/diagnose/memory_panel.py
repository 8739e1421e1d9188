"""Memory on the page of a diagnosis: the accounts at the peak as one bar, and the sentences beside it."""

from dataclasses import dataclass

from redline.report.diagnose.memory_screen import MemoryPeak, MemoryScreen
from redline.report.memory.course_chart import COLOURS

_SEVERAL = "other"  # the colour of what is left of the accounts


@dataclass(frozen=True, kw_only=True)
class MemoryPart:
    """One account in the bar."""

    name: str
    size: str
    share: str
    percent: float
    colour: str  # which of the page's colours


@dataclass(frozen=True, kw_only=True)
class MemoryPanel:
    """The peak, and its accounts with their colours."""

    peak: MemoryPeak
    title: str
    parts: tuple[MemoryPart, ...]


def memory_panel(screen: MemoryScreen) -> MemoryPanel | None:
    """None where nothing is known of any rank."""
    peak = screen.peak
    if peak is None:
        return None
    return MemoryPanel(
        peak=peak,
        title=f"{peak.title[:1].upper()}{peak.title[1:]}",
        parts=tuple(
            MemoryPart(
                name=line.name,
                size=line.size,
                share=line.share,
                percent=line.percent,
                colour=_SEVERAL if line.of is None else COLOURS[line.of],
            )
            for line in peak.accounts
        ),
    )
