"""What each collective does to a few numbers on every rank, before and after, as plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from redline.probes.collectives.shown import Shown
from redline.report.language import _, marked
from redline.report.layout import left, right, width_of, wrapped

_WIDTH = 100
_MOST_RANKS = 8
_MOST_NUMBERS = 12

_MEANINGS = {
    "broadcast": marked("every rank gets what the first rank has"),
    "reduce": marked("the first rank gets the sum of what all ranks have"),
    "all_reduce": marked("every rank gets the sum of what all ranks have"),
    "gather": marked("the first rank gets what all ranks have, one after another"),
    "all_gather": marked("every rank gets what all ranks have, one after another"),
    "scatter": marked("every rank gets its own part of what the first rank has"),
    "reduce_scatter": marked("every rank gets its own part of the sum of what all ranks have"),
    "all_to_all": marked("every rank gets its own part from each rank: rows become columns"),
    "send_recv": marked("every rank sends to the next one, and receives from the one before"),
    "barrier": marked("every rank waits until all have come; nothing is sent that a program could see"),
}


def render(shown: Sequence[Shown]) -> str:
    """One block for each operation."""
    return "\n".join("\n".join(_block(one)) + "\n" for one in shown)


def _block(one: Shown) -> Iterator[str]:
    yield from wrapped(_(_MEANINGS[one.operation]), _WIDTH, f"{one.operation}: ", "  ")
    if not any(one.before):
        return
    ranks = range(min(len(one.before), _MOST_RANKS))
    names = [_("rank {rank}").format(rank=rank) for rank in ranks]
    befores = [_numbers(one.before[rank], _cell(one)) for rank in ranks]
    width, name_width = max(map(width_of, befores)), max(map(width_of, names))
    for rank in ranks:
        after = _numbers(one.after[rank], _cell(one))
        yield f"  {left(names[rank], name_width)}  {left(befores[rank], width)}  ->  {after}"
    if len(one.before) > _MOST_RANKS:
        yield "  " + _("and so on, up to rank {rank}").format(rank=len(one.before) - 1)
    if not one.correct:
        yield "  " + _("This is not what the operation is defined to do: something between the ranks is broken.")


def _cell(one: Shown) -> int:
    """Columns of the longest number."""
    return max(len(str(number)) for numbers in (*one.before, *one.after) for number in numbers or (0,))


def _numbers(numbers: Sequence[int] | None, width: int) -> str:
    if numbers is None:
        return _("(not defined)")
    if not numbers:
        return _("(nothing)")
    more = [" ..."] if len(numbers) > _MOST_NUMBERS else []
    return "[" + " ".join(right(str(number), width) for number in numbers[:_MOST_NUMBERS]) + "".join(more) + "]"
