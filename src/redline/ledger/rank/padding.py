"""How much longer batches are padded than what they hold: by the operators that pad them, in order of time."""

from collections.abc import Callable

import numpy as np

from redline.ledger.rank.name_matching import matching
from redline.roofline.sizes import list_shapes_of, padded_length
from redline.timeline.table import I64
from redline.timeline.timeline import Kind, Operators, Timeline
from redline.trace import schema
from redline.values import dataclass

LEAST_LENGTHS = 2  # that batches had before padding: one length alone may be what the model needs
SHIFT = 1  # labels are padded by one position where a loss moves them by one
LEAST_PADDING = 0.1  # of the padded length
LEAST_ROW_PADDING = 0.5  # of a batch that is padded to its own longest row: rows of any data differ


@dataclass(frozen=True, kw_only=True)
class Padding:
    """Of all batches together."""

    batches: int
    length: int  # of the longest row of each batch; or of an average one, where they are padded to the longest
    padded: int
    by_rows: bool  # to the longest row of their batch, not to one maximum

    @property
    def used(self) -> float:
        """Of what the model computes."""
        return self.length / self.padded


def padding_of(timeline: Timeline) -> Padding | None:
    """None where too little is padded to matter. Only padding that is an operator is seen: not that of tokenizers, nor
    of workers."""
    before, after = _padded(timeline)
    to_maximum = len(np.unique(before)) >= LEAST_LENGTHS and len(np.unique(after)) == 1
    if not to_maximum:
        before, after = _padded_rows(timeline)
    if not len(after) or not after.any():
        return None
    found = Padding(batches=len(before), length=int(before.sum()), padded=int(after.sum()), by_rows=not to_maximum)
    least = LEAST_PADDING if to_maximum else LEAST_ROW_PADDING
    return found if 1 - found.used >= least else None


def _padded_rows(timeline: Timeline) -> tuple[I64, I64]:
    """Of each batch that pad_sequence made the average length of its rows, and the longest."""
    calls = _calls(timeline, schema.pads_rows)
    lengths = [[shape[0] for shape in list_shapes_of(timeline.text(text)) if shape] for text in calls.shapes.tolist()]
    batches = [(round(sum(batch) / len(batch)), max(batch)) for batch in lengths if batch]
    before, after = np.array(batches, np.int64).reshape(-1, 2).T
    return before, after


def _padded(timeline: Timeline) -> tuple[I64, I64]:
    """Lengths of batches before and after padding."""
    calls = _calls(timeline, schema.is_padding)
    texts = zip(calls.shapes.tolist(), calls.values.tolist(), strict=True)
    lengths = [padded_length(timeline.text(shapes), timeline.text(values)) for shapes, values in texts]
    before, after = np.array(lengths, np.int64).reshape(-1, 2).T
    is_padding = after - before > SHIFT
    return before[is_padding], after[is_padding]


def _calls(timeline: Timeline, is_meant: Callable[[str], bool]) -> Operators:
    rows = timeline.spans.rows_of(Kind.OPERATOR)
    return timeline.operators.take(np.isin(timeline.operators.row, rows[matching(timeline, rows, is_meant)]))
