"""What a window costs those who are being answered: python -m bench.serving.window_cost --out FOLDER

One server under one steady load; every other period begins with a window. Requests are compared by the period in which
they were sent. It needs a Python with vLLM and Redline, named by REDLINE_VLLM_PYTHON.
"""

import argparse
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench.serving.vllm_server import make_model, measure, server
from redline.capture.supervisor.environment import CAPTURE

_PERIOD_S = 8.0
_PERCENTILES = (50, 99)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving.window_cost", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the run is kept")
    parser.add_argument("--requests", type=int, default=400)
    parser.add_argument("--rate", type=float, default=1.5, help="requests per second")
    options = parser.parse_args()
    run, results, kept = options.out / "run", options.out / "client.json", options.out / "moments.json"
    if not kept.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        model = make_model(options.out / "small", "small")
        load = ("--num-prompts", str(options.requests), "--request-rate", str(options.rate))
        watched = server(model, run, "--max-num-seqs", "64", watch=("--after", "1000000", "--budget", "0.5"))
        with watched as running, _windows(run / CAPTURE) as moments:
            measure(running.address, model, results, *load, "--random-input-len", "48", "--random-output-len", "24")
        kept.write_text(json.dumps(moments), encoding="utf-8")
    moments = json.loads(kept.read_text(encoding="utf-8"))
    for line in costs(json.loads(results.read_text(encoding="utf-8")), moments):
        print(line)
    return 0


@contextmanager
def _windows(asked: Path) -> Iterator[list[float]]:
    """Ask for a window in every other period; the moments at which periods began, by the clock of the client."""
    moments: list[float] = []
    is_over = threading.Event()

    def ask() -> None:
        while not is_over.wait(_PERIOD_S):
            moments.append(time.perf_counter())
            if len(moments) % 2:
                asked.touch()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield moments
    finally:
        is_over.set()
        thread.join()


def costs(told: Mapping[str, Any], moments: Sequence[float]) -> Iterator[str]:
    """A line per latency: its percentiles without a window and with one."""
    period = np.searchsorted(moments, told["start_times"], side="right")
    inside = (period > 0) & (period < len(moments))
    sides = {"without": inside & (period % 2 == 0), "with": inside & (period % 2 == 1)}
    latencies = {
        "TTFT": [[first] for first in told["ttfts"]],
        "ITL": told["itls"],
        "end to end": [[first + sum(gaps)] for first, gaps in zip(told["ttfts"], told["itls"], strict=True)],
    }
    yield f"{told['completed']} requests, {told['failed']} failed, {len(moments)} periods of {_PERIOD_S:.0f} s"
    for name, values in latencies.items():
        cells = []
        for side, chosen in sides.items():
            seen = [value for row in np.flatnonzero(chosen).tolist() for value in values[row]]
            shown = " ".join(f"p{one} {1e3 * np.percentile(seen, one):.1f} ms" for one in _PERCENTILES)
            cells.append(f"{side} a window {shown} ({len(seen):,})")
        yield f"{name:10} " + ", ".join(cells)


if __name__ == "__main__":
    raise SystemExit(main())
