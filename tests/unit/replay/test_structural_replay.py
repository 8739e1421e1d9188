"""How far off a replay by the rules of a trace alone is, on published traces: limits just above what was measured."""

import pytest

from redline.replay.forecast import JobReplay, rank_replay
from redline.replay.recorded_order import recorded_work
from redline.replay.stream_waits import inferred_waits, recorded_waits
from redline.trace.reader import read_file
from tests.support.real_traces import RealTraces

pytestmark = pytest.mark.needs_traces

LIMITS = {  # share of all steps; of devices that are the limit, of hosts that are, of serving engines
    "h800_deepseek_v3_train_dualpipe.json.gz": 0.005,
    "sam_amg_True_9566500c.json.gz": 0.007,
    "h100_Falconsai_nsfw_image_detection.json.gz": 0.001,
    "h20_single.json.gz": 0.001,
    "mi210_gpu_only.json.gz": 0.001,
    "hta_nccl_data.json.gz": 0.001,
}


@pytest.mark.parametrize("name", LIMITS)
def test_error_by_rules_alone(name: str, traces: RealTraces) -> None:
    (timeline,) = read_file(traces / name).timelines
    replay = JobReplay([rank_replay(timeline)], ())
    assert abs(replay.error_by_rules) < LIMITS[name]
    assert replay.declined == ""


@pytest.mark.parametrize("name", ["sglang_qwen3-8b_decode.json.gz", "vllm_decode_fullgraph_exec.json.gz"])
def test_single_steps_of_serving_engines_are_declined(name: str, traces: RealTraces) -> None:
    """What was in the queue before the window is not known."""
    (timeline,) = read_file(traces / name).timelines
    assert "do not explain the steps" in JobReplay([rank_replay(timeline)], ()).declined


@pytest.mark.parametrize("name", ["hta_alexnet_cp.json.gz", "hta_event_sync_multistream.json.gz"])
def test_recorded_waits_are_among_those_that_the_order_of_calls_tells(name: str, traces: RealTraces) -> None:
    (timeline,) = read_file(traces / name).timelines
    work = recorded_work(timeline)
    recorded, inferred = recorded_waits(timeline, work), inferred_waits(timeline, work)
    pairs = set(zip(inferred.later.tolist(), inferred.earlier.tolist(), strict=True))
    assert len(recorded.later)
    assert set(zip(recorded.later.tolist(), recorded.earlier.tolist(), strict=True)) <= pairs
