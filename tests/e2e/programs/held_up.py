"""Trains a small perceptron on the CPU with a host that does something else in mid-step.

`python held_up.py FOLDER` writes a trace of three steps for each cause: collector (the garbage collector runs), breaks
(the compiled model breaks into graphs), recompiles (one batch has another size), and nothing.
"""

import gc
import sys
from pathlib import Path

import torch
from torch import nn
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, BATCH, WARMUP, ACTIVE = 64, 32, 2, 3


class Model(nn.Module):
    """Two layers, with something between them that the compiler cannot follow."""

    def __init__(self, breaks: bool) -> None:
        super().__init__()
        self.first, self.second, self.breaks = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH), breaks

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        hidden = self.first(batch).relu()
        if self.breaks:
            torch._dynamo.graph_break()
        result: torch.Tensor = self.second(hidden)
        return result


def record(cause: str, path: Path) -> None:
    torch._dynamo.reset()
    model = Model(cause == "breaks")
    compiled = torch.compile(model, backend="aot_eager", dynamic=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=WARMUP, active=ACTIVE),
        with_stack=cause == "collector",
        experimental_config=_ExperimentalConfig(record_python_gc_info=cause == "collector"),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
    ) as profiler:
        for step in range(WARMUP + ACTIVE):
            odd = cause == "recompiles" and step == WARMUP + 1
            compiled(torch.randn(BATCH + odd, WIDTH)).sum().backward()
            optimizer.step()
            if cause == "collector":
                gc.collect()
            profiler.step()


def main() -> None:
    torch.set_num_threads(1)
    gc.disable()
    for cause in ("collector", "breaks", "recompiles", "nothing"):
        record(cause, Path(sys.argv[1]) / f"{cause}.json")


if __name__ == "__main__":
    main()
