"""Climb the memory ladder of a GPT-2, measured beside planned: python -m bench.memory.ladder --out FOLDER [RUNG ...]

Memory is counted, not timed: other load on the machine changes nothing. Runs that are in the folder already are read
again, not run.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import redline
from bench.memory.ladder_rungs import LADDER, RUNGS, SIZES, Rung, model_config, plan_arguments
from redline.ledger.memory.plan_comparison import ComparedBytes, PlanComparison

ROOT = Path(__file__).parents[2]
WINDOW = ("--timed-after", "0", "--after", "3", "--steps", "2", "--max-memory", "16GiB")  # large steps, however slow
MB = 1e6
FAINT = 0.001  # of what is in use: smaller accounts are not shown


@dataclass(frozen=True, kw_only=True)
class ClimbedRung:
    """A rung with both sides of its peak."""

    name: str
    compared: PlanComparison

    def row(self, first_bytes: int) -> str:
        peak = self.compared.in_use
        saved = (peak.measured_bytes or 0) / first_bytes
        phase = self.compared.device.evidence.phase or "?"
        return f"| `{self.name}` | {_sizes(peak)} | {saved:.0%} | {phase} |"

    def account_rows(self) -> list[str]:
        least = FAINT * (self.compared.in_use.measured_bytes or 0)
        return [
            f"| `{self.name}` | {account} | {_sizes(amount)} |"
            for account, amount in self.compared.accounts.items()
            if max(amount.predicted_bytes or 0, amount.measured_bytes or 0) >= least
        ]


def _sizes(amount: ComparedBytes) -> str:
    """Predicted, measured, and by how much the plan is off."""
    predicted = "-" if amount.predicted_bytes is None else f"{amount.predicted_bytes / MB:.1f}"
    share = "-" if amount.difference_share is None else f"{100 * amount.difference_share:+.1f} %"
    return f"{predicted} | {(amount.measured_bytes or 0) / MB:.1f} | {share}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.memory.ladder", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where runs, plans and the tables are kept")
    parser.add_argument("--sizes", choices=SIZES, default="first", help="of the model and the batch (default: first)")
    parser.add_argument("names", nargs="*", metavar="RUNG", help=f"only these, of: {', '.join(RUNGS)}")
    options = parser.parse_args()
    folder = options.out / options.sizes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model_config(SIZES[options.sizes])))
    climbed = []
    for rung in LADDER:
        if not options.names or rung.name in options.names:
            climbed.append(climb(folder, rung))
            print(climbed[-1].row(climbed[0].compared.in_use.measured_bytes or 1), flush=True)
    text = tables(climbed)
    (folder / "ladder.md").write_text(text)
    print(text)
    return 0


def climb(folder: Path, rung: Rung) -> ClimbedRung:
    """Plan a rung, run it, and compare. The folder has the name of the sizes."""
    plan = folder / f"{rung.name}.plan.json"
    redline.plan_training(folder / "config.json", **plan_arguments(rung, SIZES[folder.name])).save(plan)
    run = folder / rung.name
    _record(run, rung)
    compared = redline.memory(run, plan=plan).comparison
    assert compared is not None  # there is a plan
    return ClimbedRung(name=rung.name, compared=compared)


def _record(run: Path, rung: Rung) -> None:
    done = run.with_suffix(".done")
    if done.exists():
        return
    shutil.rmtree(run, ignore_errors=True)  # of a run that was interrupted
    launcher = ["--nproc-per-node", str(rung.ranks)] if rung.ranks > 1 else []
    words = [sys.executable, "-m", "redline", "run", "-q", "--memory", *WINDOW, *launcher, "-o", str(run.resolve())]
    job = ["-m", "bench.memory.ladder_job", rung.name, run.parent.name]
    ended = subprocess.run([*words, "--", *job], capture_output=True, text=True, check=False, cwd=ROOT)
    if ended.returncode:
        raise SystemExit(f"{rung.name}: {ended.stderr[-600:]}")
    done.touch()


def tables(climbed: Sequence[ClimbedRung]) -> str:
    """Markdown: the peaks, then the accounts of each."""
    first = climbed[0].compared.in_use.measured_bytes or 1
    accounts = [line for rung in climbed for line in rung.account_rows()]
    return "\n".join(
        [
            "| rung | planned, MB | measured, MB | plan off by | of the first | peak in |",
            "|---|---:|---:|---:|---:|---|",
            *(rung.row(first) for rung in climbed),
            "",
            "| rung | account | planned, MB | measured, MB | plan off by |",
            "|---|---|---:|---:|---:|",
            *accounts,
            "",
        ]
    )


if __name__ == "__main__":
    raise SystemExit(main())
