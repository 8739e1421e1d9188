"""Constraints on a layout that no layout can meet: refused with the numbers that stand against them."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from redline.errors import ParameterError, UsageError
from redline.planner.train.search.plan import TrainingRequest
from redline.planner.train.search.space import listed_divisors
from redline.planner.train.stack_abilities import abilities
from redline.planner.train.training_choices import RECOMPUTES, SCHEDULES

_NAMED: Mapping[str, Mapping[str, int]] = {"schedule": SCHEDULES, "recompute": RECOMPUTES}
_SPLITS = ("dp", "tp", "pp", "cp")


def refuse_impossible(request: TrainingRequest) -> None:
    """Raise UsageError for the first constraint of which no value is possible."""
    request.workload.refuse(request.fixed)
    for name, values in request.fixed.items():
        reasons = [next(_objections(request, name, int(value)), "") for value in values]
        if all(reasons):
            raise ParameterError(name, f" {_listed(name, values)}: {reasons[0]}")
    _refuse_product(request)


def _objections(request: TrainingRequest, name: str, value: int) -> Iterator[str]:
    """Why a value is impossible whatever the rest is."""
    able = abilities(request.stack)
    if not able.has(name, value):
        yield _not_of_stack(request.stack, name, able.only[name])
    if name in _SPLITS and request.devices % value:
        yield f"that does not divide {request.devices} GPUs; give one of {listed_divisors(request.devices)}"
    yield from request.workload.objections(name, value, request.sequence)
    batch = f"a batch of {request.sequences} {request.workload.batch_unit}"
    if name == "dp" and request.sequences % value:
        yield f"{batch} cannot be dealt to {value} copies evenly; change the batch"
    if name == "micro_batch" and request.sequences % value:
        yield f"{batch} is no multiple of that; change the batch"


def _not_of_stack(stack: str, name: str, possible: tuple[int, ...]) -> str:
    return f"the stack {stack} has only {_listed(name, possible)}; leave it out, or plan without --stack"


def _refuse_product(request: TrainingRequest) -> None:
    """Where every split has one value, their product is known."""
    single = {name: int(request.fixed[name][0]) for name in _SPLITS if len(request.fixed.get(name, ())) == 1}
    product = prod(single.values())
    if request.devices % product or (len(single) == len(_SPLITS) and product != request.devices):
        words = " x ".join(f"{name} {value}" for name, value in single.items())
        raise UsageError(f"{words} are {product} GPUs, and there are {request.devices}; change one of them")


def _listed(name: str, values: Sequence[float]) -> str:
    """As users write them."""
    words = {number: text for text, number in _NAMED.get(name, {}).items()}
    return ",".join(words.get(int(value), f"{value:g}") for value in values)
