"""Kernels of a graph are rated by the label of their step and the model; nothing is counted twice."""

from pathlib import Path

import numpy as np
import pytest

from redline.hardware.machine import Machine
from redline.ledger.accounts import Account, place
from redline.ledger.rank.digest import digest_of
from redline.ledger.rank.rank_analysis import RankAnalysis, analysis_of
from redline.model.served_model import ServedModel, served_model
from redline.trace.reader import read_file
from redline.trace.schema import BatchSizes, batch_sizes_of
from tests.support.events import document, kernel, launch, op, read_one, region
from tests.support.real_traces import RealTraces
from tests.support.rules.matching import BF16, described, machine

LABEL = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
QWEN = served_model("qwen3-8b")
MI300X = machine(gb_per_s=5300, bf16=1307)
READ_NS = (QWEN.weights_read() + QWEN.cache_read(32785)) / 5300


def analysed(
    folder: Path,
    *more: dict[str, object],
    label: str = LABEL,
    served: ServedModel | None = QWEN,
    by: Machine = MI300X,
    ranks: int = 1,
) -> RankAnalysis:
    """A step of 10 ms with a graph of two kernels that take 8 ms."""
    graph = [launch(10, 1, name="cudaGraphLaunch"), kernel("gemm", 20, 6000, correlation=1)]
    graph += [kernel("attention", 6020, 2000, correlation=1)]
    data = document([region(label, 0, 10_000), *graph, *more], world_size=ranks)
    return analysis_of(read_one(data, folder), by, served)


def amount(analysis: RankAnalysis, account: Account) -> int:
    return int(analysis.ledger.steps[:, place(account)].sum())


@pytest.mark.parametrize(
    ("label", "sizes"),
    [
        (LABEL, BatchSizes(32, 32, 32785, 32785)),
        (
            "execute_30_context_2(sq20sk25sqsq200sqsk250)_generation_10(sq10sk90sqsq10sqsk90)",
            BatchSizes(12, 30, 115, 340 - (210 - 30) / 2),
        ),
        ("execute_context_1(888_788544)_generation_0(0)", None),
        ("step[DECODE bs=32]", None),
    ],
)
def test_sizes_in_labels(label: str, sizes: BatchSizes | None) -> None:
    assert batch_sizes_of(label) == sizes


def test_a_graph_is_held_against_the_time_to_read_weights_and_cache(tmp_path: Path) -> None:
    found = analysed(tmp_path)
    assert amount(found, Account.UNRATED) == 0
    assert amount(found, Account.MATH) + amount(found, Account.MEMORY) == pytest.approx(READ_NS, rel=1e-4)
    assert amount(found, Account.KERNEL_LOSS) == pytest.approx(8_000_000 - READ_NS, rel=1e-4)
    assert found.kernels.rated.all()


def test_what_operators_tell_is_not_told_again(tmp_path: Path) -> None:
    """A product beside the graph, whose bytes are part of what the step reads."""
    weights = described(BF16, [32, 4096], [4096, 151936])
    product = [op("aten::mm", 8100, 50, **weights), launch(8110, 2), kernel("gemm", 8200, 1000, correlation=2)]
    alone, found = analysed(tmp_path), analysed(tmp_path, *product)
    (step,), (lesser,) = alone.kernels.by_steps.steps, found.kernels.by_steps.steps
    assert step.work.bytes - lesser.work.bytes == found.kernels.calls.bytes.sum() > 0
    assert step.work.flops - lesser.work.flops == found.kernels.calls.flops.sum() > 0
    assert found.kernels.by_steps.step_of.tolist() == [0, 0, -1]


@pytest.mark.parametrize("change", [{"served": None}, {"label": "step[DECODE bs=32]"}, {"ranks": 2}])
def test_without_model_or_sizes_or_on_several_ranks_nothing_is_rated(change: dict[str, object], tmp_path: Path) -> None:
    found = analysed(tmp_path, **change)  # type: ignore[arg-type]
    assert amount(found, Account.UNRATED) == 8_000_000
    assert not found.kernels.by_steps.steps


def test_a_product_without_a_peak_is_told_of_once(tmp_path: Path) -> None:
    """Its work is known and its roof is not: it stays with its operator."""
    weights = described("double", [32, 4096], [4096, 4096])
    product = [op("aten::mm", 8100, 50, **weights), launch(8110, 2), kernel("gemm", 8200, 1000, correlation=2)]
    found = analysed(tmp_path, *product)
    table = digest_of(found.timeline, MI300X, served=QWEN).kernels
    assert sum(row.time_ns for row in table) == 9_000_000
    assert amount(found, Account.UNRATED) == 1_000_000


def test_a_step_faster_than_its_roof_needs_all_of_its_time(tmp_path: Path) -> None:
    found = analysed(tmp_path, by=machine(gb_per_s=1000, bf16=1307))
    assert amount(found, Account.KERNEL_LOSS) == 0
    assert amount(found, Account.MATH) + amount(found, Account.MEMORY) == 8_000_000


def test_the_table_of_kernels_has_the_step_as_a_row(tmp_path: Path) -> None:
    found = analysed(tmp_path)
    (row,) = digest_of(found.timeline, MI300X, served=QWEN).kernels
    assert (row.operator, row.kernel, row.kernels, row.time_ns) == (LABEL, "gemm", 2, 8_000_000)
    assert row.share == pytest.approx(READ_NS / 8_000_000)
    assert np.isfinite(row.math_ns)


@pytest.mark.needs_traces
def test_a_real_decode_step_is_rated_by_its_label(traces: RealTraces) -> None:
    """SGLang, one graph: 20 GB of weights and cache at 5.3 TB/s are 3.8 ms of 9.7."""
    (timeline,) = read_file(traces / "sglang_qwen3-8b_decode.json.gz").timelines
    facts = digest_of(timeline, MI300X, served=QWEN).facts
    assert facts.rated_ns / facts.kernel_ns > 0.99
    assert digest_of(timeline, MI300X).facts.rated_ns / facts.kernel_ns < 0.01
