"""Time what tools make of a job: python -m bench.tuning.other_tools --out FOLDER --job NAME [--tuned FOLDER]

Programs are started by their own commands, with nothing of Redline in them, and take turns. A time per sample is the
difference of a long and a short run, so that starting and compiling do not count.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

from bench.tuning.cases import TuningCase, case_of
from bench.tuning.patched import ROOT, apply_patch
from bench.tuning.run_tune import levers_in

OWN = Path(__file__).resolve().parent
SHORT, LONG = 8, 48  # steps of batches of 8
_PLAIN = (sys.executable,)
_RUN_CPU = (sys.executable, "-m", "torch.backends.xeon.run_cpu")
_DEEPSPEED = ("deepspeed",)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A job as one of the tools leaves it."""

    name: str
    words: tuple[str, ...]
    batch: int = 8
    folder: Path = ROOT

    def seconds(self, steps: int) -> float:
        """Of a whole run. CalledProcessError with what it said."""
        started_s = perf_counter()
        subprocess.run(
            [*self.words, "--steps", str(steps)], cwd=self.folder, env=_environment(), check=True, capture_output=True
        )
        return perf_counter() - started_s


@dataclass(frozen=True, kw_only=True)
class SampleTime:
    """Of one program: the median over rounds, and its ratio to the start of the same round."""

    name: str
    sample_ms: float
    ratio: float
    least_ratio: float
    most_ratio: float
    rounds: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.tuning.other_tools", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="where patched scripts and times are kept")
    parser.add_argument("--job", choices=("gpt2_flaws", "lightning_fit"), required=True)
    parser.add_argument("--tuned", type=Path, help="record of `redline tune` on the same job")
    parser.add_argument("--batch", type=int, help="that the other tool settled on")
    parser.add_argument("--rounds", type=int, default=6)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for known in time_in_turns(programs_of(options, Path(folder)), options.rounds):
            with (options.out / "other_tools.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps({"job": options.job, **asdict(known)}) + "\n")
            print(
                f"{known.name:24} {known.sample_ms:8.2f} ms per sample, {known.ratio:.2f} of the start"
                f" ({known.least_ratio:.2f} to {known.most_ratio:.2f}, {known.rounds} rounds)",
                flush=True,
            )
    return 0


def programs_of(options: argparse.Namespace, folder: Path) -> list[Program]:
    """The start first."""
    case = case_of(options.job)
    programs = [
        Program(name="as it is", words=(*_PLAIN, str(case.script))),
        Program(name="run_cpu", words=(*_RUN_CPU, str(case.script))),
    ]
    if case.name == "gpt2_flaws":
        programs += [_deepspeed(batch, options.out) for batch in dict.fromkeys((8, options.batch or 8))]
    else:
        programs += [_lightning(batch) for batch in dict.fromkeys((8, options.batch or 8))]
    if options.tuned is not None:
        programs.append(_patched(case, options.tuned.resolve(), folder))
    return programs


def time_in_turns(programs: Sequence[Program], rounds: int) -> list[SampleTime]:
    """Each round in an order of its own; the first program is the start."""
    chance = Random(1)
    times: dict[str, list[float]] = {program.name: [] for program in programs}
    for _ in range(rounds):
        for program in chance.sample(list(programs), len(programs)):
            times[program.name].append(_sample_s(program))
    start_s = times[programs[0].name]
    return [_told(name, sample_s, start_s) for name, sample_s in times.items()]


def _told(name: str, sample_s: Sequence[float], start_s: Sequence[float]) -> SampleTime:
    ratios = [mine / start for mine, start in zip(sample_s, start_s, strict=True)]
    return SampleTime(
        name=name,
        sample_ms=1e3 * median(sample_s),
        ratio=median(ratios),
        least_ratio=min(ratios),
        most_ratio=max(ratios),
        rounds=len(ratios),
    )


def _sample_s(program: Program) -> float:
    """As many samples for every program, as far as its batch allows."""
    short, long = (max(steps * 8 // program.batch, 2 + is_long) for is_long, steps in enumerate((SHORT, LONG)))
    return (program.seconds(long) - program.seconds(short)) / ((long - short) * program.batch)


def _deepspeed(batch: int, out: Path) -> Program:
    config = json.loads((OWN / "deepspeed_gpt2.json").read_text(encoding="utf-8"))
    config.pop("autotuning")
    path = out.resolve() / f"deepspeed-{batch}.json"
    path.write_text(json.dumps({**config, "train_micro_batch_size_per_gpu": batch}), encoding="utf-8")
    words = (*_DEEPSPEED, str(OWN / "deepspeed_gpt2.py"), "--deepspeed", "--deepspeed_config", str(path))
    return Program(name=f"DeepSpeed, batch {batch}", words=words, batch=batch)


def _lightning(batch: int) -> Program:
    words = (*_PLAIN, str(OWN / "lightning_batch.py"), "--batch", str(batch))
    return Program(name=f"Lightning, batch {batch}", words=words, batch=batch)


def _patched(case: TuningCase, record: Path, folder: Path) -> Program:
    """The script as `git apply` leaves it with the patch of a search."""
    words = (*_PLAIN, str(apply_patch(case, record, folder)))
    return Program(name=f"redline tune: {' '.join(levers_in(record / 'tuned.toml'))}", words=words)


def _environment() -> dict[str, str]:
    """Both this interpreter's scripts and its libraries are found, as in an environment that was activated."""
    folder = Path(sys.executable).parent
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(folder.parent)}


if __name__ == "__main__":
    raise SystemExit(main())
