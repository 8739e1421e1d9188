"""What the check of numbers says in words: whether they are right, and where they first are not."""

from collections.abc import Iterator
from math import isfinite

from redline.numerics import Numerics
from redline.report.language import _, marked
from redline.trials.numbers.check import NumbersResult
from redline.trials.numbers.judgement import LIMIT, NumbersJudgement, TensorDeviation

_HOLDS = {
    Numerics.BITWISE: marked("The numbers are the same, bit for bit."),
    Numerics.REASSOCIATION: marked("The numbers are right: they differ by no more than sums in another order."),
    Numerics.LOWER_PRECISION: marked("The numbers are right for lower precision."),
}
_KINDS = {
    "loss": marked("the loss"),
    "activation": marked("the output of {name}"),
    "gradient": marked("the gradient of {name}"),
    "unclipped gradient": marked("the gradient of {name} before clipping"),
    "start": marked("the initial value of {name}"),
    "dropout": marked("the dropout of {name}"),
    "movement": marked("the updates of {name}"),
}


def numbers_sentence(result: NumbersResult) -> str:
    """The verdict."""
    if result.verdict is Numerics.SEMANTICS:
        return _("The numbers are wrong: the change computes something else.")
    if not result.holds:
        return _("The numbers are not as claimed: {verdict} instead of {claimed}.").format(
            verdict=class_name(result.verdict), claimed=class_name(result.claimed)
        )
    return _(_HOLDS[result.verdict])


def class_name(numerics: Numerics) -> str:
    names = {
        Numerics.BITWISE: _("the same bits"),
        Numerics.REASSOCIATION: _("sums in another order"),
        Numerics.LOWER_PRECISION: _("lower precision"),
        Numerics.SEMANTICS: _("something else"),
    }
    return names[numerics]


def first_sentence(first: TensorDeviation) -> str:
    """Where it begins, and how it is off."""
    values = {
        "what": tensor_name(first),
        "step": first.key.step + 1,
        "deviating": first.deviating,
        "compared": first.compared,
    }
    text = _("First seen in step {step}: {what} ({deviating} of {compared} such tensors deviate).").format(**values)
    return f"{text} {_how(first)}".rstrip()


def tensor_name(first: TensorDeviation) -> str:
    """What it is of the model."""
    name = f"`{first.key.name}`" if first.key.name else _("the model")
    return _(_KINDS.get(first.key.kind, "{name}")).format(name=name)


def _how(first: TensorDeviation) -> str:
    difference = first.difference
    if not isfinite(difference.gain):
        return ""
    values = {"gain": f"{difference.gain:.3f}", "score": f"{first.score:.3g}"}
    if first.same_direction:
        return _("It is {gain} x as large, in the same direction; {score} x its floor.").format(**values)
    return _("{score} x its floor, in another direction.").format(**values)


def extent_sentence(judged: NumbersJudgement, steps: int) -> str:
    return _(
        "{compared} tensors of {steps} steps were compared; the largest is {score} x its floor (limit {limit})."
    ).format(compared=judged.compared, steps=steps, score=f"{judged.score:.2g}", limit=f"{LIMIT:g}")


def numbers_sentences(result: NumbersResult) -> Iterator[str]:
    """All of it, in order."""
    yield numbers_sentence(result)
    if result.first is not None:
        yield first_sentence(result.first)
    judged = result.structure or result.precision
    if judged is not None and result.first is None:
        yield extent_sentence(judged, result.steps)
    yield from result.notes
