"""In every step another rank computes 8 ms longer, as with uneven lengths; in the twin all have the same work."""

from bench.label import Label
from tests.support.traces.synthetic import JobSpec, Straggler

LABEL = Label(cause="communication/uneven_lengths", says=("uneven", "length", "imbalance"), ranks=4, style="gpu")


def specs(flawed: bool) -> JobSpec:
    order = (0, 3, 1, 2, 3, 0, 2, 1)
    late = tuple(Straggler(rank=rank, extra_us=8_000, step=step) for step, rank in enumerate(order))
    return JobSpec(
        ranks=4, layers=8, step_compute_us=20_000, loader_workers=True, steps=8, stragglers=late if flawed else ()
    )
