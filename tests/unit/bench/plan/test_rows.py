"""The carried measurements are all there, and the split is fixed."""

import numpy as np

from bench.plan.rows import nanotron_failures, training_runs


def test_all_published_rows_are_carried() -> None:
    assert len(training_runs()) == 4728
    assert len(nanotron_failures()) == 1529


def test_blank_numbers_are_nan() -> None:
    peak = training_runs().numbers("peak_mem_gb")
    assert np.isfinite(peak).sum() == 1907


def test_odd_ids_are_held_out() -> None:
    rows = nanotron_failures()
    assert rows.columns["id"][0] == "NF0001"
    assert rows.held_out[0]
    assert not rows.held_out[1]


def test_rows_are_picked_by_a_mask() -> None:
    rows = training_runs()
    kept = rows.where(rows.text("framework") == "nanotron")
    assert len(kept) == 1758
    assert set(kept.columns["framework"]) == {"nanotron"}
