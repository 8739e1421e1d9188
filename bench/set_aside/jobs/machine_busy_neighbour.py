"""Another process computes on the very core training is bound to; in the twin it has a core of its own."""

import multiprocessing
import os

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, train_text

LABEL = Label(
    cause="machine/starved_cores",
    says=("core", "affinity", "CPU time", "another process", "other process", "starved", "preempt"),
)


def neighbour(core: int) -> None:
    """Work that never ends."""
    os.sched_setaffinity(0, {core})
    os.nice(5)
    while True:
        sum(range(100_000))


def main(flawed: bool, steps: int) -> None:
    begin()
    cores = sorted(os.sched_getaffinity(0))
    busy = multiprocessing.get_context("fork").Process(
        target=neighbour, args=(cores[0] if flawed else cores[-1],), daemon=True
    )
    busy.start()
    os.sched_setaffinity(0, {cores[0]})
    train_text(Decoder(layers=2), steps)
    busy.terminate()
    busy.join()


if __name__ == "__main__":
    main(*arguments())
