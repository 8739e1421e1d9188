"""The predicted step is a timeline: written, read back and diagnosed, it lasts as long and says it is predicted."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from redline.analysis.accounts import Account
from redline.cost.rate import work_of
from redline.cost.train.columns import row_of
from redline.cost.train.drawing import Drawing, drawing_of
from redline.cost.train.layout import Batch, Layout, Schedule
from redline.cost.train.outcome import StepTime
from redline.cost.train.pieces import Pieces, pieces
from redline.cost.train.plan import TrainingRequest, plan_training
from redline.cost.train.predicted import MADE_BY, PredictedStep, events_in, predicted_step
from redline.cost.train.stacks import rates_of
from redline.cost.train.step import step_time
from redline.errors import OutputError
from redline.hardware.catalogue import find
from redline.model.describe import describe
from redline.timeline.timeline import Kind, Origin, Timeline
from redline.trace.metadata import stated_origin
from redline.trace.reader import read_file
from redline.trace.write import write_timelines
from redline.verbs.diagnose import diagnose
from redline.verbs.plan_trace import write_predicted_trace

MODEL = describe(layers=16, hidden=2048, heads=16, ffn=8192, vocab=50304)
LAYOUTS: dict[str, dict[str, float]] = {
    "1F1B": {"dp": 4, "tp": 2, "pp": 4, "zero": 1},
    "interleaved": {"dp": 4, "tp": 2, "pp": 4, "chunks": 2, "recompute": 2},
    "zero-bubble": {"dp": 8, "pp": 4, "schedule": Schedule.ZERO_BUBBLE},
    "GPipe": {"dp": 4, "cp": 2, "pp": 4, "schedule": Schedule.GPIPE},
    "ZeRO-3": {"dp": 32, "zero": 3},
}


BATCH = Batch(sequence=4096, sequences=64)
H100, H100_NAME = find("H100-SXM5-80GB"), "NVIDIA H100 80GB HBM3"


def planned(layout: dict[str, float]) -> tuple[Pieces, StepTime, Drawing]:
    columns = Layout(**{name: np.array([float(value)]) for name, value in ({"dp": 1} | layout).items()})
    rates = rates_of(H100)
    parts = pieces(MODEL, BATCH, columns, rates)
    one, time = row_of(parts, 0), row_of(step_time(parts), 0)
    return one, time, drawing_of(MODEL, BATCH, Layout(**layout), rates, one, dtype="bf16", half="bf16")


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
        assert after.origin is before.origin is Origin.PREDICTED
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
    assert stated_origin({}) is Origin.MEASURED
    assert stated_origin({"timelineOrigin": "predicted"}) is Origin.PREDICTED
    assert stated_origin({"timelineOrigin": ["odd"]}) is Origin.MEASURED


def test_a_plan_writes_its_best_layout_and_says_what_the_trace_stands_for(tmp_path: Path) -> None:
    request = TrainingRequest(model=MODEL, machine=H100, devices=16, sequence=4096, sequences=64, fixed={"pp": (4,)})
    plan = plan_training(request)
    trace = write_predicted_trace(plan, tmp_path / "plan.json")
    assert trace.stages == (0, 1, 2, 3)
    assert "one step of 16 devices, one rank for each stage" in trace.notes[0]
    head = msgspec.json.decode((tmp_path / "plan.json").read_bytes())
    assert head["redline"]["kind"] == "predicted-trace"
    assert head["redline"]["synthetic"] is True
    assert head["redline"]["notes"] == list(trace.notes)
    (step_ns,) = read_file(tmp_path / "plan.json").timelines[0].steps.end_ns.tolist()
    assert step_ns == round(1e9 * plan.best.step_s)
