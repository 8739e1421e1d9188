"""Fits the constants of software stacks to the even half of the published training runs, for the package.

    python -m bench.plan.fit_step

Deterministic, half a minute on one core; needs SciPy. A stack's constants are fitted together, to the logarithm of
predicted over measured step time, with a loss that grows like the error itself beyond 5 %, so that a few odd runs do
not decide. What runs hardly tell stays near where it starts, which is what the software is known to do. `sustained` is
told apart by the architecture of the die and the number format, as is attention, whose kernels are written for one;
each stays near that of its generation, and these near all of the format. Everything else belongs to the stack.
Mixtures of experts tell only what concerns experts, after everything else; jobs of nanotron's sweep on 64 nodes tell
only how its cluster stalls there. The odd half is never read here. Run bench/plan/score_left_out.py next: how far plans
can be trusted comes from fits to parts of these runs.
"""

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from bench.plan.training import Runs, expressed_runs
from redline.hardware.catalogue import find
from redline.plan.train.kernels import generation, kin
from redline.plan.train.stacks import DEFAULT_STACK, SoftwareStack, format_kind, with_stack
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import step_costs

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
Constants = dict[str, dict[str, float]]
OUTPUT = Path(__file__).parents[2] / "src/redline/plan/train/stacks.json"

# What only mixtures of experts tell.
EXPERTS = ("expert_efficiency", "expert_passes", "expert_overlap", "host_expert_s")
# What tensor parallelism beyond the node tells.
ACROSS = ("host_across_s",)
# What only jobs on so many nodes tell, of a stack whose cluster stalls.
STALLS = ("stall_send_s", "stall_micro_batch_s", "stall_reduce")
STALL_NODES = 64

# What is plausible. Efficiencies may exceed those of kernel tables somewhat, but no machine's peak, and no network card
# sends faster than published.
BOUNDS = {
    "sustained": (0.4, 1.2),
    "moved": (0.6, 1.1),
    "attention": (0.4, 1.1),
    "node_share": (0.2, 1.33),
    "nic_share": (0.2, 1.0),
    "across_decay": (0.0, 0.8),
    "nic_sharing": (0.3, 1.0),
    "gather_share": (0.2, 1.0),
    "node_latency_s": (5e-6, 3e-4),
    "across_latency_s": (2e-6, 1e-3),
    "hidden_passes": (8.0, 40.0),
    "score_passes": (4.0, 20.0),
    "logit_passes": (4.0, 24.0),
    "accumulate_bytes": (2.0, 24.0),
    "optimizer_bytes": (20.0, 100.0),
    "selective_share": (0.0, 1.0),
    "expert_efficiency": (0.2, 1.2),
    "expert_passes": (2.0, 40.0),
    "expert_overlap": (0.0, 0.95),
    "host_expert_s": (1e-5, 1e-2),
    "host_layer_s": (2e-5, 5e-3),
    "host_backward": (0.5, 3.0),
    "host_collective_s": (1e-6, 5e-4),
    "host_across_s": (1e-5, 5e-3),
    "host_busy_s": (1e-6, 1e-3),
    "host_micro_batch_s": (1e-6, 5e-2),
    "host_send_s": (1e-6, 1e-2),
    "host_step_s": (1e-4, 1.0),
    "stall_send_s": (0.01, 5.0),
    "stall_micro_batch_s": (0.01, 5.0),
    "stall_reduce": (1.0, 50.0),
    "overlap": (0.0, 1.0),
    "update_overlap": (0.0, 1.0),
    "tensor_overlap": (0.0, 0.95),
}
_SOMETIMES = {"score_passes", "selective_share", "host_busy_s", *ACROSS, *STALLS, *EXPERTS}
ALWAYS = tuple(name for name in BOUNDS if name not in _SOMETIMES)
BY_MACHINE = ("sustained", "attention")
# Grouped matmuls against plain ones of the same format: runs of mixtures are too few, and too different from release to
# release of their software, to tell machines apart.
BY_FORMAT = ("expert_efficiency",)
SCALE = 0.05
PRIOR = 0.9 * SCALE
# Of a slope; and what a further round has to gain, as a share of the loss.
STEP, TOLERANCE = 1e-3, 1e-3
LEAST_UTILIZATION = 10.0


@dataclass(frozen=True)
class Plan:
    """What is known of a stack, and which further constants its runs tell."""

    known: dict[str, float] = field(default_factory=dict)
    further: tuple[str, ...] = ()


PLANS = {
    # Gradients are added up and reduced in fp32, blocks dealt to stages by cost; the optimizer is a chain of kernels.
    # On 32 nodes half of the runs in several stages stall, on 64 nodes all of them, whatever their size.
    "nanotron": Plan(
        {
            "gradient_bytes": 4,
            "balanced_head": 1,
            "host_busy_s": 2e-4,
            "host_across_s": 5e-4,
            "overlap": 0.4,
            "optimizer_bytes": 80,
            "stall_nodes": STALL_NODES,
            "stall_send_s": 0.4,
            "stall_micro_batch_s": 0.5,
            "stall_reduce": 4,
        },
        ("host_busy_s", *ACROSS, *STALLS),
    ),
    "megatron-deepspeed": Plan({}, ("score_passes",)),
    "bigscience": Plan({}, ("score_passes",)),
    "megatron-lm": Plan({}, ("score_passes",)),
    "deepspeed": Plan({}, ("score_passes",)),
    "megatron-core": Plan({"host_layer_s": 3e-4, "tensor_overlap": 0.4}, EXPERTS),
    # Its recipes dispatch tokens with DeepEP or HybridEP, those of NeMo before it with plain all-to-alls.
    "megatron-bridge": Plan({"host_layer_s": 3e-4, "tensor_overlap": 0.4, "expert_dispatch": 1}, EXPERTS),
    "composer": Plan(),
    "internevo": Plan(),
    "jax": Plan({"host_layer_s": 5e-5, "hidden_passes": 10}),
    "torchtitan": Plan({"hidden_passes": 10, "selective_share": 0.5, "host_layer_s": 3e-4}, ("selective_share",)),
    "fsdp": Plan({"hidden_passes": 10, "selective_share": 0.5, "host_layer_s": 3e-4}, ("selective_share",)),
}
# What to expect where nobody says which software it is: what these have in common, each stack weighing the same.
COMMON = ("megatron-core", "megatron-bridge", "composer", "internevo", "torchtitan", "fsdp")
USUAL = Plan({}, ("selective_share", *EXPERTS))


def main() -> None:
    runs = fitting_half()
    stacks: dict[str, Constants] = {}
    for name in (*PLANS, DEFAULT_STACK):
        own = runs_of(name, runs)
        stacks[name] = fitted(name, own)
        print(name, len(own))
    stacks = everywhere(stacks)
    how = (
        "Made by bench/plan/fit_step.py from runs with even ids in bench/plan/data/training_runs.csv.gz. "
        "Times in seconds."
    )
    OUTPUT.write_text(json.dumps({"how": how, "stacks": stacks}, indent=1) + "\n", encoding="utf-8")


# --- to any runs ------------------------------------------------------------------------------------------------------


def runs_of(name: str, runs: Runs) -> Runs:
    """Those of these runs that the constants of a stack are fitted to."""
    return runs.where(np.isin(runs.stacks, COMMON if name == DEFAULT_STACK else (name,)))


def fitted(name: str, runs: Runs) -> Constants:
    """The constants of a stack from these runs of it alone. The search begins where it does for all of them, at what is
    known of the software before any run, so that nothing of other runs gets in.
    """
    search = _search(name, runs)
    return search.constants(search.best(runs, _weights(name, runs), search.start, evaluations=60))


def everywhere(stacks: dict[str, Constants]) -> dict[str, Constants]:
    """With constants for machines and formats that a stack has no runs on, from what is common."""
    return {name: {**each, **_elsewhere(each, stacks[DEFAULT_STACK])} for name, each in stacks.items()}


def _search(name: str, runs: Runs) -> "Search":
    return Search(runs, USUAL if name == DEFAULT_STACK else PLANS[name])


def _weights(name: str, runs: Runs) -> Numbers:
    """Of what is common, each stack has the same."""
    if name != DEFAULT_STACK:
        return np.ones(len(runs))
    weights = np.array([1 / np.sum(runs.stacks == each) for each in runs.stacks])
    return np.asarray(weights / weights.mean(), np.float64)


def fitting_half() -> Runs:
    """Runs with even ids. Of the sweep of nanotron, those that reach a tenth of the peak: the others are no layouts
    that anybody would choose, and many of them suffered from a fault that comes and goes. Of layouts that nobody would
    choose, two kinds tell why: those on so many nodes that the fault is always there, and tensor parallelism beyond the
    node, where the fault never is without stages.
    """
    runs = expressed_runs()
    return runs.where(~runs.held_out & (_usual(runs) | _large(runs) | _beyond(runs)))


def _usual(runs: Runs) -> Mask:
    return np.asarray((runs.stacks != "nanotron") | (runs.utilization >= LEAST_UTILIZATION), np.bool_)


def _large(runs: Runs) -> Mask:
    return np.asarray(runs.devices >= STALL_NODES * runs.bare.devices_per_node, np.bool_)


def _beyond(runs: Runs) -> Mask:
    return np.asarray((runs.layout.pp == 1) & (runs.layout.tp > runs.bare.devices_per_node), np.bool_)


@dataclass(frozen=True)
class Search:
    """The constants of one stack as a point between 0 and 1 in every direction."""

    runs: Runs
    plan: Plan

    @cached_property
    def base(self) -> SoftwareStack:
        return replace(SoftwareStack(), **self.plan.known)

    @cached_property
    def kinds(self) -> list[str]:
        """Machines and formats that the runs are on."""
        return sorted(set(_kinds(self.runs)))

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Every direction: a constant, and the machine and format where it is told apart."""
        names = (*ALWAYS, *self.plan.further)
        shared = [(name, "all") for name in names if name not in (*BY_MACHINE, *BY_FORMAT)]
        of_machines = [(name, kind) for name in BY_MACHINE if name in names for kind in self.kinds]
        return shared + of_machines + [(name, each) for name in BY_FORMAT if name in names for each in self.formats]

    @cached_property
    def formats(self) -> list[str]:
        return sorted({_format(kind) for kind in self.kinds})

    def tells(self, kind: str) -> Mask:
        """For each kind of runs, whether a direction told apart by this concerns it."""
        return np.array([kind in ("all", each, _format(each)) for each in self.kinds])

    @cached_property
    def start(self) -> Numbers:
        return np.array([_place(name, float(getattr(self.base, name))) for name, _ in self.keys])

    @cached_property
    def _kinships(self) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Which directions are expected to be alike: those of one generation and format, and those of one format.

        As pairs: for each direction the number of its group, among all, and how many are in it.
        """
        nearer = [f"{name}/{generation(kind)}/{_format(kind)}" for name, kind in self.keys]
        wider = [f"{name}/{_format(kind)}" for name, kind in self.keys]
        return [
            (at, counts)
            for _, at, counts in (np.unique(each, return_inverse=True, return_counts=True) for each in (nearer, wider))
        ]

    def beyond_expected(self, point: Numbers) -> Numbers:
        """How far each direction is from its kin of the generation, these from all of the format, and they from where
        the search starts. A constant that is not told apart is its own kin.
        """
        generations, formats = ((np.bincount(at, point) / counts)[at] for at, counts in self._kinships)
        return np.concatenate([point - generations, generations - formats, formats - self.start])

    def places(self, runs: Runs) -> Places:
        """Of the machine and format of every run, among all of them."""
        return np.array([self.kinds.index(kind) for kind in _kinds(runs)])

    def stack(self, points: Numbers, places: Places) -> SoftwareStack:
        """Of every run at every point: columns, the runs of the first point first."""
        at, kinds = np.repeat(np.arange(len(points)), len(places)), np.tile(places, len(points))
        values: dict[str, list[Numbers]] = {}
        for (name, _), column in zip(self.keys, points.T, strict=True):
            values.setdefault(name, []).append(_values(name, column))
        of_formats = np.array([self.formats.index(_format(kind)) for kind in self.kinds])[kinds]
        chosen = dict.fromkeys(BY_MACHINE, kinds) | dict.fromkeys(BY_FORMAT, of_formats)
        columns = {
            name: np.stack(each, axis=1)[at, chosen[name]] if name in chosen else each[0][at]
            for name, each in values.items()
        }
        return replace(self.base, **columns)

    def errors(self, points: Numbers, runs: Runs) -> Numbers:
        """Logarithms of predicted over measured times: a row per point, a column per run."""
        return self.errors_of(points, runs.where(np.tile(np.arange(len(runs)), len(points))), self.places(runs))

    def errors_of(self, points: Numbers, repeated: Runs, places: Places) -> Numbers:
        """The same, of runs that were repeated for every point before."""
        rates = with_stack(repeated.bare, self.stack(points, places))
        time = step_time(step_costs(repeated.model, repeated.batch, repeated.layout, rates))
        errors = np.clip(np.log(time.step_s / repeated.measured_s), -3.0, 3.0)
        return np.asarray(errors.reshape(len(points), len(places)), np.float64)

    def best(self, runs: Runs, weights: Numbers, start: Numbers, evaluations: int) -> Numbers:
        """First of usual models without experts, in all directions but those that only others tell; then of these."""
        names = [name for name, _ in self.keys]
        experts, across, stalls = (np.isin(names, some) for some in (EXPERTS, ACROSS, STALLS))
        stalling = _large(runs) & stalls.any()
        found = start
        for free, told in (
            (~(experts | across | stalls), ~runs.sparse & _usual(runs) & ~stalling),
            (experts, runs.sparse),
            (across, _beyond(runs) & ~stalling),
            (stalls, stalling),
        ):
            found = self._best_along(free, runs.where(told), weights[told], found, evaluations)
        return found

    def _best_along(self, free: Mask, runs: Runs, weights: Numbers, start: Numbers, evaluations: int) -> Numbers:
        if not (free.any() and len(runs)):
            return start

        together, kinds = self._together(free), [kind for _, kind in np.array(self.keys)[free]]
        places = self.places(runs)
        repeated = runs.where(np.tile(np.arange(len(runs)), len(together)))

        beyond = np.stack([self.beyond_expected(each) for each in np.eye(len(start))[free]], axis=1)
        beyond -= self.beyond_expected(np.zeros(len(start)))[:, None]

        def whole(parts: Numbers) -> Numbers:
            points = np.tile(start, (len(parts), 1))
            points[:, free] = parts
            return points

        def losses(part: Numbers) -> Numbers:
            errors = np.sqrt(weights) * self.errors_of(whole(part[None]), runs, places)[0]
            return np.concatenate([errors, PRIOR * self.beyond_expected(whole(part[None])[0])])

        def slopes(part: Numbers) -> Numbers:
            """Of losses. Constants of different machines have no run in common: one step is enough for all of them."""
            step = np.where(part < 0.5, STEP, -STEP)
            moved = np.tile(part, (len(together), 1))
            for number, columns in enumerate(together):
                moved[number, columns] += step[columns]
            here = self.errors_of(whole(part[None]), runs, places)
            changes = np.sqrt(weights) * (self.errors_of(whole(moved), repeated, places) - here)
            found = np.zeros((len(runs), len(part)))
            for number, columns in enumerate(together):
                for column in columns:
                    own = self.tells(kinds[column])[places]
                    found[:, column] = np.where(own, changes[number], 0.0) / step[column]
            return np.concatenate([found, PRIOR * beyond])

        begin = np.clip(start[free], 0.005, 0.995)
        found = least_squares(
            losses, begin, slopes, bounds=(0, 1), loss="soft_l1", f_scale=SCALE, max_nfev=evaluations, ftol=TOLERANCE
        )
        return np.asarray(whole(np.asarray(found.x)[None])[0], np.float64)

    def _together(self, free: Mask) -> list[list[int]]:
        """Directions by constant, as places among the free ones."""
        names = [name for name, _ in np.array(self.keys)[free]]
        return [[at for at, each in enumerate(names) if each == name] for name in dict.fromkeys(names)]

    def constants(self, point: Numbers) -> Constants:
        """As they are written: of the stack, and of machines in a format."""
        written: Constants = {"all": {name: float(value) for name, value in self.plan.known.items()}}
        for (name, kind), each in zip(self.keys, point, strict=True):
            written.setdefault(kind, {})[name] = _rounded(float(_values(name, each)))
        return written


def _elsewhere(own: Constants, common: Constants) -> Constants:
    """For architectures and formats that a stack has no runs on: what is common there, times what the stack is beside
    the common on those that it has; for those that nobody has runs on, the mean of their generation, or of a format.
    """
    found: Constants = {}
    kinds = [kind for kind in common if "/" in kind]
    for name in BY_MACHINE:
        shared = [kind for kind in kinds if name in own.get(kind, {})]
        beside = _mean([own[kind][name] / common[kind][name] for kind in shared] or [1.0])
        for kind in kinds:
            usual = _within(name, beside * common[kind][name])
            found.setdefault(kind, {})[name] = own.get(kind, {}).get(name, usual)
    for format_ in sorted({_format(kind) for kind in kinds}):
        same = [each for kind, each in found.items() if kind.endswith(f"/{format_}")]
        found[format_] = {name: _rounded(_mean([each[name] for each in same])) for name in BY_MACHINE}
        found[format_].update({name: common[format_][name] for name in BY_FORMAT if name in common.get(format_, {})})
        found[format_].update(own.get(format_, {}))
    for wider in sorted({f"{generation(kind)}/{_format(kind)}" for kind in kinds}):
        near, _, format_ = wider.partition("/")
        same = [found[kind] for kind in kinds if kind.endswith(f"/{format_}") and generation(kind) == near]
        found[wider] = {name: _rounded(_mean([each[name] for each in same])) for name in BY_MACHINE}
    return {kind: {**each, **own.get(kind, {})} for kind, each in found.items()}


def _format(kind: str) -> str:
    """Of a machine and a format, or of a format alone."""
    return kind.rpartition("/")[2]


def _within(name: str, value: float) -> float:
    low, high = BOUNDS[name]
    return _rounded(min(max(value, low), high))


def _mean(numbers: list[float]) -> float:
    return float(np.mean(numbers))


def _kinds(runs: Runs) -> list[str]:
    kinds = {name: _architecture(name) for name in np.unique(runs.machines).tolist()}
    return [f"{kinds[name]}/{format_kind(dtype)}" for name, dtype in zip(runs.machines, runs.formats, strict=True)]


def _architecture(machine: str) -> str:
    """The nearest kin of a record: machines of one die tell the same constants."""
    return kin(find(machine))[0]


def _is_wide(name: str) -> bool:
    """Whether a constant is searched by its logarithm."""
    low, high = BOUNDS[name]
    return low > 0 and high / low > 20


def _values(name: str, places: Numbers) -> Numbers:
    low, high = BOUNDS[name]
    return np.asarray(low * (high / low) ** places if _is_wide(name) else low + (high - low) * places, np.float64)


def _place(name: str, value: float) -> float:
    low, high = BOUNDS[name]
    within = min(max(value, low), high)
    return float(np.log(within / low) / np.log(high / low) if _is_wide(name) else (within - low) / (high - low))


def _rounded(value: float) -> float:
    return float(f"{value:.4g}")


if __name__ == "__main__":
    main()
