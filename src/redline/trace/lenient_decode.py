"""Events whose JSON is sound but whose fields are not: taken field by field, what does not fit as missing."""

import json
from decimal import Decimal
from typing import Any

import msgspec

from redline.timeline.problems import ProblemLog, Reason
from redline.trace.schema import KEPT_FIRST, Args, ExactEvent


def loose_decoder(oddities: set[Reason]) -> json.JSONDecoder:
    """A decoder of any JSON that resolves repeated keys and takes inf and NaN as missing, and says so."""

    def resolve(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        resolved: dict[str, Any] = {}
        for key, value in pairs:
            if key in resolved:
                oddities.add(Reason.DUPLICATE_KEY)
                if key in KEPT_FIRST:
                    continue
            resolved[key] = value
        return resolved

    def nothing(_: str) -> None:
        oddities.add(Reason.NOT_A_NUMBER)

    return json.JSONDecoder(
        object_pairs_hook=resolve, parse_float=_bounded_decimal, parse_int=_bounded_int, parse_constant=nothing
    )


def _bounded_decimal(number: str) -> Decimal | None:
    try:
        return Decimal(number)
    except ArithmeticError:  # an exponent beyond what even a Decimal holds
        return None


def _bounded_int(digits: str) -> int | str:
    return int(digits) if len(digits) < 40 else digits


def event_from(value: Any, log: ProblemLog, offset: int) -> ExactEvent | None:
    """An event from a JSON value, field by field; fields of the wrong type are taken as missing."""
    if not isinstance(value, dict):
        log.add(Reason.NOT_AN_EVENT, offset=offset, example=str(value)[:80])
        return None
    event = ExactEvent()
    bad = _fill(event, value)
    args = value.get("args")
    if isinstance(args, dict):
        event.args = Args()
        bad += _fill(event.args, args)
    elif args is not None:
        bad.append("args")
    if bad:
        log.add(Reason.BAD_FIELD, offset=offset, example=", ".join(bad))
    return event


_FIELDS = {
    struct: {
        field.encode_name: (field.name, field.type) for field in msgspec.structs.fields(struct) if field.name != "args"
    }
    for struct in (ExactEvent, Args)
}


def _fill(struct: ExactEvent | Args, values: dict[str, Any]) -> list[str]:
    """Set what fits the struct's types, and give the names of what does not."""
    bad = []
    known = _FIELDS[type(struct)]
    for key, value in values.items():
        if value is None or key not in known:
            continue
        name, wanted = known[key]
        try:
            if wanted is msgspec.Raw:
                converted: Any = msgspec.Raw(msgspec.json.encode(value))
            else:
                converted = msgspec.convert(value, wanted, strict=False)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            bad.append(key)
            continue
        setattr(struct, name, converted)
    return bad
