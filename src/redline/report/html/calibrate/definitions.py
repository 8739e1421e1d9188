"""How each number of a calibration is defined, in a sentence or two."""

from collections.abc import Sequence

from redline.report.language import _, marked

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("interval"),
        marked(
            "Everything is timed several times, in separate passes. The value is the median; ± is the larger "
            "half of its 95 % confidence interval, widened to cover the medians of all passes and the "
            "variation of a short reference benchmark."
        ),
    ),
    (
        marked("best, in a burst"),
        marked(
            "The fastest sample over all shapes: what is possible without interference. Published peaks are "
            "rarely reached."
        ),
    ),
    (
        marked("sustained"),
        marked("The same matmul over and over; the second half of that time, when clocks have dropped."),
    ),
    (
        marked("matmul model"),
        marked(
            "Three constants that predict the time of any matmul: max(FLOPs / compute roof, bytes / memory "
            "roof) + fixed time. They are fitted to the sweep; the error is on held-out shapes."
        ),
    ),
    (
        marked("working set"),
        marked("All arrays that a loop touches. If they fit into a cache, they are read faster than memory allows."),
    ),
    (
        marked("copy, triad, sum"),
        marked(
            "a = b; a = b + s c; and the sum of an array. Bytes are those the program reads and writes; "
            "extra cache fills are not counted."
        ),
    ),
    (
        marked("ridge"),
        marked(
            "The FLOPs per byte at which a loop turns from memory-bound to compute-bound. The experiment "
            "does more and more multiplications on the same bytes: its time is flat at first, then grows."
        ),
    ),
    (
        marked("bus bandwidth"),
        marked(
            "By the convention of nccl-tests: size / time, times what the busiest link carries, 2 (n - 1) / "
            "n for an all-reduce over n ranks. It is comparable with the link speed for any number of ranks."
        ),
    ),
    (
        marked("ring model"),
        marked(
            "The time of the operation if each rank sent and received one message at a time, with the "
            "latency and rate measured between two ranks."
        ),
    ),
    (
        marked("slow"),
        marked(
            "A rank or link that is further behind the others than they differ among themselves. It slows "
            "down every job that uses it."
        ),
    ),
)


def definitions() -> list[tuple[str, str]]:
    """Terms and what they mean, in the language that is spoken now."""
    return [(_(term), _(text)) for term, text in DEFINITIONS]
