"""RL-C15: batches of different lengths that are padded to one."""

from collections.abc import Sequence

import pytest

from redline.report.diagnose.finding_messages import sentence
from tests.support.events import Event, document, op
from tests.support.rules.matching import claimed_ns, described, found, matched, step


def job(*lengths: int, padded: int = 100, more: Sequence[Event] = ()) -> bytes:
    events = [step(0, 0, 1000), op("aten::mm", 500, 400, **described("float", [100, 64], [64, 64]))]
    events += [padding(10 * place, length, padded - length) for place, length in enumerate(lengths)]
    return document([*events, *more])


def padding(ts: float, length: int, by: int) -> Event:
    args = described("long int", [8, length]) | {"Concrete Inputs": ["", f"[0, {by}]", "0."]}
    return op("aten::constant_pad_nd", ts, 1, **args)


def test_c15_claims_what_the_square_of_the_length_saves() -> None:
    data = job(40, 60)
    assert claimed_ns(data, "RL-C15") == pytest.approx(0.75 * 402_000, rel=0.01)
    (evidence,) = found(data)["RL-C15"].evidence
    assert evidence.values == {"length": 50, "padded": 100, "padding_share": 0.5}


@pytest.mark.parametrize("lengths", [(), (50,), (50, 50), (95, 96)])
def test_c15_is_silent_without_padding_or_with_one_length(lengths: tuple[int, ...]) -> None:
    assert "RL-C15" not in matched(job(*lengths))


def test_c15_leaves_labels_out_that_a_loss_moves_by_one_position() -> None:
    (evidence,) = found(job(40, 60, more=[padding(30, 100, 1)]))["RL-C15"].evidence
    assert (evidence.values["length"], evidence.values["padded"]) == (50, 100)


def rows_of(*lengths: int) -> Event:
    args = described("long int") | {"Input Dims": [[[length] for length in lengths], [], []]}
    return op("aten::pad_sequence", 10, 1, **args)


def test_c15_claims_batches_of_short_and_long_rows() -> None:
    data = job(more=[rows_of(100, 20, 20, 20)])
    finding = found(data)["RL-C15"]
    assert finding.evidence[0].values == {"length": 40, "padded": 100, "padding_share": 0.6}
    assert "Put rows of similar length into one batch" in sentence(finding.fix) if finding.fix else False
    assert "RL-C15" not in matched(job(more=[rows_of(100, 80, 60, 80)]))
    assert "RL-C15" not in matched(job(more=[op("aten::pad_sequence", 10, 1)]))  # its shapes were not recorded
