"""The untouched runs are what their sources say, as far as one figure can be held against another; nothing of them is
among the runs that constants are fitted to, and nothing of the second set is in the first.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest

from bench.plan.rows import UNTOUCHED, Mask, Numbers, Rows, training_runs, untouched_runs
from bench.plan.training import FORMATS, MACHINES, described
from redline.hardware.catalogue import find
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.parameters import count_parameters
from redline.plan.train.stacks import machine_rates, stack_names

SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "experts", "moe_ffn")
LAYOUT = ("gpus", "dp", "tp", "pp", "cp", "ep", "zero_stage", "seq")
BASES = {"step_time", "throughput", "utilization", "gpu_hours"}


@dataclass(frozen=True)
class Spread:
    """What a set reaches at least, and the highest utilization that its sources claim."""

    rows: int
    sources: int
    gpus: frozenset[str]
    small: int
    """Runs of 8 GPUs or fewer."""
    large: tuple[int, int]
    """As many runs of at least as many GPUs."""
    stated: int
    highest: float


SPREADS = {
    1: Spread(
        rows=40,
        sources=15,
        gpus=frozenset(
            ("A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM", "B200-SXM", "MI300X", "RTX-4090", "V100-SXM3-32GB")
        ),
        small=20,
        large=(8, 1024),
        stated=20,
        highest=0.70,
    ),
    2: Spread(
        rows=45,
        sources=12,
        gpus=frozenset(
            ("A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM", "B200-SXM", "H20", "H800-SXM", "L40S", "RTX-5090")
        ),
        small=20,
        large=(20, 128),
        stated=0,
        highest=0.85,
    ),
}


@pytest.fixture(params=SPREADS)
def which(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def runs(which: int) -> Rows:
    return untouched_runs(which)


def configurations(rows: Rows) -> list[tuple[str, ...]]:
    """Of each row: the model, the GPU, how many, the layout, the sequence and the number format; not the software and
    not the batch, so that rows which differ in these alone count as the same.
    """
    machines = [MACHINES[gpu] for gpu in rows.columns["gpu"]]
    formats = [FORMATS.get(precision, "bf16") for precision in rows.columns["precision"]]
    adapters = ["adapters" if "lora" in task else "" for task in rows.columns["task"]]
    numbers = [[_plain(text) for text in rows.columns[name]] for name in (*SHAPE, *LAYOUT)]
    return list(zip(machines, formats, adapters, *numbers, strict=True))


def _plain(text: str) -> str:
    """One spelling per number, and 0 for a blank."""
    return f"{float(text):g}" if text else "0"


def sequences_per_s(rows: Rows) -> Numbers:
    return rows.numbers("global_batch") / rows.numbers("step_time_s")


def utilization(rows: Rows, pairs: Pairs = Pairs.ALL) -> Numbers:
    """Model FLOPs over the peak of the format; frozen weights have no gradient."""
    model, batch, _ = described(rows)
    tokens = np.asarray(batch.sequence, np.float64)
    forward = forward_flops(model, tokens, batch.sequence, pairs).total
    backward = backward_flops(model, tokens, batch.sequence, pairs).total
    adapters = np.array(["lora" in task for task in rows.columns["task"]])
    flops = forward + np.where(adapters, backward - forward, backward)
    peaks = [
        machine_rates(find(MACHINES[gpu]), FORMATS.get(precision, "bf16")).peak_flops_per_s
        for gpu, precision in zip(rows.columns["gpu"], rows.columns["precision"], strict=True)
    ]
    return np.asarray(flops * sequences_per_s(rows) / rows.numbers("gpus") / np.array(peaks), np.float64)


def test_every_set_is_looked_at() -> None:
    assert set(SPREADS) == set(UNTOUCHED)


def test_there_are_enough_and_each_says_where_it_stands(which: int, runs: Rows) -> None:
    assert len(runs) >= SPREADS[which].rows
    assert len(set(runs.columns["id"])) == len(runs)
    assert set(training_runs().columns) <= set(runs.columns)
    assert all(url.startswith("https://") for url in runs.columns["source_url"])
    assert all(len(quote) > 20 for quote in runs.columns["quote"])
    assert all(runs.columns["source_ref"])
    assert set(runs.columns["status"]) == {"ok"}


def test_none_is_a_configuration_that_was_fitted(runs: Rows) -> None:
    assert set(configurations(runs)) & set(configurations(_language_models(training_runs()))) == set()


def test_a_configuration_that_was_fitted_is_found() -> None:
    """With other software and another batch."""
    fitted = _language_models(training_runs())
    taken = fitted.where(fitted.text("id") == "TT0001")
    other = Rows({**taken.columns, "framework": ("other",), "global_batch": ("64",)})
    assert set(configurations(other)) <= set(configurations(fitted))


def test_the_second_set_has_nothing_of_the_first() -> None:
    first, second = untouched_runs(1), untouched_runs(2)
    assert set(first.columns) == set(second.columns)
    assert set(first.columns["id"]) & set(second.columns["id"]) == set()
    assert set(first.columns["source_ref"]) & set(second.columns["source_ref"]) == set()
    assert set(configurations(first)) & set(configurations(second)) == set()


def test_no_measurement_of_the_second_set_is_known_by_its_rate() -> None:
    """The same model on as many of the same GPUs, as fast to one percent: one measurement, told twice."""
    second = untouched_runs(2)
    for known in (untouched_runs(1), _language_models(training_runs())):
        ids = [_same_rate(known, second, row) for row in range(len(second))]
        assert [pair for pairs in ids for pair in pairs] == []


def test_the_same_rate_is_found() -> None:
    known = untouched_runs(1)
    assert _same_rate(known, known, 0) == [("UT0001", "UT0001")]


def test_no_source_outweighs_the_others(which: int, runs: Rows) -> None:
    assert max(Counter(runs.columns["source"]).values()) <= 10
    assert len(set(runs.columns["source"])) >= SPREADS[which].sources


def test_the_set_is_spread_over_machines_and_kinds(which: int, runs: Rows) -> None:
    spread = SPREADS[which]
    assert spread.gpus <= set(runs.columns["gpu"])
    assert (runs.numbers("experts") > 0).sum() >= 8
    assert np.isin(runs.text("precision"), ("fp8", "mxfp8")).sum() >= 8
    assert (runs.numbers("gpus") <= 8).sum() >= spread.small
    many, gpus = spread.large
    assert (runs.numbers("gpus") >= gpus).sum() >= many


def test_each_gpu_is_in_the_catalogue(runs: Rows) -> None:
    for name in set(runs.columns["gpu"]):
        assert find(MACHINES[name]).name == MACHINES[name]


def test_named_stacks_are_those_of_the_planner(runs: Rows) -> None:
    assert set(runs.columns["stack"]) <= {"", *stack_names()}


def test_layouts_use_all_gpus(runs: Rows) -> None:
    split = np.prod([runs.numbers(name) for name in ("dp", "tp", "pp", "cp")], axis=0)
    assert _wrong(runs, split != runs.numbers("gpus")) == set()


def test_batches_divide_into_micro_batches(runs: Rows) -> None:
    micro = np.nan_to_num(runs.numbers("micro_batch"), nan=1.0)
    per_replica = runs.numbers("global_batch") / runs.numbers("dp") / micro
    assert _wrong(runs, per_replica % 1 != 0) == set()


def test_shapes_have_the_stated_parameters(runs: Rows) -> None:
    model, _, _ = described(runs)
    counted = np.asarray(count_parameters(model).total) / 1e9
    assert _wrong(runs, np.abs(counted / runs.numbers("params_b") - 1) > 0.06) == set()


def test_step_times_and_rates_of_tokens_agree(runs: Rows) -> None:
    tokens = sequences_per_s(runs) * runs.numbers("seq") / runs.numbers("gpus")
    assert _wrong(runs, ~(np.abs(tokens / runs.numbers("tok_s_gpu") - 1) < 0.005)) == set()


def test_utilizations_are_possible(which: int, runs: Rows) -> None:
    """Of what the mask lets through, as the full square of a long sequence is mostly not computed."""
    shares = utilization(runs, Pairs.SEEN)
    assert _wrong(runs, (shares < 0.04) | (shares > SPREADS[which].highest)) == set()


def test_stated_utilizations_are_those_of_the_step_times(which: int, runs: Rows) -> None:
    """Of dense models in 16 bits, where all that is counted is the same: a wrong digit in a row would show."""
    plain = (np.nan_to_num(runs.numbers("experts")) == 0) & (runs.text("precision") != "fp8")
    stated = runs.numbers("mfu_pct") / 100
    differs = np.abs(utilization(runs) / stated - 1) > 0.11
    assert (plain & ~np.isnan(stated)).sum() >= SPREADS[which].stated
    assert _wrong(runs, plain & ~np.isnan(stated) & differs) == set()


def test_what_was_measured_is_said_and_lost_time_is_marked(runs: Rows) -> None:
    assert set(runs.columns["basis"]) <= BASES
    hours = runs.where(runs.text("basis") == "gpu_hours")
    assert all("includes downtime" in note for note in hours.columns["notes"])


def _same_rate(known: Rows, rows: Rows, row: int) -> list[tuple[str, str]]:
    """Ids of rows with the model, the sequence, the GPUs and the rate of a row, each with its own."""
    same: Mask = np.array([MACHINES[gpu] == MACHINES[rows.columns["gpu"][row]] for gpu in known.columns["gpu"]])
    for name in ("gpus", "layers", "hidden", "experts", "seq"):
        same &= np.nan_to_num(known.numbers(name)) == np.nan_to_num(rows.numbers(name))[row]
    rates = known.numbers("tok_s_gpu")
    same &= np.abs(rates / rows.numbers("tok_s_gpu")[row] - 1) < 0.01
    return [(taken, rows.columns["id"][row]) for taken in known.text("id")[same].tolist()]


def _language_models(rows: Rows) -> Rows:
    """Rows of the table that holds other networks as well."""
    return rows.where(np.isin(rows.text("gpu"), list(MACHINES)) & ~np.isnan(rows.numbers("layers")))


def _wrong(rows: Rows, mask: Mask) -> set[str]:
    """Ids of the rows that a check refuses."""
    return set(rows.text("id")[mask].tolist())
