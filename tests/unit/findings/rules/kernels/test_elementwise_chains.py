"""RL-B01: chains of small operators, each of which reads from memory what the one before it wrote there."""

from tests.support.events import document, kernel, launch, op, region
from tests.support.rules.matching import FP32, calls, claimed_ns, described, found, machine, matched, step

BIG = [1024, 1024]
ADD = ("aten::add", described(FP32, BIG, BIG, []))
RELU = ("aten::relu", described(FP32, BIG))
MEAN = ("aten::mean", {**described(FP32, BIG, [], [], []), "Concrete Inputs": ["", "[1]", "True", ""]})
SMALL = ("aten::sqrt", described(FP32, [1024, 1]))
OTHER_SIZE = ("aten::relu", described(FP32, [2048, 2048]))


def test_b01_keeps_the_longest_member_of_a_chain_on_an_unknown_device() -> None:
    assert claimed_ns(document(calls(ADD, RELU, RELU)), "RL-B01") == 200_000


def test_b01_keeps_the_traffic_of_the_largest_member() -> None:
    data = document(calls(ADD, RELU, RELU))
    fast = machine(fp32=1)
    assert claimed_ns(data, "RL-B01", fast) == 300_000 - 12_583  # three tensors of 4 MiB at 1000 GB/s
    (evidence,) = found(data, machine=fast)["RL-B01"].evidence
    assert evidence.values == {"chained": 3, "chains": 1, "chain_ns": 300_000, "chain_share": 1.0}


def test_b01_follows_a_reduction_to_its_smaller_result() -> None:
    assert claimed_ns(document(calls(RELU, MEAN, SMALL)), "RL-B01") == 200_000


def test_b01_is_silent_where_sizes_differ() -> None:
    assert "RL-B01" not in matched(document(calls(ADD, OTHER_SIZE)))


def test_b01_is_silent_where_other_kernels_stand_between() -> None:
    product = ("aten::mm", described(FP32, BIG, BIG))
    assert "RL-B01" not in matched(document(calls(ADD, product, RELU)))


def test_b01_is_silent_for_a_small_share_of_the_kernel_time() -> None:
    events = calls(ADD, RELU, us=30)
    events += [launch(500, 9), kernel("gemm", 550, 400, correlation=9)]
    assert "RL-B01" not in matched(document(events))


def test_b01_leaves_optimizers_alone() -> None:
    assert "RL-B01" not in matched(document([*calls(ADD, RELU), region("Optimizer.step#Adam.step", 0, 50)]))


def eager(*functors: str) -> bytes:
    """Kernels of unknown work."""
    events = [step(0, 0, 1000)]
    for place, functor in enumerate(functors):
        name = f"void at::native::vectorized_elementwise_kernel<4, {functor}>"
        events += [launch(10 * place, place + 1), kernel(name, 100 * (place + 1), 100, correlation=place + 1)]
    return document(events)


def test_b01_knows_eager_kernels_by_name_but_takes_repeated_ones_for_a_loop_over_tensors() -> None:
    assert claimed_ns(eager("add", "mul"), "RL-B01") == 100_000
    assert "RL-B01" not in matched(eager("add", "add"))


def test_b01_takes_two_kernels_of_one_call_for_no_chain() -> None:
    events = [step(0, 0, 1000), op(RELU[0], 0, 20, **RELU[1])]
    events += [launch(1, 1), kernel("first", 100, 100, correlation=1)]
    events += [launch(5, 2), kernel("second", 200, 100, correlation=2)]
    assert "RL-B01" not in matched(document(events))
