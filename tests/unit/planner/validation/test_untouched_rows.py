"""The untouched runs are what their sources say, as far as one figure can be held against another, and nothing of them
is among the runs that constants are fitted to.
"""

from collections import Counter

import numpy as np
import pytest

from redline.hardware.catalogue import find
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.parameters import count_parameters
from redline.planner.train.stacks import machine_rates, stack_names
from redline.planner.validation.rows import Mask, Numbers, Rows, training_runs, untouched_runs
from redline.planner.validation.training import FORMATS, MACHINES, described

RUNS = untouched_runs()
SHAPE = ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "experts", "moe_ffn")
LAYOUT = ("gpus", "dp", "tp", "pp", "cp", "ep", "zero_stage", "seq")
BASES = {"step_time", "throughput", "utilization", "gpu_hours"}


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


def utilization(rows: Rows) -> Numbers:
    """Model FLOPs with the full square of attention, over the peak of the format; frozen weights have no gradient."""
    model, batch, _ = described(rows)
    tokens = np.asarray(batch.sequence, np.float64)
    forward = forward_flops(model, tokens, batch.sequence, Pairs.ALL).total
    backward = backward_flops(model, tokens, batch.sequence, Pairs.ALL).total
    adapters = np.array(["lora" in task for task in rows.columns["task"]])
    flops = forward + np.where(adapters, backward - forward, backward)
    peaks = [
        machine_rates(find(MACHINES[gpu]), FORMATS.get(precision, "bf16")).peak_flops_per_s
        for gpu, precision in zip(rows.columns["gpu"], rows.columns["precision"], strict=True)
    ]
    return np.asarray(flops * sequences_per_s(rows) / rows.numbers("gpus") / np.array(peaks), np.float64)


def test_there_are_enough_and_each_says_where_it_stands() -> None:
    assert len(RUNS) >= 40
    assert len(set(RUNS.columns["id"])) == len(RUNS)
    assert set(training_runs().columns) <= set(RUNS.columns)
    assert all(url.startswith("https://") for url in RUNS.columns["source_url"])
    assert all(len(quote) > 20 for quote in RUNS.columns["quote"])
    assert all(RUNS.columns["source_ref"])
    assert set(RUNS.columns["status"]) == {"ok"}


def test_none_is_a_configuration_that_was_fitted() -> None:
    assert set(configurations(RUNS)) & set(configurations(_language_models(training_runs()))) == set()


def test_a_configuration_that_was_fitted_is_found() -> None:
    """With other software and another batch."""
    fitted = _language_models(training_runs())
    taken = fitted.where(fitted.text("id") == "TT0001")
    other = Rows({**taken.columns, "framework": ("other",), "global_batch": ("64",)})
    assert set(configurations(other)) <= set(configurations(fitted))


def test_no_source_outweighs_the_others() -> None:
    assert max(Counter(RUNS.columns["source"]).values()) <= 10
    assert len(set(RUNS.columns["source"])) >= 15


def test_the_set_is_spread_over_machines_and_kinds() -> None:
    gpus = set(RUNS.columns["gpu"])
    assert {"A100-SXM-80GB", "H100-SXM-80GB", "H200-SXM", "B200-SXM", "MI300X", "RTX-4090", "V100-SXM3-32GB"} <= gpus
    assert (RUNS.numbers("experts") > 0).sum() >= 8
    assert np.isin(RUNS.text("precision"), ("fp8", "mxfp8")).sum() >= 8
    assert (RUNS.numbers("gpus") <= 8).sum() >= 20
    assert (RUNS.numbers("gpus") >= 1024).sum() >= 8


@pytest.mark.parametrize("name", sorted(set(RUNS.columns["gpu"])))
def test_each_gpu_is_in_the_catalogue(name: str) -> None:
    assert find(MACHINES[name]).name == MACHINES[name]


def test_named_stacks_are_those_of_the_planner() -> None:
    assert set(RUNS.columns["stack"]) <= {"", *stack_names()}


def test_layouts_use_all_gpus() -> None:
    split = np.prod([RUNS.numbers(name) for name in ("dp", "tp", "pp", "cp")], axis=0)
    assert _wrong(split != RUNS.numbers("gpus")) == set()


def test_batches_divide_into_micro_batches() -> None:
    micro = np.nan_to_num(RUNS.numbers("micro_batch"), nan=1.0)
    per_replica = RUNS.numbers("global_batch") / RUNS.numbers("dp") / micro
    assert _wrong(per_replica % 1 != 0) == set()


def test_shapes_have_the_stated_parameters() -> None:
    model, _, _ = described(RUNS)
    counted = np.asarray(count_parameters(model).total) / 1e9
    assert _wrong(np.abs(counted / RUNS.numbers("params_b") - 1) > 0.06) == set()


def test_step_times_and_rates_of_tokens_agree() -> None:
    tokens = sequences_per_s(RUNS) * RUNS.numbers("seq") / RUNS.numbers("gpus")
    assert _wrong(~(np.abs(tokens / RUNS.numbers("tok_s_gpu") - 1) < 0.005)) == set()


def test_utilizations_are_possible() -> None:
    shares = utilization(RUNS)
    assert _wrong((shares < 0.04) | (shares > 0.70)) == set()


def test_stated_utilizations_are_those_of_the_step_times() -> None:
    """Of dense models in 16 bits, where all that is counted is the same: a wrong digit in a row would show."""
    plain = (np.nan_to_num(RUNS.numbers("experts")) == 0) & (RUNS.text("precision") != "fp8")
    stated = RUNS.numbers("mfu_pct") / 100
    differs = np.abs(utilization(RUNS) / stated - 1) > 0.11
    assert (plain & ~np.isnan(stated)).sum() >= 20
    assert _wrong(plain & ~np.isnan(stated) & differs) == set()


def test_what_was_measured_is_said_and_lost_time_is_marked() -> None:
    assert set(RUNS.columns["basis"]) == BASES
    hours = RUNS.where(RUNS.text("basis") == "gpu_hours")
    assert all("includes downtime" in note for note in hours.columns["notes"])


def _language_models(rows: Rows) -> Rows:
    """Rows of the table that holds other networks as well."""
    return rows.where(np.isin(rows.text("gpu"), list(MACHINES)) & ~np.isnan(rows.numbers("layers")))


def _wrong(mask: Mask) -> set[str]:
    """Ids of the rows that a check refuses."""
    return set(RUNS.text("id")[mask].tolist())
