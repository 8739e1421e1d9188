"""How each number of the report is defined, in a sentence or two."""

from collections.abc import Sequence

from redline.ledger.accounts import ACCOUNTS
from redline.report.diagnose import account_messages
from redline.report.diagnose.account_messages import meaning
from redline.report.language import _, marked

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("step"),
        marked(
            "What the trace marks as a step, else a repeating pattern. The accounts of a step are those of "
            "one rank's device: every nanosecond is in exactly one account, and they add up to the step. The "
            "average step is over all steps of all ranks."
        ),
    ),
    (
        marked("redline"),
        marked(
            "The time that the arithmetic of a step needs at the machine's peak. Everything above it is in "
            "the other accounts."
        ),
    ),
    (
        marked("bound of a finding"),
        marked(
            "Time of the average step claimed by this finding alone, so bounds add up. A fix gains at most "
            "that, usually less."
        ),
    ),
    (
        marked("on its own"),
        marked("The same if nothing else is fixed: time that other findings claim too is included."),
    ),
    (
        marked("at most N x as fast"),
        marked("For a step of typical length, if all time claimed by the finding were gone and nothing else changed."),
    ),
    (
        marked("MFU"),
        marked(
            "FLOPs of the steps (where shapes are known, without recomputation) over what the machine's peak "
            "allows in the same time. Where some FLOPs are unknown it is a lower bound, and marked as one."
        ),
    ),
    (
        marked("HFU"),
        marked("The same, including recomputation in the backward pass."),
    ),
    (
        marked("roof"),
        marked(
            "The least time that the machine needs for the FLOPs or the bytes of an operator, whichever is "
            "longer. 'Of roof' is that time over the measured time."
        ),
    ),
    (
        marked("limit"),
        marked(
            "The roof that is nearer; 'neither' below a third of it; 'above roof' where the operator was "
            "faster than the machine can be: its data came from a cache, or a shape or peak is wrong."
        ),
    ),
    (
        marked("idle"),
        marked("No kernel, copy or communication runs on any stream of the device."),
    ),
    (
        marked("hidden, exposed"),
        marked("Communication is hidden while the device computes, and exposed while nothing else runs."),
    ),
    (
        marked("waiting, late"),
        marked(
            "Ranks leave a collective together, so the one with the shortest time in it arrived last. The "
            "extra time of the others is waiting."
        ),
    ),
    (
        marked("bus bandwidth"),
        marked(
            "By the convention of nccl-tests: payload over time, times what the busiest link carries, 2 (n - "
            "1) / n for an all-reduce over n ranks, (n - 1) / n for all-gather, reduce-scatter and "
            "all-to-all. The time is the shortest of any rank, the median over exchanges."
        ),
    ),
    (
        marked("kind of a rank"),
        marked(
            "Ranks with the same letter launch the same operators with the same shapes; only those can be compared."
        ),
    ),
)


def definitions() -> tuple[tuple[str, str], ...]:
    """Terms and what they mean, in the language that is spoken now."""
    return tuple((_(term), _(text)) for term, text in DEFINITIONS)


def account_definitions(*, on_cpu: bool) -> tuple[tuple[str, str], ...]:
    return tuple((account_messages.name(account), meaning(account, on_cpu=on_cpu)) for account in ACCOUNTS)
