"""How much of a rank's timeline the recorded dependencies explain, and whether that is enough for a forecast."""

from dataclasses import dataclass

MOST_UNEXPLAINED = 0.1  # share of device starts; above it, forecasts would rest on guesses


@dataclass(frozen=True, kw_only=True)
class Explained:
    """Starts of device work, and how they were explained."""

    starts: int
    unexplained: int  # began much later than everything that they are known to have waited for, or waited for nothing
    unexplained_ns: int  # how much later, together
    waits_recorded: int = 0  # waits of streams that the profiler recorded
    waits_inferred: int = 0  # told by the order of calls
    waits_guessed: int = 0  # told by time alone: something on another stream had just ended

    @property
    def share(self) -> float:
        """Of device starts that nothing explains."""
        return self.unexplained / max(self.starts, 1)
