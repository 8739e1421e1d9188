"""How torch's own memory timeline fares: python -m bench.memory.torch_timeline --out FOLDER [kind ...]

The models with which `redline run --memory` is tested, on a CPU: what `export_memory_timeline` says that they hold once
the optimizer has stepped, beside what they say themselves. Timelines that are in the folder already are not made again.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from redline.trace.memory_timeline import CATEGORIES, read_memory_timeline

ROOT = Path(__file__).parents[2]
KINDS = ("gpt", "cnn", "experts", "frozen", "tied", "lora", "checkpointing", "compiled", "fsdp", "zero")
RANKS = {"fsdp": 2, "zero": 2}
_SAME = {"parameter": "parameters", "gradient": "gradients", "optimizer state": "optimizer states"}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory.torch_timeline", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where timelines are kept")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="only these")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for kind in options.kinds or KINDS:
        timeline = options.out / f"{kind}.0.raw.json.gz"
        if not timeline.exists():
            _record(options.out, kind)
        for line in lines_of(timeline) if timeline.exists() else ["torch wrote no timeline"]:
            print(f"{kind:14} {line}", flush=True)
    return 0


def _record(folder: Path, kind: str) -> None:
    ranks = RANKS.get(kind, 1)
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)] if ranks > 1 else []
    words = [sys.executable, *launcher, "-m", "bench.memory.timeline_job", kind, str(folder.resolve())]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    subprocess.run(words, check=False, cwd=ROOT, env=environment)  # what it ended with is in stderr


def lines_of(timeline: Path) -> Iterator[str]:
    """Of rank 0: its peak, and each category beside what the model says."""
    changes = read_memory_timeline(timeline)
    told = json.loads((timeline.parent / timeline.name.replace(".raw.json.gz", ".json")).read_text())
    until = changes.at_ns <= told["updated_ns"]
    yield f"peak             {int(changes.bytes.cumsum().max()):>10,}"
    for category, account in _SAME.items():
        said = int(changes.bytes[until & (changes.category == CATEGORIES.index(category))].sum())
        true = told["held"][account]
        yield f"{account:16} {said:>10,} of {true:>10,} bytes: {100 * (said / true - 1):+.2f} %"


if __name__ == "__main__":
    raise SystemExit(main())
