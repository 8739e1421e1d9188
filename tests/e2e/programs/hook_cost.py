"""Prints what a step costs under `redline run` beside the training itself, and which modules of Redline are loaded.

A step is what torch does around it: a batch is asked for and counted, and the hooks of an optimizer are called. The
training is the least that there is, forward and backward of one number, in turns with that: both are CPU time.
"""

import json
import sys
import time
from collections.abc import Callable


def loaded() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith(("redline", "rich")))


without_torch = loaded()

import torch  # noqa: E402
from torch.optim import optimizer as optimizers  # noqa: E402
from torch.utils.data.dataloader import _BaseDataLoaderIter  # noqa: E402

REPETITIONS, STEPS = 21, 500


class Batches(_BaseDataLoaderIter):
    """An iterator of a loader with nothing in it but what Redline looks at."""

    def __init__(self) -> None:
        self._profile_name = "batches"
        self._num_yielded = 0


def cpu_ns(one: Callable[[], None]) -> float:
    began_ns = time.thread_time_ns()
    for _ in range(STEPS):
        one()
    return (time.thread_time_ns() - began_ns) / STEPS


def main() -> None:
    batches = Batches()
    number = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([number], lr=0.1)
    hooks = list(optimizers._global_optimizer_post_hooks.values())

    def watched() -> None:
        batches._profile_name  # noqa: B018 (reading it is what a loader does)
        batches._num_yielded += 1
        for hook in hooks:
            hook(optimizer, (), {})

    def trained() -> None:
        (number * number).backward()

    rounds = [(cpu_ns(watched), cpu_ns(trained)) for _ in range(REPETITIONS)]
    watching_ns, training_ns = map(min, zip(*rounds, strict=True))
    figures = {"hooks": len(hooks), "watching_ns": watching_ns, "training_ns": training_ns}
    print(json.dumps({**figures, "steps": REPETITIONS * STEPS, "without_torch": without_torch, "with_torch": loaded()}))


if __name__ == "__main__":
    main()
