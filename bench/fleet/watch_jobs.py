"""Simulated long jobs as figures of their windows: healthy ones, and ones with a change planted at a known window."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from bench.fleet.watch_noise import Floats, NoiseFamily, Random, drawn, log_noise, wave
from redline.ledger.accounts import ACCOUNTS, Account
from redline.watch.window_figures import WindowFigures, WindowName

Planted = Literal["step", "step drift", "rank", "rank drift", "node", "input", "communication", "silent"]
KINDS: tuple[Planted, ...] = (
    "step",
    "step drift",
    "rank",
    "rank drift",
    "node",
    "input",
    "communication",
    "silent",
)
RANKS_PER_NODE = 4
_START_NS = 1_790_000_000_000_000_000
_WINDOW_NS = 600 * 10**9


@dataclass(frozen=True, kw_only=True)
class PlantedChange:
    """What changes, in whom, from which window on, and by how much."""

    kind: Planted
    window: int  # of the first that is affected
    size: float  # share of the step; of a drift: what it has grown to after `rise` windows
    subject: int  # rank or node; 0 for the job
    until: int  # the first window that is as before
    rise: int = 1

    def grown(self, windows: int) -> Floats:
        """The size in each window."""
        at = np.arange(windows)
        share = np.clip((at - self.window + 1) / self.rise, 0.0, 1.0) * (at < self.until)
        grown: Floats = self.size * share
        return grown


def job_windows(
    family: NoiseFamily, random: Random, windows: int, changes: tuple[PlantedChange, ...] = ()
) -> Iterator[WindowFigures]:
    """The windows of one job; what is drawn does not depend on what is planted."""
    ranks = RANKS_PER_NODE * int(random.choice([2, 4, 8]))
    step_ns, size = 10 ** random.uniform(8.0, 9.7), drawn(random, family.size)
    input_share, transfer_share = drawn(random, (0.0, 0.04)), drawn(random, (0.03, 0.20))
    common = log_noise(family, random, (windows, 1), size) + wave(family, random, windows)[:, None]
    node = np.repeat(log_noise(family, random, (windows, ranks // RANKS_PER_NODE), size / 2), RANKS_PER_NODE, axis=1)
    own = np.exp(common + node + log_noise(family, random, (windows, ranks), size / 2))
    own *= 1 + random.uniform(0, 0.03, ranks)
    loading = input_share * np.exp(log_noise(family, random, (windows, 1), 4 * size))
    transfer = transfer_share * np.exp(log_noise(family, random, (windows, 1), 2 * size))[:, 0]
    silent: dict[int, range] = {}
    for change in changes:
        _plant(change, own, loading, transfer, silent)
    yield from _figures(step_ns, own + loading, loading[:, 0], transfer, silent)


def _plant(change: PlantedChange, own: Floats, loading: Floats, transfer: Floats, silent: dict[int, range]) -> None:
    """Sizes are of the step where it is the job that changes, and of a rank's own time where it is a rank."""
    grown = change.grown(len(own))
    alone = own + loading
    unit = float(np.median(alone.max(axis=1) + transfer))
    first = change.subject * RANKS_PER_NODE
    match change.kind:
        case "step" | "step drift":
            own += grown[:, None] * (alone + transfer[:, None])
        case "rank" | "rank drift":
            own[:, change.subject] += grown * alone[:, change.subject]
        case "node":
            own[:, first : first + RANKS_PER_NODE] += (grown[:, None] * alone)[:, first : first + RANKS_PER_NODE]
        case "input":
            loading += grown[:, None] * unit
        case "communication":
            transfer += grown * unit
        case "silent":
            silent[change.subject] = range(change.window, change.until)


def _figures(
    step_ns: float, own: Floats, loading: Floats, transfer: Floats, silent: dict[int, range]
) -> Iterator[WindowFigures]:
    every = np.arange(own.shape[1])
    for window in range(len(own)):
        absent = tuple(rank for rank, windows in silent.items() if window in windows)
        here = np.setdiff1d(every, absent)
        slowest, average = own[window].max(), own[window].mean()
        accounts = dict.fromkeys(ACCOUNTS, 0.0) | {
            Account.MATH: (average - loading[window]) * step_ns,
            Account.INPUT: loading[window] * step_ns,
            Account.TRANSFER: transfer[window] * step_ns,
            Account.PEER_WAIT: (slowest - average) * step_ns,
        }
        yield WindowFigures(
            name=WindowName(restart=0, number=window + 1, text=f"window-{window + 1}"),
            start_ns=_START_NS + window * _WINDOW_NS,
            steps=10,
            step_ns=float((slowest + transfer[window]) * step_ns),
            accounts=accounts,
            world_size=len(every),
            ranks=here,
            hosts=tuple(f"node-{rank // RANKS_PER_NODE}" for rank in here.tolist()),
            own_ns=own[window, here] * step_ns,
            silent=absent,
        )
