"""RL-H03: Python reads values from the device, and the host waits for each."""

from tests.support.events import Event, document, op, span
from tests.support.rules.host import READ, call, two_kernels
from tests.support.rules.matching import claimed_ns, copied, found, matched


def item_of(copy: list[Event]) -> list[Event]:
    return [op("aten::item", 10, 412), op("aten::_local_scalar_dense", 11, 410), *copy]


def test_h03_claims_the_idle_time_after_a_read() -> None:
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    data = document(two_kernels(403, 500, *reads))
    assert claimed_ns(data, "RL-H03") == 2_000 + 1_000 + 97_000  # 403 to 405, the copy, and 406 to 503 us
    finding = found(data)["RL-H03"]
    assert finding.evidence[0].values["operator"] == "aten::item"
    assert finding.evidence[0].values["blocked_ns"] == 408_000


def test_h03_claims_no_more_than_the_host_was_blocked() -> None:
    """The device had nothing to do long before: the host was blocked for 16 us only, the copy took 1."""
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = [op("aten::item", 400, 22), *copied(READ, 408, 1, 3, size_bytes=4, at=404, took=8), wait]
    assert claimed_ns(document(two_kernels(103, 900, *reads)), "RL-H03") == 17_000


def test_h03_counts_what_an_earlier_read_held_up() -> None:
    """The second read finds the device idle and takes 8 us, but without the first the host would be 408 us ahead."""
    first = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), call("cudaStreamSynchronize", 415, 5)])
    second = [op("aten::item", 424, 12), *copied(READ, 430, 1, 4, size_bytes=4, at=427, took=8)]
    assert claimed_ns(document(two_kernels(403, 500, *first, *second)), "RL-H03") == 100_000


def test_h03_leaves_numbers_of_the_host_alone() -> None:
    assert "RL-H03" not in matched(document(two_kernels(403, 500, *item_of([]))))


def test_h03_leaves_copies_alone_that_nobody_waits_for() -> None:
    copy = copied("Memcpy DtoH (Device -> Pinned)", 405, 1, 3, size_bytes=4, at=12, took=2)
    assert "RL-H03" not in matched(document(two_kernels(403, 500, op("aten::copy_", 10, 6), *copy)))


def test_h03_names_the_line_of_the_program() -> None:
    python = span("python_function", "train.py(7): log", 5, 450, args={"Python id": 1})
    wait = call("cudaStreamSynchronize", 415, 5)
    reads = item_of([*copied(READ, 405, 1, 3, size_bytes=4, at=12, took=402), wait])
    evidence = found(document(two_kernels(403, 500, python, *reads)))["RL-H03"].evidence
    assert evidence[-1].values == {"site": "train.py(7): log"}
