"""What each collective does to a few numbers, before and after, rank by rank: to learn from."""

from collections.abc import Iterator, Mapping, Sequence

from redline.calibration.collectives.start import OperationExample
from redline.report.language import _, marked
from redline.report.terminal import as_text, table
from redline.report.text_parts import clipped

_MOST_RANKS = 8
_MOST_NUMBERS = 8

MEANINGS: Mapping[str, str] = {
    "broadcast": marked("the first rank gives, all get the same"),
    "reduce": marked("all give, the first rank gets the sum"),
    "all_reduce": marked("all give, all get the sum"),
    "gather": marked("all give a part, the first rank gets them one after another"),
    "all_gather": marked("all give a part, all get them one after another"),
    "scatter": marked("the first rank gives, each gets a part"),
    "reduce_scatter": marked("all give, each gets a part of the sum"),
    "all_to_all": marked("each gives every rank a part, and gets one from every rank"),
    "send_recv": marked("each gives to the next rank, and gets from the one before"),
    "barrier": marked("nothing is exchanged; no rank continues before all have arrived"),
}


def render(operation_examples: Sequence[OperationExample]) -> str:
    return as_text(map(_operation, operation_examples))


def _operation(operation_example: OperationExample) -> Iterator[str]:
    name = clipped(operation_example.operation, 40)
    known = operation_example.operation in MEANINGS
    yield (
        _("{operation}: {meaning}").format(operation=name, meaning=_(MEANINGS[operation_example.operation]))
        if known
        else name
    )
    if not operation_example.correct:
        yield "  " + _("WRONG: this is not what the definition says")
    if not any(operation_example.before) and not any(operation_example.after):
        return
    pairs = list(zip(operation_example.before, operation_example.after, strict=True))
    rows = [(str(rank), _numbers(before), _numbers(after)) for rank, (before, after) in enumerate(pairs[:_MOST_RANKS])]
    yield from (f"  {line}" for line in table((_("rank"), _("before"), _("after")), rows))
    if len(pairs) > _MOST_RANKS:
        yield "  " + _("{count} more").format(count=len(pairs) - _MOST_RANKS)


def _numbers(values: Sequence[int] | None) -> str:
    if values is None:
        return _("not defined")
    shown = " ".join(map(str, values[:_MOST_NUMBERS]))
    more = " ..." if len(values) > _MOST_NUMBERS else ""
    return f"[{shown}{more}]" if values else "-"
