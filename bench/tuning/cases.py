"""The jobs that `redline tune` is given as they are, each with a twin that was tuned by hand on two CPU cores."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
STEPS = ("--steps", "100000")  # more than anybody waits for: jobs are ended from outside
KEEP_FREED_MEMORY = (
    "MALLOC_MMAP_THRESHOLD_=1073741824",
    "MALLOC_TRIM_THRESHOLD_=1073741824",
    "MALLOC_TOP_PAD_=67108864",
)


@dataclass(frozen=True, kw_only=True)
class TuningCase:
    """A job and its twin, as command lines that may begin with settings of the environment."""

    name: str
    script: Path
    twin: Path
    ranks: int = 1
    twin_environment: tuple[str, ...] = ()
    tuned_by_hand: str  # what the twin sets

    @property
    def job(self) -> tuple[str, ...]:
        """What `redline tune` is given after `--`."""
        return (*self._launcher(), str(self.script), *STEPS)

    @property
    def start(self) -> tuple[str, ...]:
        return (*self._python(), str(self.script), *STEPS)

    @property
    def tuned(self) -> tuple[str, ...]:
        """The command of the twin."""
        return (*self.twin_environment, *self._python(), str(self.twin), *STEPS)

    def _launcher(self) -> tuple[str, ...]:
        """That of this interpreter: a `torchrun` on the path may be of another one."""
        torchrun = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(self.ranks))
        return torchrun if self.ranks > 1 else ()

    def _python(self) -> tuple[str, ...]:
        return self._launcher() or (sys.executable,)


def _example(name: str, tuned_by_hand: str, environment: Sequence[str] = (), ranks: int = 1) -> TuningCase:
    return _case(name, EXAMPLES, tuned_by_hand, environment, ranks)


def _job(name: str, tuned_by_hand: str, environment: Sequence[str] = (), ranks: int = 1) -> TuningCase:
    return _case(name, HERE / "jobs", tuned_by_hand, environment, ranks)


def _case(name: str, folder: Path, tuned_by_hand: str, environment: Sequence[str], ranks: int) -> TuningCase:
    return TuningCase(
        name=name,
        script=folder / f"{name}.py",
        twin=HERE / "twins" / f"{name}.py",
        ranks=ranks,
        twin_environment=tuple(environment),
        tuned_by_hand=tuned_by_hand,
    )


CASES = (
    _example(
        "gpt2_flaws", "fused AdamW, gradients set to None, gc.freeze, malloc keeps freed memory", KEEP_FREED_MEMORY
    ),
    _example(
        "diffusion_transformer", "one worker instead of two, fused AdamW, malloc keeps freed memory", KEEP_FREED_MEMORY
    ),
    _job("hf_trainer", "two workers that stay, fused AdamW"),
    _job("lightning_fit", "a worker, fused AdamW, malloc keeps freed memory", KEEP_FREED_MEMORY),
    _job("accelerate_vision", "two workers that stay, fused AdamW"),
    _job("recommender", "fused AdamW, a worker that stays, malloc keeps freed memory", KEEP_FREED_MEMORY),
    _job("ddp_tower", "fused AdamW, buckets of 25 MB, gradients as views of them", ranks=2),
)
SHOW_PIECE = "gpt2_flaws"


def case_of(name: str) -> TuningCase:
    """KeyError with the names that there are."""
    known = {case.name: case for case in CASES}
    if name not in known:
        raise KeyError(f"no case {name!r}; there are: {', '.join(known)}")
    return known[name]
