"""Contents before and after a collective, as they are shown to learners."""

from redline.calibration.collectives.collective_law import OPERATIONS
from redline.calibration.collectives.start import OperationExample
from redline.report.calibrate.collectives_shown_text import MEANINGS, render


def shown(operation: str = "all_reduce", *, correct: bool = True, ranks: int = 2) -> OperationExample:
    return OperationExample(
        operation=operation, before=((1, 2),) * ranks, after=((2, 4), *((2, 4),) * (ranks - 1)), correct=correct
    )


def test_every_operation_is_explained() -> None:
    assert set(MEANINGS) == set(OPERATIONS)


def test_contents_by_rank() -> None:
    assert render([shown()]) == (
        "all_reduce: all give, all get the sum\n  rank  before  after\n     0  [1 2]   [2 4]\n     1  [1 2]   [2 4]\n"
    )


def test_what_is_empty_undefined_or_wrong() -> None:
    gather = OperationExample(operation="gather", before=((1,), (2,)), after=((1, 2), None), correct=False)
    scatter = OperationExample(operation="scatter", before=((1, 2), ()), after=((1,), (2,)), correct=True)
    text = render([gather, scatter])
    assert "  WRONG: this is not what the definition says\n" in text
    assert "     1  [2]     not defined\n" in text
    assert "     1  -       [2]\n" in text


def test_a_barrier_has_no_contents() -> None:
    nothing = OperationExample(operation="barrier", before=((), ()), after=((), ()), correct=True)
    assert render([nothing]) == "barrier: nothing is exchanged; no rank continues before all have arrived\n"


def test_many_ranks_and_many_numbers_are_cut() -> None:
    text = render([shown(ranks=10)])
    assert "  2 more\n" in text
    wide = OperationExample(operation="new_op", before=(tuple(range(9)),), after=((0,),), correct=True)
    assert render([wide]).startswith("new op\n") or render([wide]).startswith("new_op\n")
    assert "[0 1 2 3 4 5 6 7 ...]" in render([wide])
