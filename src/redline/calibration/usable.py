"""Whether a measured figure can be used: a narrow interval, enough samples, and processors that were ours."""

from redline.calibration.calibration_record import Calibration, Estimate
from redline.hardware.machine import WIDEST, too_wide

FEWEST_SAMPLES = 6
"""All samples of fewer hold the median with less than 95 %. One pass has fewer, so it also takes two of these."""
_MOST_TAKEN = 1 - 1 / (1 + WIDEST)  # then the figure may be better by more than the widest interval


def why_not(estimate: Estimate, calibration: Calibration, *, is_series: bool = False, on_host: bool = False) -> str:
    """Why nobody should use this figure; "" where it can be used.

    A fitted constant has shapes instead of samples, and a sustained rate parts of one run: their number says little.
    Figures of an accelerator are timed by its own clock: only in those `on_host` is what else the processors do.
    """
    taken = calibration.conditions.taken_share if on_host or calibration.subject.kind == "cpu" else 0.0
    if taken > _MOST_TAKEN:
        return f"{100 * taken:.0f} % of the processor time that it asked for went to others"
    if estimate.samples < FEWEST_SAMPLES and not is_series:
        return f"it was timed {estimate.samples} times, less than {FEWEST_SAMPLES}"
    return too_wide(estimate.reach)
