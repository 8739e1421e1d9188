"""Contents before and after a collective, as they are shown to learners."""

from redline.hardware.machine import COLLECTIVES
from redline.probes.collectives.shown import Shown
from redline.report.collectives_shown_text import render


def shown(operation: str = "all_reduce", *, ranks: int = 2) -> Shown:
    return Shown(operation=operation, before=((1, 2),) * ranks, after=((2, 4),) * ranks, correct=True)


def test_every_operation_is_explained() -> None:
    blocks = render([shown(operation) for operation in COLLECTIVES]).split("\n\n")
    assert [block.partition(":")[0] for block in blocks] == list(COLLECTIVES)


def test_contents_by_rank() -> None:
    assert render([shown()]) == (
        "all_reduce: every rank gets the sum of what all ranks have\n"
        "  rank 0  [1 2]  ->  [2 4]\n"
        "  rank 1  [1 2]  ->  [2 4]\n"
    )


def test_what_is_empty_undefined_or_wrong() -> None:
    gather = Shown(operation="gather", before=((1,), (2,)), after=((1, 2), None), correct=False)
    scatter = Shown(operation="scatter", before=((1, 2), ()), after=((1,), (2,)), correct=True)
    text = render([gather, scatter])
    assert "This is not what the operation is defined to do: something between the ranks is broken." in text
    assert "  rank 1  [2]  ->  (not defined)\n" in text
    assert "  rank 1  (nothing)  ->  [2]\n" in text


def test_a_barrier_has_no_contents() -> None:
    nothing = Shown(operation="barrier", before=((), ()), after=((), ()), correct=True)
    assert render([nothing]).startswith("barrier: every rank waits until all have come;")
    assert render([nothing]).count("\n") == 1


def test_many_ranks_and_many_numbers_are_cut() -> None:
    assert "  and so on, up to rank 9\n" in render([shown(ranks=10)])
    wide = Shown(operation="broadcast", before=(tuple(range(13)),), after=((0,),), correct=True)
    assert " 11 ...]" in render([wide])
