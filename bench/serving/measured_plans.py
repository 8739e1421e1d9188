"""Plans from one watched step beside what models take: python -m bench.serving.measured_plans --out DIR --machine FILE

Three sizes of a model, each served to one client and to four at a time. Every size is planned from one step of itself
and of each other one, under the same load. It needs a Python with vLLM and Redline, named by REDLINE_VLLM_PYTHON.
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import redline
from bench.serving.vllm_server import make_model, measure, server

SIZES = ("tiny", "small", "medium")
CLIENTS = (1, 4)
PROMPT, OUTPUT = 64, 48


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving.measured_plans", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs are kept")
    parser.add_argument("--machine", required=True, help="a profile of this machine")
    options = parser.parse_args()
    for size in SIZES:
        for clients in CLIENTS:
            _serve(options.out, size, clients)
    for line in compared(options.out, options.machine):
        print(line)
    return 0


def _serve(out: Path, size: str, clients: int) -> None:
    folder = out / f"{size}-{clients}"
    if (folder / "client.json").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    model = make_model(out / size, size)
    load = ("--num-prompts", str(8 * clients), "--max-concurrency", str(clients))
    # Of different lengths: clients in lockstep would never meet each other's prompts, as those of a real server do.
    lengths = ("--random-input-len", str(PROMPT), "--random-output-len", str(OUTPUT), "--random-range-ratio", "0.5")
    with server(model, folder / "run", "--max-num-seqs", "64", watch=("--after", "200")) as running:
        measure(running.address, model, folder / "client.json", *load, *lengths)


def compared(out: Path, machine: str) -> Iterator[str]:
    """One line per pair: the mean TPOT that the client measured, and the planned one."""
    for size in SIZES:
        for clients in CLIENTS:
            told = json.loads((out / f"{size}-{clients}" / "client.json").read_text(encoding="utf-8"))
            for other in SIZES:
                plan = redline.plan_serving(
                    out / size / "config.json",
                    machine=machine,
                    prompt=PROMPT,
                    output_tokens=OUTPUT,
                    tp=[1],
                    concurrency=[clients],
                    measured=out / f"{other}-{clients}" / "run",
                ).plan
                planned_ms, measured_ms = 1e3 * plan.points[0].tpot_s.value, told["mean_tpot_ms"]
                yield (
                    f"{size:6} {clients} clients, from one step of {other:6}: TPOT {measured_ms:7.2f} ms measured, "
                    f"{planned_ms:7.2f} ms planned, {planned_ms / measured_ms - 1:+.1%}"
                )


if __name__ == "__main__":
    raise SystemExit(main())
