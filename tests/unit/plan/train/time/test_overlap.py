"""Which traffic hides behind which compute, and what stays exposed."""

from dataclasses import replace

import pytest

from redline.hardware.catalogue import find
from redline.model.huggingface import known_model
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.search.plan import TrainingRequest, plan_training
from redline.plan.train.stacks import rates_of
from redline.plan.train.step_cost import row_of
from redline.plan.train.time.step import Overlap, step_time
from redline.plan.train.time.step import overlaps as row_overlaps
from redline.plan.train.time.step_costs import of_row, step_costs
from redline.plan.train.workload import Transformer

H100 = find("H100-SXM5-80GB")


def overlaps(sequence: int, **fixed: int) -> dict[str, Overlap]:
    wanted = {name: (float(value),) for name, value in fixed.items()}
    request = TrainingRequest(
        workload=Transformer(known_model("llama-3.1-8b")),
        machine=H100,
        devices=64,
        sequence=sequence,
        sequences=64,
        fixed=wanted,
    )
    return {one.kind: one for one in plan_training(request).overlaps}


def test_only_traffic_that_there_is() -> None:
    assert set(overlaps(8192, tp=1, pp=1, cp=1, zero=0)) == {"data"}
    assert set(overlaps(8192, tp=2, pp=2, cp=1, zero=1)) == {"data", "tensor", "pipeline"}
    assert set(overlaps(8192, tp=1, pp=1, cp=1, zero=3)) == {"gather"}


def test_a_ring_hides_behind_long_attention_and_not_behind_short() -> None:
    """Its traffic grows with the tokens of a device, attention with their square."""
    long, short = (overlaps(tokens, tp=1, pp=1, cp=8)["context"] for tokens in (131072, 8192))
    assert long.is_hidden
    assert long.ratio > 1
    assert long.traffic_s > short.traffic_s > 0
    assert long.ratio > short.ratio


def test_a_ratio_below_one_is_exposed() -> None:
    for one in overlaps(8192, tp=8, pp=2, cp=1, zero=1).values():
        if one.ratio < 1:
            assert not one.is_hidden
            assert one.exposed_s > 0


def test_the_ratio_is_compute_over_traffic() -> None:
    assert Overlap(kind="data", compute_s=3.0, traffic_s=2.0, exposed_s=0.0).ratio == pytest.approx(1.5)


def test_tensor_and_expert_traffic_is_shown_whole_with_what_hides() -> None:
    """Whatever share of it a stack hides."""
    model = known_model("mixtral-8x7b")
    layout, batch = Layout(dp=8, tp=2, ep=8), Batch(sequence=4096, sequences=64)
    rates = replace(rates_of(H100), tensor_overlap=0.0, expert_overlap=0.0)
    shown, hidden = (
        step_costs(model, batch, layout, each)
        for each in (rates, replace(rates, tensor_overlap=0.9, expert_overlap=0.9))
    )
    for kind in ("tensor", "expert"):
        whole_s, rest_s = (
            {one.kind: one for one in row_overlaps(of_row(each), row_of(step_time(each), 0))}[kind]
            for each in (shown, hidden)
        )
        assert rest_s.traffic_s == pytest.approx(whole_s.traffic_s)
        assert rest_s.exposed_s == pytest.approx(0.1 * whole_s.exposed_s)
