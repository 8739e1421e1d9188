"""How each number of the report is defined, in a sentence or two."""

from collections.abc import Sequence

from redline.analysis.accounts import ACCOUNTS
from redline.report.diagnose.account_messages import meaning
from redline.report.html.diagnose import account_names
from redline.report.language import _, marked

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("step"),
        marked(
            "What the trace marks as one, else what repeats. Accounts of a step are of the device of one rank: every "
            "nanosecond is in exactly one of them, and they add up to the step exactly. The average step is over all "
            "steps of all ranks."
        ),
    ),
    (
        marked("redline"),
        marked(
            "The time that the arithmetic of a step needs at the peak of the machine. Everything above it is in one "
            "of the other accounts."
        ),
    ),
    (
        marked("bound of a finding"),
        marked(
            "Time of the average step that the finding claims and no other does, so bounds may be added. A fix gains "
            "at most that; most gain less."
        ),
    ),
    (
        marked("as the only fix"),
        marked("The same with nothing else fixed: time that another finding claims too is counted here as well."),
    ),
    (
        marked("at most N x as fast"),
        marked("For a step of usual length, when all time that the finding claims is gone and nothing else changes."),
    ),
    (
        marked("MFU"),
        marked(
            "Floating-point operations of the steps whose shapes are known, without those that the backward pass did "
            "again, over what the peak of the machine allows in the same time. Where not all work is known it is a "
            "lower bound, and said so."
        ),
    ),
    (
        marked("HFU"),
        marked("The same with the operations that the backward pass did again."),
    ),
    (
        marked("roof"),
        marked(
            "The least time that a machine needs for the arithmetic and the bytes of an operator, whichever is "
            "longer. 'Of roof' is that time over the measured one."
        ),
    ),
    (
        marked("limit"),
        marked(
            "Which roof is the nearer one; 'neither' below a third of it; 'above roof' where the operator was faster "
            "than the machine can be: its data came from a cache, or a shape or peak is wrong."
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
            "Ranks leave a collective together, so the one that was in it for the shortest came last. What the others "
            "were in it for longer, they waited."
        ),
    ),
    (
        marked("bus bandwidth"),
        marked(
            "By the convention of nccl-tests: payload over time, times what the busiest link carries, 2 (n - 1) / n "
            "for an all-reduce over n ranks, (n - 1) / n for all-gather, reduce-scatter and all-to-all. The time is "
            "the shortest part of any rank, the median over exchanges."
        ),
    ),
    (
        marked("kind of a rank"),
        marked("Ranks of one letter launch the same operators with the same shapes; only those may be compared."),
    ),
)


def definitions() -> list[tuple[str, str]]:
    """Terms and what they mean, in the language that is spoken now."""
    return [(_(term), _(text)) for term, text in DEFINITIONS]


def account_definitions(*, on_cpu: bool) -> list[tuple[str, str, str]]:
    """Code, name and meaning of every account."""
    return [(account_names.code(one), account_names.name(one), meaning(one, on_cpu=on_cpu)) for one in ACCOUNTS]
