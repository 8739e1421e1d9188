"""What the user fixed of a layout that can never be: said with the numbers that stand against it."""

from collections.abc import Iterator
from math import prod

from redline.cost.train.plan import TrainingRequest
from redline.cost.train.space import LARGEST_CONTEXT, LARGEST_TENSOR, LEAST_CONTEXT_TOKENS
from redline.errors import UsageError

_SPLITS = ("dp", "tp", "pp", "cp")


def refuse_impossible(request: TrainingRequest) -> None:
    """Raise UsageError for the first wish of which no value is possible."""
    for name, values in request.fixed.items():
        reasons = [_against(request, name, int(value)) for value in values]
        if all(reasons):
            raise UsageError(f"--{name.replace('_', '-')} {_listed(values)}: {reasons[0]}")
    _refuse_product(request)


def _against(request: TrainingRequest, name: str, value: int) -> str:
    """Why a value is impossible whatever the rest is; nothing where it is possible."""
    return next(iter(_objections(request, name, value)), "")


def _objections(request: TrainingRequest, name: str, value: int) -> Iterator[str]:
    if name in _SPLITS and request.devices % value:
        yield f"that does not divide {request.devices} GPUs; give one of {_divisors(request.devices)}"
    if name == "tp":
        yield from _against_tensor(request, value)
    if name == "pp" and value > request.model.layers:
        yield f"the model has only {request.model.layers:g} layers to deal to stages"
    if name == "cp":
        yield from _against_context(request, value)
    if name == "dp" and request.sequences % value:
        yield f"a batch of {request.sequences} sequences cannot be dealt to {value} copies evenly; change --batch"
    if name == "ep":
        yield from _against_experts(request, value)
    if name == "micro_batch" and request.sequences % value:
        yield f"a batch of {request.sequences} sequences is no multiple of that; change --batch"


def _against_tensor(request: TrainingRequest, value: int) -> Iterator[str]:
    heads = int(request.model.heads)
    if heads % value:
        yield f"that does not divide the {heads} attention heads of the model; give one of {_divisors(heads)}"
    if value > LARGEST_TENSOR:
        yield f"nobody has measured more than {LARGEST_TENSOR}, so nothing is predicted"


def _against_context(request: TrainingRequest, value: int) -> Iterator[str]:
    if value > LARGEST_CONTEXT:
        yield f"nobody has measured more than {LARGEST_CONTEXT}, so nothing is predicted"
    if value > 1 and request.sequence / value < LEAST_CONTEXT_TOKENS:
        most = max(1, request.sequence // LEAST_CONTEXT_TOKENS)
        yield f"pieces of a sequence below {LEAST_CONTEXT_TOKENS} tokens hide no traffic; give at most {most}"


def _against_experts(request: TrainingRequest, value: int) -> Iterator[str]:
    experts = int(request.model.experts)
    if not experts and value > 1:
        yield "the model has no experts"
    if experts and experts % value:
        yield f"that does not divide the {experts} experts of a layer; give one of {_divisors(experts)}"


def _refuse_product(request: TrainingRequest) -> None:
    """Where every split has one value, their product is known."""
    single = {name: int(request.fixed[name][0]) for name in _SPLITS if len(request.fixed.get(name, ())) == 1}
    product = prod(single.values())
    if request.devices % product or (len(single) == len(_SPLITS) and product != request.devices):
        words = " x ".join(f"{name} {value}" for name, value in single.items())
        raise UsageError(f"{words} are {product} GPUs, and --gpus says {request.devices}; change one of them")


def _listed(values: tuple[float, ...]) -> str:
    return ",".join(f"{value:g}" for value in values)


def _divisors(number: int) -> str:
    found = [each for each in range(1, number + 1) if number % each == 0]
    return ", ".join(map(str, found[:12])) + (", ..." if len(found) > 12 else "")
