"""A thousand requests, told by us, by their client and by the engine: python -m bench.serving.agreement --out FOLDER

It needs a Python with vLLM and Redline, named by REDLINE_VLLM_PYTHON.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.serving.vllm_server import make_model, measure, server
from redline.serving.diagnose_serving import check_metrics, read_client, rows_of_requests, with_client
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import request_ledger
from redline.serving.step_ledger import StepAccount

_MS = 1e6


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving.agreement", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where the run is kept")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=4.0, help="requests per second")
    options = parser.parse_args()
    run, results = options.out / "run", options.out / "client.json"
    if not results.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        model = make_model(options.out / "small", "small")
        load = ("--num-prompts", str(options.requests), "--request-rate", str(options.rate))
        with server(model, run, "--max-num-seqs", "64") as running:
            measure(running.address, model, results, *load, "--random-input-len", "48", "--random-output-len", "24")
    for line in agreement(run, results):
        print(line)
    return 0


def agreement(run: Path, results: Path) -> Iterator[str]:
    """One line per figure that was told twice."""
    told: dict[str, Any] = json.loads(results.read_text(encoding="utf-8"))
    recording, client = read_serving(run), read_client(results)
    alone = request_ledger(recording)
    steps = alone.steps
    asked_ns = steps.amounts_ns.sum() - steps.total_ns(StepAccount.IDLE)
    apart = int(np.abs(steps.amounts_ns.sum(axis=1) - (steps.end_ns - steps.start_ns)).max())
    yield f"steps: {len(steps):,}, accounts differ from their length by at most {apart} ns"
    yield f"step time without a name: {steps.total_ns(StepAccount.WORKER) / asked_ns:.2%}"
    ledger = with_client(alone, recording, client)
    row = rows_of_requests(client, recording)[ledger.to_last_token.request]
    ours = row >= 0
    for name, times, before, measured_ns in (
        ("TTFT", ledger.to_first_token, alone.to_first_token, client.first_token_ns),
        ("end to end", ledger.to_last_token, alone.to_last_token, client.last_token_ns),
    ):
        off = np.abs(times.amounts_ns.sum(axis=1)[ours] - measured_ns[row[ours]])
        server_ns, client_ns = before.length_ns[ours].mean(), measured_ns[row[ours]].mean()
        yield f"{name}: {ours.sum():,} requests, at most {off.max() / _MS:.3f} ms from what the client measured"
        yield f"{name}: mean {client_ns / _MS:.2f} ms at the client, {server_ns / _MS:.2f} ms without the network"
    mean_ns = ledger.to_first_token.length_ns[ours].mean()
    yield f"TTFT: mean {told['mean_ttft_ms']:.2f} ms as the client says itself, {mean_ns / _MS:.2f} ms here"
    yield f"tokens: {told['total_output_tokens']:,} at the client, {int(ledger.tokens[ours].sum()):,} here"
    for check in check_metrics(recording, alone):
        yield (
            f"/metrics {check.name}: {check.requests:,} requests, mean {check.exported_ns / _MS:.2f} ms there, "
            f"{check.recorded_ns / _MS:.2f} ms here, {check.difference:.2%} apart"
        )


if __name__ == "__main__":
    raise SystemExit(main())
