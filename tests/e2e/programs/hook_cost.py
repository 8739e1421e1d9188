"""Prints what a step costs under `redline run` beside the training itself, and which modules of Redline are loaded.

A step is what torch does around it: a batch is asked for and counted, and the hooks of an optimizer are called.
"""

import json
import sys
import time
from statistics import median


def loaded() -> list[str]:
    return sorted(name for name in sys.modules if name.startswith("redline"))


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


def main() -> None:
    batches = Batches()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    hooks = list(optimizers._global_optimizer_post_hooks.values())
    took_ns = []
    for _ in range(REPETITIONS):
        began_ns = time.thread_time_ns()
        for _ in range(STEPS):
            batches._profile_name  # noqa: B018 (reading it is what a loader does)
            batches._num_yielded += 1
            for hook in hooks:
                hook(optimizer, (), {})
        took_ns.append((time.thread_time_ns() - began_ns) / STEPS)
    figures = {"hooks": len(hooks), "median_ns": median(took_ns), "least_ns": min(took_ns)}
    print(json.dumps({**figures, "steps": REPETITIONS * STEPS, "without_torch": without_torch, "with_torch": loaded()}))


if __name__ == "__main__":
    main()
