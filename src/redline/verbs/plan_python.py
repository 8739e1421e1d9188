"""What `redline plan` does, from Python: `plan_training`, `plan_serving` and `validate_plans`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from redline.errors import UsageError
from redline.hardware.profile import find_machine
from redline.model.counted import CountedModule
from redline.planner.serve.plan import LOADS, SIZES
from redline.planner.train.layout import Recompute, Schedule
from redline.planner.train.search.plan import TrainingRequest
from redline.planner.train.search.search import ACCEPTED_CHANCE
from redline.planner.train.search.subject import Subject, usual_stack
from redline.planner.validation.validate import validate
from redline.verbs import plan_serve
from redline.verbs.plan import find_model, find_subject
from redline.verbs.plan_job import price_job
from redline.verbs.plan_serve import ServingRequest
from redline.verbs.plan_sizes import BY, plan_sizes
from redline.verbs.shown_plans import PlannedServing, PlannedTraining, ValidatedPlans

Wish = float | str | Sequence[float | str]

LAYOUT = (
    "dp", "tp", "pp", "cp", "ep", "shard", "micro_batch", "chunks", "zero", "schedule", "recompute", "offload",
    "sequence_parallel", "flash",
)  # fmt: skip
NAMED: Mapping[str, Mapping[str, int]] = {
    "schedule": {"gpipe": Schedule.GPIPE, "1f1b": Schedule.ONE_F_ONE_B, "zero-bubble": Schedule.ZERO_BUBBLE},
    "recompute": {"none": Recompute.NONE, "selective": Recompute.SELECTIVE, "full": Recompute.FULL},
}


def plan_training(  # noqa: PLR0913 (all that can be known of a job; nearly all of it has a default)
    model: str | Path,
    *,
    machine: str,
    gpus: int | Sequence[int],
    batch: int,
    sequence: int | None = None,
    precision: str = "bf16",
    stack: str | None = None,
    layout: Mapping[str, Wish] | None = None,
    footprint: Mapping[str, float] | None = None,
    gpus_per_node: int = 0,
    nic_gbit: float = 0.0,
    by: str = BY[0],
    accept_chance: float = ACCEPTED_CHANCE,
    tokens: float | None = None,
    price: float | None = None,
    failures: float | str | None = None,
    recovery: str | None = None,
    storage_bytes_per_s: float | None = None,
    pue: float = 1.0,
) -> PlannedTraining:
    """What a training job should cost, and the best layout of all that `layout` allows."""
    subject, sizes = find_subject(str(model)), [gpus] if isinstance(gpus, int) else list(gpus)
    _refuse(sizes, by)
    request = TrainingRequest(
        model=subject,
        machine=find_machine(machine),
        devices=sizes[0],
        sequence=_sequence(subject, sequence),
        sequences=batch,
        dtype=precision,
        stack=stack or usual_stack(subject),
        devices_per_node=gpus_per_node,
        nic_bytes_per_s=nic_gbit * 1e9 / 8,
        fixed=dict(_fixed(layout or {})),
        footprint=footprint or {},
        accepted_chance=accept_chance,
    )
    sized = plan_sizes(request, sizes, by=by)
    if tokens is None:
        return PlannedTraining(plan=sized.chosen, job=None, sizes=sized.plans)
    job = price_job(
        sized.chosen,
        tokens=tokens,
        price=price,
        failures=None if failures is None else str(failures),
        recovery=recovery,
        write_bytes_per_s=storage_bytes_per_s,
        pue=pue,
    )
    return PlannedTraining(plan=sized.chosen, job=job, sizes=sized.plans)


def plan_serving(  # noqa: PLR0913 (as above)
    model: str | Path,
    *,
    machine: str,
    prompt: int,
    output_tokens: int,
    gpus: int | None = None,
    tp: Sequence[int] = SIZES,
    precision: Sequence[str] = ("bf16",),
    cache: str = "bf16",
    engine: str = "SGLang",
    concurrency: Sequence[int] = LOADS,
    max_ttft_s: float | None = None,
    max_tpot_s: float | None = None,
    price: float | None = None,
) -> PlannedServing:
    """What serving a model gives its users, and the best way to do it within the limits."""
    request = ServingRequest(
        model=find_model(str(model)),
        machine=find_machine(machine),
        prompt=prompt,
        output=output_tokens,
        engine=engine,
        dtypes=tuple(precision),
        cache_dtype=cache,
        sizes=tuple(tp),
        loads=tuple(concurrency),
        devices=gpus,
        price=price,
        most_ttft_s=max_ttft_s,
        most_tpot_s=max_tpot_s,
    )
    return PlannedServing(plan=plan_serve.plan_serving(request))


def validate_plans() -> ValidatedPlans:
    """How well plans predict the published measurements that come with Redline, none of which they were fitted to."""
    return ValidatedPlans(validation=validate())


def _refuse(sizes: Sequence[int], by: str) -> None:
    if not sizes or min(sizes) < 1:
        raise UsageError("plan_training: gpus is a number of 1 or more, or a list of such numbers")
    if by not in BY:
        raise UsageError(f"plan_training: there is no by={by!r}; there are: {', '.join(BY)}")


def _sequence(subject: Subject, sequence: int | None) -> int:
    """A sample of a module counts as one."""
    if isinstance(subject, CountedModule):
        if sequence is not None:
            raise UsageError("plan_training: sequence is for models of tokens; a module has samples: give batch alone")
        return 1
    if sequence is None:
        raise UsageError("plan_training: sequence is missing: how many tokens has a sequence? Give sequence=4096")
    return sequence


def _fixed(layout: Mapping[str, Wish]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Names as numbers, one value as a list of one."""
    for name, wish in layout.items():
        if name not in LAYOUT:
            raise UsageError(f"plan_training: a layout has no {name!r}; it has: {', '.join(LAYOUT)}")
        wishes: list[float | str] = [wish] if isinstance(wish, str | int | float) else list(wish)
        yield name, tuple(_number(name, each) for each in wishes)


def _number(name: str, wish: float | str) -> float:
    if not isinstance(wish, str):
        return float(wish)
    known = NAMED.get(name, {})
    if wish not in known:
        there = f"; there are: {', '.join(known)}" if known else "; give a number"
        raise UsageError(f"plan_training: there is no {name} {wish!r}{there}")
    return float(known[wish])
