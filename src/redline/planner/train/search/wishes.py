"""What the user fixed of a layout that can never be: said with the numbers that stand against it."""

from collections.abc import Iterator
from math import prod

from redline.errors import UsageError
from redline.model.counted import CountedModule
from redline.model.model import Model
from redline.planner.train.layout import Recompute
from redline.planner.train.search.plan import TrainingRequest
from redline.planner.train.search.space import LARGEST_CONTEXT, LARGEST_TENSOR, LEAST_CONTEXT_TOKENS

_SPLITS = ("dp", "tp", "pp", "cp")
# Of a transformer: in how many parts it is divided, and how.
_PARTS, _HOW = ("tp", "pp", "cp", "ep", "chunks"), ("schedule", "sequence_parallel", "flash")


def refuse_impossible(request: TrainingRequest) -> None:
    """Raise UsageError for the first wish of which no value is possible."""
    if isinstance(request.model, CountedModule):
        _refuse_inside(request)
    for name, values in request.fixed.items():
        reasons = [_against(request, name, int(value)) for value in values]
        if all(reasons):
            raise UsageError(f"--{name.replace('_', '-')} {_listed(values)}: {reasons[0]}")
    _refuse_product(request)


def _against(request: TrainingRequest, name: str, value: int) -> str:
    """Why a value is impossible whatever the rest is; nothing where it is possible."""
    return next(iter(_objections(request, name, value)), "")


def _refuse_inside(request: TrainingRequest) -> None:
    """Of a module only the operators are known, not how its inside could be divided."""
    parts = [name for name in _PARTS if any(value > 1 for value in request.fixed.get(name, ()))]
    for name in (*parts, *(name for name in _HOW if name in request.fixed)):
        option = {"flash": "no-flash"}.get(name, name.replace("_", "-"))
        raise UsageError(
            f"--{option}: a module of your own is planned with copies of it and ZeRO or FSDP; how its inside could be "
            "divided is not known\nleave that out, or describe a transformer by a config.json or by --layers and so on"
        )
    if Recompute.SELECTIVE in request.fixed.get("recompute", ()):
        raise UsageError("--recompute selective is for transformers; a module of your own has none or full")


def _objections(request: TrainingRequest, name: str, value: int) -> Iterator[str]:
    if name in _SPLITS and request.devices % value:
        yield f"that does not divide {request.devices} GPUs; give one of {_divisors(request.devices)}"
    if isinstance(request.model, Model):
        yield from _against_inside(request, request.model, name, value)
    what = "samples" if isinstance(request.model, CountedModule) else "sequences"
    if name == "dp" and request.sequences % value:
        yield f"a batch of {request.sequences} {what} cannot be dealt to {value} copies evenly; change --batch"
    if name == "micro_batch" and request.sequences % value:
        yield f"a batch of {request.sequences} {what} is no multiple of that; change --batch"


def _against_inside(request: TrainingRequest, model: Model, name: str, value: int) -> Iterator[str]:
    if name == "tp":
        yield from _against_tensor(model, value)
    if name == "pp" and value > model.layers:
        yield f"the model has only {model.layers:g} layers to deal to stages"
    if name == "cp":
        yield from _against_context(request, value)
    if name == "ep":
        yield from _against_experts(model, value)


def _against_tensor(model: Model, value: int) -> Iterator[str]:
    heads = int(model.heads)
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


def _against_experts(model: Model, value: int) -> Iterator[str]:
    experts = int(model.experts)
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
