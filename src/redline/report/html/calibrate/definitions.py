"""How each number of a calibration is defined, in a sentence or two."""

from collections.abc import Sequence

from redline.report.language import _, marked

DEFINITIONS: Sequence[tuple[str, str]] = (
    (
        marked("interval"),
        marked(
            "Everything is timed several times, in passes that lie apart. The value is the median; ± "
            "reaches to the further end of the interval in which the median lies with 95 %, widened to the "
            "medians of all passes and by what the same short piece of work varied meanwhile."
        ),
    ),
    (
        marked("best, in a burst"),
        marked(
            "The fastest sample of all shapes that were tried: what is possible when nothing disturbs. A published "
            "peak is rarely reached."
        ),
    ),
    (
        marked("sustained"),
        marked("The same matmul over and over, the second half of that time: clocks have dropped by then."),
    ),
    (
        marked("law of matmuls"),
        marked(
            "Three constants from which the time of any matmul follows: max(FLOPs / compute roof, bytes / memory "
            "roof) + fixed time. They are fitted to the sweep; the error is that of shapes which the fit had not "
            "seen."
        ),
    ),
    (
        marked("working set"),
        marked("All arrays that a loop touches. What fits into a cache is read faster than memory can deliver."),
    ),
    (
        marked("copy, triad, sum"),
        marked(
            "a = b; a = b + s c; and the sum of an array. Bytes are counted as the program reads and writes them;"
            " what a cache fetches besides is not."
        ),
    ),
    (
        marked("ridge"),
        marked(
            "The arithmetic per byte above which arithmetic, and below which memory is the limit. The experiment "
            "does more and more multiplications on the same bytes: its time is flat at first, then grows with "
            "them."
        ),
    ),
    (
        marked("bus bandwidth"),
        marked(
            "By the convention of nccl-tests: size / time, times what the busiest link carries, 2 (n - 1) / n for"
            " an all-reduce over n ranks. It can be compared with the link, whatever the number of ranks."
        ),
    ),
    (
        marked("ring model"),
        marked(
            "What the operation would take if each rank sent one message and received one at a time, with the "
            "latency and rate that messages between two ranks were measured to have."
        ),
    ),
    (
        marked("slow"),
        marked(
            "A rank or a link that lies further behind the others than they lie apart from each other. It will "
            "hold up every job that uses it."
        ),
    ),
)


def definitions() -> list[tuple[str, str]]:
    """Terms and what they mean, in the language that is spoken now."""
    return [(_(term), _(text)) for term, text in DEFINITIONS]
