"""Noise of simulated long jobs: families to tune the tests of `watch` on, and others that are set aside for one score.

The split was made before anything was tuned: by family, by seed, and by the ranges that parameters are drawn from.
The first set aside has been scored and then tuned on; the second was written after that, scored, and looked at as
well. The third was written after that, before anything was scored on it.
A family gives the logarithm of a factor for each window and series. Its core has a scale of about 1; `size` is that of
the job. All of it is drawn, none of it measured: it is meant to be worse than a job on its own nodes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Random = np.random.Generator
DAY = 144  # windows, of ten minutes


@dataclass(frozen=True, kw_only=True)
class NoiseFamily:
    """How one family of jobs is drawn."""

    name: str
    size: tuple[float, float]  # of the noise of a window, as a share of the step
    correlation: tuple[float, float]  # between neighbours
    wave: tuple[float, float]  # amplitude of a day, as a share of the step
    core: Callable[[Random, tuple[int, int]], Floats]  # [window, series], of scale 1
    outliers: Callable[[Random, tuple[int, int]], Floats]  # [window, series]; 0 where there is none
    harmonic: float = 0.0  # of the wave, beside its first
    has_regimes: bool = False  # the scale changes in the middle of the job


def drawn(random: Random, span: tuple[float, float]) -> float:
    return float(random.uniform(*span))


def log_noise(family: NoiseFamily, random: Random, shape: tuple[int, int], size: float) -> Floats:
    """[window, series], without the wave of a day, which all series of a job share."""
    correlation = drawn(random, family.correlation)
    core = family.core(random, shape)
    if family.has_regimes:
        core = core * _regimes(random, shape[0])[:, None]
    noise = np.empty(shape)
    noise[0] = core[0]
    for window in range(1, shape[0]):
        noise[window] = correlation * noise[window - 1] + np.sqrt(1 - correlation**2) * core[window]
    return size * noise + family.outliers(random, shape)


def wave(family: NoiseFamily, random: Random, windows: int) -> Floats:
    amplitude, phase = drawn(random, family.wave), random.uniform(0, 2 * np.pi)
    angle = 2 * np.pi * np.arange(windows) / DAY + phase
    course: Floats = amplitude * (np.sin(angle) + family.harmonic * np.sin(2 * angle + 1.0)) / (1 + family.harmonic)
    return course


# --- cores and outliers -----------------------------------------------------------------------------------------------
# How many windows have an outlier does not depend on how many ranks a job has: it is that share of windows in which
# some rank has one. (A share of each rank made a third of all windows outliers; changed before anything was scored.)


def _normal(random: Random, shape: tuple[int, int]) -> Floats:
    return random.standard_normal(shape)


def _student(random: Random, shape: tuple[int, int]) -> Floats:
    return random.standard_t(3, shape)


def _laplace(random: Random, shape: tuple[int, int]) -> Floats:
    return random.laplace(0, 1, shape)


def _skewed(random: Random, shape: tuple[int, int]) -> Floats:
    """A bound below and a long tail above, as of times that contend for a link."""
    return random.gamma(2.0, 0.75, shape) - 1.5


def _single(share: float, scale: float) -> Callable[[Random, tuple[int, int]], Floats]:
    """Windows that are longer by themselves: a checkpoint, a node that swaps."""

    def outliers(random: Random, shape: tuple[int, int]) -> Floats:
        hit = random.random(shape) < share / shape[1]
        return np.where(hit, random.exponential(scale, shape), 0.0)

    return outliers


def _pareto(random: Random, shape: tuple[int, int]) -> Floats:
    hit = random.random(shape) < 0.02 / shape[1]
    return np.where(hit, np.minimum(0.05 * (1 + random.pareto(1.5, shape)), 2.0), 0.0)


def _bursts(random: Random, shape: tuple[int, int]) -> Floats:
    """Of one or two windows."""
    first = random.random(shape) < 0.007 / shape[1]
    second = np.zeros(shape, bool)
    second[1:] = first[:-1] & (random.random((shape[0] - 1, shape[1])) < 0.5)
    return np.where(first | second, random.exponential(0.25, shape), 0.0)


def _regimes(random: Random, windows: int) -> Floats:
    calm, scale = True, np.empty(windows)
    for window in range(windows):
        calm = calm if random.random() > 1 / 40 else not calm
        scale[window] = 1.0 if calm else 2.5
    return scale


def _volatile(random: Random, shape: tuple[int, int]) -> Floats:
    """The scale itself wanders, without an end: between a third and three times the usual one."""
    course = np.empty((shape[0], 1))
    course[0] = 0.0
    for window in range(1, shape[0]):
        course[window] = 0.97 * course[window - 1] + 0.12 * random.standard_normal()
    values: Floats = np.exp(np.clip(course, -1.1, 1.1)) * random.logistic(0, 0.6, shape)
    return values


def _contaminated(random: Random, shape: tuple[int, int]) -> Floats:
    """One value in ten is from a distribution that is four times as wide."""
    wide = random.random(shape) < 0.1
    return random.standard_normal(shape) * np.where(wide, 4.0, 1.0)


def _two_memories(random: Random, shape: tuple[int, int]) -> Floats:
    """Half of the variance lasts for ten windows, half for one: no single correlation describes it."""
    slow = np.zeros(shape)
    for window in range(1, shape[0]):
        slow[window] = 0.9 * slow[window - 1] + np.sqrt(1 - 0.9**2) * random.standard_normal(shape[1])
    mixed: Floats = np.sqrt(0.5) * (slow + random.standard_normal(shape))
    return mixed


def _busy_hours(random: Random, shape: tuple[int, int]) -> Floats:
    """Noise has a day as well: others use the network at certain hours."""
    angle = 2 * np.pi * np.arange(shape[0]) / DAY + random.uniform(0, 2 * np.pi)
    values: Floats = np.exp(0.6 * np.sin(angle))[:, None] * random.standard_normal(shape)
    return values


def _uneven(random: Random, shape: tuple[int, int]) -> Floats:
    """Some series are several times as noisy as others."""
    scale = np.exp(np.clip(0.5 * random.standard_normal((1, shape[1])), -1.0, 1.0))
    values: Floats = scale * random.standard_t(5, shape) / np.sqrt(5 / 3)
    return values


def _averaged(random: Random, shape: tuple[int, int]) -> Floats:
    """Each shock is seen in four windows and then is gone."""
    shocks = random.laplace(0, np.sqrt(0.5), (shape[0] + 3, shape[1]))
    values: Floats = sum((shocks[lag : lag + shape[0]] for lag in range(4)), np.zeros(shape)) / 2
    return values


def _cut(random: Random, shape: tuple[int, int]) -> Floats:
    """Single windows that are longer or shorter."""
    hit = random.random(shape) < 0.006 / shape[1]
    size = np.clip(random.choice([-1.0, 1.0], shape) * random.exponential(0.3, shape), -0.7, 2.0)
    return np.where(hit, size, 0.0)


def _lognormal(random: Random, shape: tuple[int, int]) -> Floats:
    hit = random.random(shape) < 0.008 / shape[1]
    return np.where(hit, np.minimum(random.lognormal(np.log(0.15), 0.8, shape), 2.0), 0.0)


TUNING = (
    NoiseFamily(
        name="quiet",
        size=(0.003, 0.010),
        correlation=(0.0, 0.0),
        wave=(0.0, 0.02),
        core=_normal,
        outliers=_single(0.003, 0.2),
    ),
    NoiseFamily(
        name="shared",
        size=(0.007, 0.020),
        correlation=(0.2, 0.6),
        wave=(0.0, 0.03),
        core=_normal,
        outliers=_single(0.01, 0.3),
    ),
)
SET_ASIDE = (
    NoiseFamily(
        name="heavy tails",
        size=(0.004, 0.012),
        correlation=(0.0, 0.5),
        wave=(0.0, 0.03),
        core=_student,
        outliers=_pareto,
    ),
    NoiseFamily(
        name="regimes",
        size=(0.004, 0.010),
        correlation=(0.3, 0.7),
        wave=(0.0, 0.03),
        core=_laplace,
        outliers=_single(0.005, 0.3),
        harmonic=0.5,
        has_regimes=True,
    ),
    NoiseFamily(
        name="bursts",
        size=(0.005, 0.015),
        correlation=(0.0, 0.6),
        wave=(0.0, 0.04),
        core=_skewed,
        outliers=_bursts,
        harmonic=0.3,
    ),
)
SET_ASIDE_2 = (
    NoiseFamily(
        name="volatile",
        size=(0.004, 0.010),
        correlation=(0.2, 0.6),
        wave=(0.0, 0.03),
        core=_volatile,
        outliers=_single(0.005, 0.4),
        harmonic=0.4,
    ),
    NoiseFamily(
        name="contaminated",
        size=(0.004, 0.012),
        correlation=(0.0, 0.7),
        wave=(0.0, 0.03),
        core=_contaminated,
        outliers=_bursts,
    ),
    NoiseFamily(
        name="two memories",
        size=(0.004, 0.010),
        correlation=(0.0, 0.4),
        wave=(0.0, 0.04),
        core=_two_memories,
        outliers=_pareto,
        harmonic=0.2,
    ),
)
SET_ASIDE_3 = (
    NoiseFamily(
        name="busy hours",
        size=(0.003, 0.011),
        correlation=(0.1, 0.6),
        wave=(0.0, 0.035),
        core=_busy_hours,
        outliers=_lognormal,
        harmonic=0.3,
    ),
    NoiseFamily(
        name="uneven",
        size=(0.004, 0.014),
        correlation=(0.0, 0.5),
        wave=(0.0, 0.03),
        core=_uneven,
        outliers=_cut,
    ),
    NoiseFamily(
        name="averaged",
        size=(0.003, 0.010),
        correlation=(0.0, 0.2),
        wave=(0.0, 0.04),
        core=_averaged,
        outliers=_lognormal,
        harmonic=0.5,
    ),
)
SEEDS = {"tuning": 1_000, "set aside": 7_000_000, "set aside 2": 13_000_000, "set aside 3": 29_000_000}
FAMILIES = {"tuning": TUNING, "set aside": SET_ASIDE, "set aside 2": SET_ASIDE_2, "set aside 3": SET_ASIDE_3}
