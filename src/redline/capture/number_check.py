"""The settings of a process whose numbers are recorded: seed, steps, and how its results are perturbed."""

from __future__ import annotations

from dataclasses import dataclass

FILE_KIND = "numbers"
FILE_SCHEMA = 1
FILE_ENDING = ".numbers"
SKETCH_SIZE = 256  # numbers that stand for a tensor; the standard error of an estimated norm is sqrt(2 / 256) = 9 %
STEPS = 4
CALLS_PER_STEP = 16  # calls of the outermost module for each step that was asked for, where no optimizer steps

# Kinds of tensors, in the order in which a step makes them.
KINDS = ("start", "dropout", "activation", "loss", "unclipped gradient", "gradient", "movement")
START, DROPOUT, ACTIVATION, LOSS, UNCLIPPED, GRADIENT, MOVEMENT = KINDS
INPUT = "input"  # numbers that a model is called with, such as tokens: they are not judged


@dataclass(frozen=True, kw_only=True)
class NumberCheck:
    """How the numbers of one run are recorded."""

    folder: str  # where each rank writes its file
    seed: int = 0
    steps: int = STEPS
    eps: float = 0.0  # every result of a leaf module is off by up to this share of it; 0 for none
    sum_eps: float = 0.0  # the same for losses and long sums, which stay in fp32 where the rest is of lower precision
    perturbation: int = 0  # seed of that
    fp32: bool = False  # autocast and other ways to compute in lower precision are off
