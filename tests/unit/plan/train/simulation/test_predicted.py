"""The predicted step is a timeline: written, read back and diagnosed, it lasts as long and says it is predicted."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from redline.errors import OutputError
from redline.findings.registry import RULES_OF_PLANS
from redline.hardware.catalogue import find
from redline.ledger.accounts import Account
from redline.model.huggingface import describe
from redline.plan.train.layout import Batch, Layout
from redline.plan.train.search.plan import TrainingPlan, TrainingRequest, plan_training
from redline.plan.train.simulation.pass_work import EventKind
from redline.plan.train.simulation.predicted import MADE_BY, PredictedStep, events_in, predicted_step, simulate
from redline.plan.train.simulation.schedule import SimulatedEvent
from redline.plan.train.simulation.timeline_drawing import Drawing, model_drawing
from redline.plan.train.stacks import rates_of
from redline.plan.train.step_cost import StepTime, row_of
from redline.plan.train.time.step import step_time
from redline.plan.train.time.step_costs import StepCosts, of_row, step_costs
from redline.plan.train.training_choices import PipelineSchedule, Recompute
from redline.plan.train.workload import Transformer
from redline.report.diagnose.screen import screen_of
from redline.roofline.roofline import work_of
from redline.timeline.intervals import Intervals
from redline.timeline.timeline import Kind, Timeline, TimelineOrigin
from redline.trace.metadata import stated_origin
from redline.trace.perfetto import write_timelines
from redline.trace.reader import read_file
from redline.verbs.diagnose import diagnose
from redline.verbs.plan_results import PlannedTraining

MODEL = describe(layers=16, hidden=2048, heads=16, ffn=8192, vocab=50304)
GPT = Transformer(MODEL)
LAYOUTS: dict[str, dict[str, float]] = {
    "1F1B": {"dp": 4, "tp": 2, "pp": 4, "zero": 1},
    "interleaved": {"dp": 4, "tp": 2, "pp": 4, "chunks": 2, "recompute": 2},
    "zero-bubble": {"dp": 8, "pp": 4, "schedule": PipelineSchedule.ZERO_BUBBLE},
    "GPipe": {"dp": 4, "cp": 2, "pp": 4, "schedule": PipelineSchedule.GPIPE},
    "ZeRO-3": {"dp": 32, "zero": 3},
}


BATCH = Batch(sequence=4096, sequences=64)
H100, H100_NAME = find("H100-SXM5-80GB"), "NVIDIA H100 80GB HBM3"


def planned(layout: dict[str, float]) -> tuple[StepCosts[float], StepTime, Drawing]:
    columns = Layout(**{name: np.array([float(value)]) for name, value in ({"dp": 1} | layout).items()})
    rates = rates_of(H100)
    parts = step_costs(MODEL, BATCH, columns, rates)
    one, time = of_row(parts), row_of(step_time(parts), 0)
    return one, time, model_drawing(MODEL, BATCH, Layout(**layout), rates, one, dtype="bf16", half="bf16")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> dict[str, float]:
    return LAYOUTS[request.param]


def written(predicted: PredictedStep, folder: Path) -> tuple[Path, tuple[Timeline, ...]]:
    path = folder / "plan.json.gz"
    write_timelines(predicted.timelines, path, made_by="test")
    return path, read_file(path).timelines


def test_the_trace_lasts_as_long_as_the_plan_says_and_says_that_it_is_predicted(
    layout: dict[str, float], tmp_path: Path
) -> None:
    parts, time, drawing = planned(layout)
    step_s = float(time.step_s)
    predicted = predicted_step(parts, step_s, drawing, device=H100_NAME)
    assert predicted.stretched == pytest.approx(1, abs=0.02)
    assert len(predicted.timelines) == layout.get("pp", 1)
    _, read = written(predicted, tmp_path)
    for before, after in zip(predicted.timelines, read, strict=True):
        before.self_check()
        assert after.origin is before.origin is TimelineOrigin.PREDICTED
        assert after.metadata.synthetic == MADE_BY
        assert after.rank == before.rank
        assert (after.steps.end_ns - after.steps.start_ns).tolist() == [round(1e9 * step_s)]
        assert not after.source.problems
        assert_same(before, after)


def names_of(timeline: Timeline, rows: np.ndarray) -> list[str]:
    return [timeline.text(name) for name in timeline.spans.name[rows].tolist()]


def assert_same(before: Timeline, after: Timeline) -> None:
    """Every kernel and every exchange is there, when it was, launched by its own call."""
    for kind in (Kind.KERNEL, Kind.COMMUNICATION, Kind.RUNTIME, Kind.ANNOTATION):
        ours, theirs = before.spans.rows_of(kind), after.spans.rows_of(kind)
        assert before.spans.start_ns[ours].tolist() == after.spans.start_ns[theirs].tolist()
        assert before.spans.dur_ns[ours].tolist() == after.spans.dur_ns[theirs].tolist()
        assert names_of(before, ours) == names_of(after, theirs)
    assert (after.device_work.launch >= 0).all()
    assert before.device_work.correlation.tolist() == after.device_work.correlation.tolist()
    comms = [[each.text(word) for word in each.communications.collective.tolist()] for each in (before, after)]
    assert comms[0] == comms[1]


def test_diagnose_accounts_for_every_nanosecond_of_it(layout: dict[str, float], tmp_path: Path) -> None:
    parts, time, drawing = planned(layout)
    step_s = float(time.step_s)
    path, _ = written(predicted_step(parts, step_s, drawing, device=H100_NAME), tmp_path)
    diagnosed = diagnose(path)
    ranks = diagnosed.diagnosis.ranks
    assert len(ranks) == layout.get("pp", 1)
    for rank in ranks:
        rank.ledger.self_check()
        assert rank.origin.synthetic == MADE_BY
        assert rank.ledger.steps.sum() == round(1e9 * step_s)
    rated = (Account.MATH, Account.MEMORY, Account.KERNEL_LOSS)
    assert all(ranks[-1].ledger.of(account) > 0 for account in rated)
    assert not ranks[-1].ledger.of(Account.UNRATED)
    computing_s = sum(ranks[-1].ledger.of(account) for account in rated) / 1e9  # on the stage with the head
    head_s = parts.micro_batches * (parts.head_forward_s + parts.head_backward_s)
    assert computing_s == pytest.approx(time.compute_s + time.recompute_s + head_s + time.optimizer_s, rel=0.02)
    assert diagnosed.diagnosis.clocks.trusted


def test_the_bubble_of_a_plan_is_waiting_for_peers_in_its_ledger(tmp_path: Path) -> None:
    parts, time, drawing = planned(LAYOUTS["1F1B"])
    path, _ = written(predicted_step(parts, float(time.step_s), drawing), tmp_path)
    ranks = diagnose(path).diagnosis.ranks
    waited_s = ranks[-1].ledger.of(Account.PEER_WAIT) / 1e9
    assert waited_s == pytest.approx(float(time.bubble_s), rel=0.25)  # sends are beside it, or part of it


def events(timeline: Timeline) -> int:
    return len(timeline.operators) + len(timeline.calls) + len(timeline.device_work)


def test_a_large_step_is_drawn_with_fewer_kernels_or_fewer_stages() -> None:
    parts, time, drawing = planned(LAYOUTS["1F1B"])
    step_s = float(time.step_s)
    whole = predicted_step(parts, step_s, drawing)
    assert not whole.layers_together
    count = sum(map(events, whole.timelines))
    assert events_in(parts, drawing, layers_together=False) == pytest.approx(count, rel=0.3)
    coarse = predicted_step(parts, step_s, drawing, most_events=count // 2)
    assert coarse.layers_together
    assert not coarse.passes_together
    coarser = predicted_step(parts, step_s, drawing, most_events=sum(map(events, coarse.timelines)) // 2)
    assert coarser.passes_together
    assert len(coarse.timelines) == len(coarser.timelines) == 4
    drawn = sum(map(events, coarser.timelines))
    few = predicted_step(parts, step_s, drawing, most_events=drawn // 2 + drawn // 8)
    assert [each.rank for each in few.timelines] == [0, 3]
    (one,) = predicted_step(parts, step_s, drawing, most_events=drawn // 3).timelines
    assert one.rank == 3  # has the head
    for each in (coarse, coarser, few):
        assert each.timelines[0].steps.end_ns.tolist() == [round(1e9 * step_s)]
        assert sum(map(events, each.timelines)) < count
    assert [flops(coarse), flops(coarser)] == pytest.approx([flops(whole)] * 2, rel=1e-3)


def flops(predicted: PredictedStep) -> float:
    """Of all stages."""
    found = 0
    for timeline in predicted.timelines:
        columns = (timeline.operators.shapes, timeline.operators.dtypes, timeline.operators.values)
        names = names_of(timeline, timeline.operators.row)
        for name, *texts in zip(names, *(map(timeline.text, column.tolist()) for column in columns), strict=True):
            work = work_of(name, texts[0], texts[1], "", texts[2])
            found += work.flops if work is not None else 0
    return found


def test_a_name_that_no_reader_would_look_for_is_refused(tmp_path: Path) -> None:
    parts, time, drawing = planned(LAYOUTS["ZeRO-3"])
    predicted = predicted_step(parts, float(time.step_s), drawing)
    with pytest.raises(OutputError, match=r"written as \.json or \.json\.gz"):
        write_timelines(predicted.timelines, tmp_path / "plan.html", made_by="test")


def test_a_plain_trace_is_still_measured() -> None:
    assert stated_origin({}) is TimelineOrigin.MEASURED
    assert stated_origin({"timelineOrigin": "predicted"}) is TimelineOrigin.PREDICTED
    assert stated_origin({"timelineOrigin": ["odd"]}) is TimelineOrigin.MEASURED


def save_trace(plan: TrainingPlan, path: Path) -> None:
    PlannedTraining(plan=plan, job=None, sizes=(plan,)).save_trace(path)


def test_a_plan_writes_its_best_layout_and_says_what_the_trace_stands_for(tmp_path: Path) -> None:
    request = TrainingRequest(workload=GPT, machine=H100, devices=16, sequence=4096, sequences=64, fixed={"pp": (4,)})
    plan = plan_training(request)
    save_trace(plan, tmp_path / "plan.json")
    head = msgspec.json.decode((tmp_path / "plan.json").read_bytes())
    assert head["redline"]["kind"] == "predicted-trace"
    assert head["redline"]["synthetic"] is True
    assert "one step of 16 devices, one rank for each stage" in head["redline"]["notes"][0]
    assert [timeline.rank for timeline in read_file(tmp_path / "plan.json").timelines] == [0, 1, 2, 3]
    (step_ns,) = read_file(tmp_path / "plan.json").timelines[0].steps.end_ns.tolist()
    assert step_ns == round(1e9 * plan.best.step_s)


# --- what is drawn ----------------------------------------------------------------------------------------------------


def plan_of(**fixed: float) -> TrainingPlan:
    given = {name: (value,) for name, value in fixed.items()}
    return plan_training(
        TrainingRequest(workload=GPT, machine=H100, devices=16, sequence=4096, sequences=64, fixed=given)
    )


@pytest.mark.parametrize(
    "fixed",
    [
        {"pp": 4, "tp": 2},
        {"zero": 3, "tp": 1, "pp": 1},
        {"pp": 2, "recompute": Recompute.FULL, "cp": 2},
        {"flash": 0, "tp": 2, "pp": 1},
    ],
    ids=["pipeline", "ZeRO-3", "recomputed", "not fused"],
)
def test_a_diagnosis_rates_all_compute_of_a_plan_and_has_its_utilisation(
    fixed: dict[str, float], tmp_path: Path
) -> None:
    plan = plan_of(**fixed)
    path = tmp_path / "plan.json.gz"
    save_trace(plan, path)
    diagnosed = diagnose(path)
    use = diagnosed.outline.utilisation
    assert use is not None
    # Fused attention computes scores again in its backward pass, and what is not fused computes those of all pairs.
    assert 1 <= use.mfu / plan.best.mfu < (1.1 if fixed.get("flash", 1) else 1.15)
    assert use.known_share == 1
    assert (use.recomputed_flops > 0) == (fixed.get("recompute", 0) > 0)
    assert not any(rank.facts.above_roof for rank in diagnosed.diagnosis.ranks)
    assert diagnosed.outline.steps.median_ns == round(1e9 * plan.best.step_s)
    assert not any(timeline.source.problems for timeline in read_file(path).timelines)


def test_what_only_a_recording_can_show_is_not_said_of_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.json.gz"
    save_trace(plan_of(pp=4, tp=2), path)
    diagnosed = diagnose(path)
    screen = screen_of(diagnosed)
    assert screen.headline.startswith("predicted, not measured: 4 ranks of 4, one per pipeline stage")
    assert screen.waterfall.title.endswith("up to the predicted time")
    assert screen.unseen == (
        "nothing was measured: the step is predicted by redline plan, and only one rank per stage is drawn",
    )
    assert not diagnosed.findings.remarks  # about steps too few, or slowed by recording
    assert {one.code for one in diagnosed.findings.findings} <= {rule.code for rule in RULES_OF_PLANS}


def test_without_a_pipeline_one_rank_stands_for_all(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    save_trace(plan_of(pp=1, tp=1), path)
    diagnosed = diagnose(path)
    headline = screen_of(diagnosed).headline
    assert headline.startswith("predicted, not measured: one rank that stands for all, on NVIDIA H100")


def messages_of(timeline: Timeline) -> set[tuple[str, str, int, int, int, str]]:
    comms = timeline.communications
    texts = [[timeline.text(word) for word in column.tolist()] for column in (comms.collective, comms.group)]
    numbers = (comms.group_size.tolist(), comms.in_elements.tolist(), comms.out_elements.tolist())
    types = [timeline.text(word) for word in comms.dtype.tolist()]
    return set(zip(*texts, *numbers, types, strict=True))


TOKENS = 4096 * 2048
MATRICES, NORMS = 4 * 2048 * 2048 + 3 * 2048 * 8192, 2 * 2048 + 2048 // 16  # with its share of the last norm


def test_collectives_have_the_sizes_of_the_textbook(tmp_path: Path) -> None:
    parts, time, drawing = planned({"dp": 4, "tp": 2, "pp": 4, "sequence_parallel": 1, "zero": 1})
    _, read = written(predicted_step(parts, float(time.step_s), drawing), tmp_path)
    first = messages_of(read[0])
    assert {
        ("all_gather", "tensor of stage 0", 2, TOKENS // 2, TOKENS, "BFloat16"),
        ("reduce_scatter", "tensor of stage 0", 2, TOKENS, TOKENS // 2, "BFloat16"),
        ("send", "stages", 4, TOKENS // 2, TOKENS // 2, "BFloat16"),
        ("receive", "stages", 4, TOKENS // 2, TOKENS // 2, "BFloat16"),
    } <= first
    data = {each[:2]: each for each in first if each[1] == "data of stage 0"}
    stage = (4 * MATRICES + 50304 * 2048) / 2 + 4 * NORMS
    exposed = 1 - float(rates_of(H100).update_overlap)
    *_, members, held, gathered, _ = data["all_gather", "data of stage 0"]
    assert members == 4
    assert (held, gathered) == pytest.approx((exposed * stage / 4, exposed * stage), rel=1e-6)
    scattered = sum(
        int(one)
        for one, group, word in zip(
            read[0].communications.in_elements.tolist(),
            read[0].communications.group.tolist(),
            read[0].communications.collective.tolist(),
            strict=True,
        )
        if (read[0].text(group), read[0].text(word)) == ("data of stage 0", "reduce_scatter")
    )
    assert scattered == pytest.approx(stage, rel=1e-4)


def test_gathers_of_zero_3_are_a_layer_with_its_share_of_embedding_and_head(tmp_path: Path) -> None:
    parts, time, drawing = planned({"dp": 32, "zero": 3})
    _, (read,) = written(predicted_step(parts, float(time.step_s), drawing), tmp_path)
    found = {each[0]: each for each in messages_of(read) if each[1] == "data of stage 0"}
    layer = MATRICES + NORMS + 2 * 50304 * 2048 // 16
    assert found["all_gather"][2:5] == (32, layer // 32, layer)
    assert found["reduce_scatter"][2:5] == (32, layer, layer // 32)


def test_experts_are_gathered_among_those_that_have_the_same() -> None:
    mixed = {"moe_layers": 16, "experts": 8, "experts_per_token": 2, "expert_ffn": 4096}
    model, rates = describe(layers=16, hidden=2048, heads=16, vocab=50304, **mixed), rates_of(H100)
    layout = Layout(dp=32, ep=8, zero=3)
    parts = step_costs(model, BATCH, Layout(dp=np.array([32.0]), ep=8, zero=3), rates)
    drawing = model_drawing(model, BATCH, layout, rates, of_row(parts), dtype="bf16", half="bf16")
    sent, _ = drawing.messages(SimulatedEvent(EventKind.GATHER, 0.0, float(parts.gather_s[0]), 0, 0))
    assert [(each.group, each.members) for each in sent] == [("data", 32), ("expert data", 4)]
    assert sent[1].out_elements == 3 * 2048 * 4096
    assert sum(each.seconds for each in sent) == pytest.approx(float(parts.gather_s[0]))


def test_offloaded_states_are_copied_at_the_rate_of_the_link_while_the_device_waits_for_the_host() -> None:
    parts, time, drawing = planned({"dp": 8, "zero": 1, "offload": 1.0})
    timeline = predicted_step(parts, float(time.step_s), drawing).timelines[0]
    copies = timeline.spans.kind == Kind.COPY
    copied_s = float((timeline.spans.end_ns - timeline.spans.start_ns)[copies].sum()) / 1e9
    assert copied_s == pytest.approx(drawing.offloaded_bytes / float(rates_of(H100).host_link_bytes_per_s), rel=0.01)
    assert copied_s < 0.5 * float(time.offload_s)


def test_matmuls_have_the_shapes_of_one_device(tmp_path: Path) -> None:
    parts, time, drawing = planned({"dp": 4, "tp": 2, "pp": 4})
    _, read = written(predicted_step(parts, float(time.step_s), drawing), tmp_path)
    last = read[-1]
    shapes = {last.text(text) for text in last.operators.shapes.tolist()}
    qkv, up = 3 * 2048 // 2, 2 * 8192 // 2
    for left, inner, right in (
        (4096, 2048, qkv),  # queries, keys and values; then the gradients of inputs and of weights
        (4096, qkv, 2048),
        (qkv, 4096, 2048),
        (4096, 2048, up),
        (4096, 4096, 2048),  # down
        (4096, 2048, 50304 // 2),  # logits
    ):
        assert json.dumps([[left, inner], [inner, right]]) in shapes


def test_splitting_a_pass_moves_no_kernel_of_the_schedule() -> None:
    parts, time, drawing = planned(LAYOUTS["1F1B"])
    step_s = float(time.step_s)
    simulated = simulate(parts)
    ns_per_s = 1e9 * step_s / simulated.step_s
    kinds = (
        EventKind.FORWARD,
        EventKind.BACKWARD,
        EventKind.RECOMPUTE,
        EventKind.HEAD_FORWARD,
        EventKind.HEAD_BACKWARD,
    )
    (timeline, *_) = predicted_step(parts, step_s, drawing).timelines
    kernels = timeline.spans.rows_of(Kind.KERNEL)
    drawn = Intervals.union_of(timeline.spans.start_ns[kernels], timeline.spans.end_ns[kernels])
    events_s = [each for each in simulated.stages[0] if each.activity in {*kinds, EventKind.OPTIMIZER}]
    meant = Intervals.union_of(
        *(
            np.array([round(edge * ns_per_s) for edge in edges])
            for edges in zip(*((e.start_s, e.end_s) for e in events_s), strict=True)
        )
    )
    assert drawn.start.tolist() == meant.start.tolist()
    assert drawn.end.tolist() == meant.end.tolist()


@pytest.mark.parametrize("dtype", ["fp8", "fp16", "fp32"])
def test_every_number_format_is_rated(dtype: str, tmp_path: Path) -> None:
    request = TrainingRequest(workload=GPT, machine=H100, devices=8, sequence=4096, sequences=64, dtype=dtype)
    path = tmp_path / "plan.json"
    save_trace(plan_training(request), path)
    diagnosis = diagnose(path).diagnosis
    assert diagnosis.per_step[Account.UNRATED] == 0
    assert dtype in {row.dtype for rank in diagnosis.ranks for row in rank.arithmetic}


def test_experts_are_grouped_matmuls_and_tokens_go_to_them_in_all_to_alls(tmp_path: Path) -> None:
    mixed = {"moe_layers": 8, "experts": 8, "experts_per_token": 2, "expert_ffn": 4096}
    model = describe(layers=8, hidden=2048, heads=16, vocab=50304, **mixed)
    request = TrainingRequest(
        workload=Transformer(model),
        machine=H100,
        devices=8,
        sequence=4096,
        sequences=64,
        fixed={"ep": (4,), "tp": (1,), "pp": (1,)},
    )
    plan = plan_training(request)
    path = tmp_path / "plan.json"
    save_trace(plan, path)
    (read,) = read_file(path).timelines
    assert "aten::_grouped_mm" in names_of(read, read.operators.row)
    rows = int(plan.best.layout.micro_batch) * 4096 * 2
    assert ("all_to_all", "expert of stage 0", 4, rows * 2048, rows * 2048, "BFloat16") in messages_of(read)
    use = diagnose(path).outline.utilisation
    assert use is not None
    assert use.mfu == pytest.approx(plan.best.mfu, rel=0.1)
