"""Results of searches for better settings, made by hand: every reason for a rejection, both objectives, any rungs."""

from dataclasses import replace
from math import nan
from pathlib import Path
from random import Random

from redline.capture.levers import parse_lever
from redline.numerics import Numerics
from redline.trials.lever_pages import lever_page_of
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.differences import TensorDifference
from redline.trials.numbers.judgement import CurveDifference, NumbersJudgement, TensorDeviation
from redline.trials.numbers.run_numbers import TensorKey
from redline.trials.paired_sequence import decide
from redline.trials.trial_jobs import MemoryTrial
from redline.trials.trial_result import LeverOutcome, Stopped, Timed, TimedPair, TrialResult
from redline.tuning.candidates import LeverCandidate
from redline.tuning.script_diff import ScriptDiff, UnplacedLever
from redline.tuning.tune_result import Ladder, Objective, Rejected, Rejection, Rung, TuneResult

COMMAND = "python train.py --epochs 3"
START_S = 0.0784
START_BYTES = 1_240_000_000
_CURVES = CurveDifference(loss=1e-6, gradient_norm=2e-6)


def candidate(text: str, finding: str = "", share: float = 0.0) -> LeverCandidate:
    return LeverCandidate(lever=parse_lever(text), finding=finding, share=share)


def trial(
    change: float, *, before_s: float = START_S, noise: float = 0.01, pairs: int = 14, seed: int = 1
) -> TrialResult:
    """A change of the time by so much, with noise around it."""
    chance = Random(seed)
    times = tuple(
        TimedPair(
            before_s=before_s * chance.uniform(1 - noise, 1 + noise),
            after_s=before_s * (1 + change) * chance.uniform(1 - noise, 1 + noise),
        )
        for _ in range(pairs)
    )
    return TrialResult(
        before=COMMAND,
        after=f"{COMMAND} with levers",
        timed=Timed.STEP_IN_BLOCKS,
        stopped=Stopped.DECIDED if pairs else Stopped.TIME_SPENT,
        decision=decide([pair.before_s for pair in times], [pair.after_s for pair in times]) if times else None,
        pairs=times,
        block_steps=4,
        steps=8 * pairs,
        processes=1,
    )


def failed(error: str) -> TrialResult:
    return replace(trial(0.0, pairs=0), stopped=Stopped.FAILED, error=error)


def nothing_changed(lever: str, what: str) -> TrialResult:
    outcome = LeverOutcome(lever=lever, took=False, what=what)
    return replace(trial(0.0, pairs=0), stopped=Stopped.NOTHING_CHANGED, levers=(outcome,))


def numbers(
    verdict: Numerics, *, claimed: Numerics = Numerics.REASSOCIATION, first: str = "", notes: tuple[str, ...] = ()
) -> NumbersResult:
    """`first` is the tensor that deviates first."""
    deviation = TensorDeviation(
        key=TensorKey(step=0, kind="gradient", name=first),
        score=3120.0,
        difference=TensorDifference(error=nan, norm=nan, gain=0.5, cosine=1.0),
        deviating=3,
        compared=12,
    )
    judged = NumbersJudgement(
        holds=not first,
        same_bits=verdict is Numerics.BITWISE,
        score=3120.0 if first else 0.7,
        worst=None,
        first=deviation if first else None,
        deviating=3 if first else 0,
        compared=148,
        kinds=(),
        skipped=(),
        only_reference=(),
        only_candidate=(),
        names_match=True,
        curves=_CURVES,
    )
    return NumbersResult(
        claimed=claimed,
        verdict=verdict,
        structure=judged,
        precision=None,
        curves=_CURVES,
        steps=4,
        by_optimizer=True,
        notes=notes,
    )


def rung(
    text: str, change: float, *, verdict: Numerics = Numerics.REASSOCIATION, peak_bytes: int = 0, finding: str = ""
) -> Rung:
    return Rung(
        candidate=candidate(text, finding),
        trial=trial(change, seed=len(text)),
        numbers=numbers(verdict),
        peak_bytes=peak_bytes,
    )


def memory(before_bytes: int, after_bytes: int, *, before_s: float = START_S, after_s: float = START_S) -> MemoryTrial:
    return MemoryTrial(
        before_bytes=(before_bytes, before_bytes + 1_000_000, before_bytes - 1_000_000),
        after_bytes=(after_bytes, after_bytes + 1_000_000, after_bytes - 1_000_000),
        before_step_s=(before_s,) * 3,
        after_step_s=(after_s,) * 3,
    )


def memory_rung(text: str, before_bytes: int, after_bytes: int, after_s: float = START_S) -> Rung:
    return Rung(
        candidate=candidate(text),
        trial=None,
        numbers=numbers(Numerics.BITWISE),
        peak_bytes=after_bytes,
        memory=memory(before_bytes, after_bytes, after_s=after_s),
    )


REJECTED = (
    Rejected(
        candidate=candidate("gc-freeze"),
        why=Rejection.NOTHING_CHANGED,
        trial=nothing_changed("gc-freeze", "the garbage collector was off"),
    ),
    Rejected(candidate=candidate("zero-grad-none"), why=Rejection.NO_GAIN, trial=trial(0.001)),
    Rejected(candidate=candidate("malloc-keep"), why=Rejection.NO_GAIN, trial=trial(-0.002, seed=2)),
    Rejected(candidate=candidate("threads=1"), why=Rejection.SLOWER, trial=trial(0.31)),
    Rejected(candidate=candidate("omp-wait=active"), why=Rejection.UNDECIDED, trial=trial(-0.02, noise=0.2, pairs=7)),
    Rejected(
        candidate=candidate("workers=8"),
        why=Rejection.FAILED,
        trial=failed(f"{COMMAND} with levers: it ended with 1: RuntimeError: DataLoader worker (pid 71) is killed"),
    ),
    Rejected(
        candidate=candidate("autocast=bf16"),
        why=Rejection.WRONG_NUMBERS,
        kept=("fused",),
        trial=trial(-0.24),
        numbers=numbers(Numerics.SEMANTICS, first="blocks.3.attention.weight"),
    ),
    Rejected(
        candidate=candidate("channels-last"),
        why=Rejection.UNCHECKED_NUMBERS,
        trial=trial(-0.05),
        text="the script takes fewer steps than the check needs",
    ),
    Rejected(
        candidate=candidate("huge-pages"),
        why=Rejection.MORE_MEMORY,
        trial=replace(trial(-0.04), before_peak_bytes=START_BYTES, after_peak_bytes=2_310_000_000),
    ),
    Rejected(candidate=candidate("foreach"), why=Rejection.CONFLICT, text="fused"),
    Rejected(candidate=candidate("matmul-precision=medium"), why=Rejection.NO_CONSENT),
    Rejected(candidate=candidate("autocast=fp16"), why=Rejection.NO_CONSENT),
    Rejected(candidate=candidate("switch=short-sequences"), why=Rejection.NO_CONSENT),
    Rejected(candidate=candidate("cudnn-benchmark"), why=Rejection.NO_TIME),
    Rejected(candidate=candidate("prefetch=4"), why=Rejection.NO_TIME),
)

RUNGS = (
    rung("workers=2", -0.31, verdict=Numerics.BITWISE, peak_bytes=1_260_000_000, finding="RL-D01"),
    rung("compile=blocks", -0.352, peak_bytes=1_310_000_000, finding="RL-C17"),
    rung("fused", -0.11, peak_bytes=1_300_000_000, finding="RL-H07"),
)

DIFF = ScriptDiff(
    patch=(
        "--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n"
        "-optimizer = AdamW(model.parameters())\n+optimizer = AdamW(model.parameters(), fused=True)\n"
    ),
    placed=("fused", "compile=blocks"),
    unplaced=(
        UnplacedLever(
            lever="workers=2", why="train.py:31 calls DataLoader with **options", lines=lever_page_of("workers").keep
        ),
    ),
)
PASTED_LINE = UnplacedLever(
    lever="malloc-keep", why="it is set before Python starts", lines="MALLOC_TRIM_THRESHOLD_=1073741824"
)

FASTER = TuneResult(
    command=COMMAND,
    objective=Objective.TIME,
    ladder=Ladder(rungs=RUNGS, rejected=REJECTED, whole=trial(-0.602, noise=0.02, pairs=20)),
    start_step_s=START_S,
    start_peak_bytes=START_BYTES,
    spent_s=742.0,
    budget_s=1200.0,
    folder=Path("redline-tune"),
    limiting_before="Input-bound: the CPU waits for data 31 % of the step.",
    limiting_now="Compute-bound: kernels run 92 % of the step.",
    written=("redline-tune/tuned.toml", "redline-tune/tuned.diff"),
    diff=DIFF,
)

NOTHING = replace(
    FASTER,
    ladder=Ladder(rungs=(), rejected=REJECTED, whole=None),
    diff=None,
    limiting_now="",
    limiting_before="Compute-bound: kernels run 97 % of the step, at 88 % of their roof.",
    written=(),
)

ONE = replace(FASTER, diff=None, ladder=Ladder(rungs=RUNGS[:1], rejected=(), whole=trial(-0.3, seed=5)))

MEMORY_RUNGS = (
    memory_rung("checkpoint=blocks", START_BYTES, 760_000_000, 0.0991),
    memory_rung("malloc-arenas=1", 760_000_000, 690_000_000, 0.0994),
)

LESS_MEMORY = replace(
    FASTER,
    objective=Objective.MEMORY,
    diff=ScriptDiff(patch="", placed=(), unplaced=(PASTED_LINE,)),
    written=("redline-tune/tuned.toml",),
    ladder=Ladder(
        rungs=MEMORY_RUNGS,
        rejected=(
            Rejected(
                candidate=candidate("expandable-segments"),
                why=Rejection.NO_GAIN,
                memory=memory(690_000_000, 689_000_000),
            ),
            *REJECTED[-2:],
        ),
        whole=None,
        whole_memory=memory(START_BYTES, 692_000_000, after_s=0.0993),
    ),
)
