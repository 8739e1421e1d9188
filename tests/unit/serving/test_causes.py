"""Why requests wait: the planted cause comes first, and an engine with room for all of them has none."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import redline
from redline.report.document import Document
from redline.report.html.diagnose.panels import GROUPS, request_panel
from redline.report.language import LANGUAGES, speaking
from redline.report.serving.cause_messages import cause_text
from redline.report.serving.json import record_of
from redline.report.serving.serving_tables import request_blocks, verdict_text
from redline.report.terminal import text_of
from redline.serving.causes import QUEUE_ACCOUNTS, RULES
from redline.serving.diagnose_serving import ServingDiagnosis, diagnose_serving
from redline.serving.request_ledger import Latency, RequestAccount, slowest
from tests.support.made_engine import MadeEngine

REQUESTS = 80


def _engine(**limits: Any) -> MadeEngine:
    engine = MadeEngine(**{"seed": 11, "pauses_ns": (0, 50_000), **limits})
    engine.run(REQUESTS)
    return engine


def _calm_engine() -> MadeEngine:
    """Requests seldom meet, and a token takes its time."""
    return _engine(pauses_ns=(5_000_000,), token_ns=20_000, **ROOM)


def _diagnosed(folder: Path, **limits: int) -> ServingDiagnosis:
    return _read(_engine(**limits), folder)


def _read(engine: MadeEngine, folder: Path) -> ServingDiagnosis:
    found = diagnose_serving(engine.write(folder))
    assert found is not None
    return found


ROOM = {"sequences": 256, "tokens": 4096, "cache": 1_000_000}


def _told(engine: MadeEngine, **facts: object) -> MadeEngine:
    """Of a real engine there is more to tell than the made one knows."""
    engine.engine.append(["facts", facts])
    return engine


def _asking(engine: MadeEngine, *, asks: list[str], blocks: list[int]) -> MadeEngine:
    for record in engine.engine:
        if record[0] == "request":
            record += [asks, blocks]
    return engine


def _drafting(engine: MadeEngine, drafted: int, accepted: int) -> MadeEngine:
    for record in engine.engine:
        if record[0] == "step":
            record.append([drafted, accepted])
    return engine


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"sequences": 2, "tokens": 256, "cache": 100_000}, "RL-V01"),
        ({"sequences": 64, "tokens": 256, "cache": 200}, "RL-V02"),
        ({"sequences": 256, "tokens": 8, "cache": 1_000_000}, "RL-V07"),
        ({**ROOM, "concurrency": 2}, "RL-V09"),
    ],
)
def test_the_planted_cause_comes_first(limits: dict[str, int], code: str, tmp_path: Path) -> None:
    assert _diagnosed(tmp_path, **limits).causes[0].code == code


def test_a_trace_function_of_python_is_named_whatever_it_slows(tmp_path: Path) -> None:
    first = _read(_told(_engine(**ROOM), is_traced=True), tmp_path).causes[0]
    assert first.code == "RL-V04"
    assert "sys.settrace" in cause_text(first).evidence


def test_prompts_in_pieces_are_named_with_the_option(tmp_path: Path) -> None:
    """What a request may have of a step is less than what a step may have."""
    engine = _told(_engine(sequences=256, tokens=8, cache=1_000_000), long_prefill_token_threshold=4)
    first = _read(engine, tmp_path).causes[0]
    assert (first.code, first.figures["limit"]) == ("RL-V07", 4)
    assert cause_text(first).fix == "--long-prefill-token-threshold 0"


def _alike(engine: MadeEngine) -> MadeEngine:
    return _told(_asking(engine, asks=["logprobs"], blocks=[5]), prefix_tokens=40, enable_prefix_caching=False)


def _unlike(engine: MadeEngine) -> MadeEngine:
    """Each prompt begins in its own way."""
    for number, record in enumerate(_alike(engine).engine):
        if record[0] == "request":
            record[-1] = [number]
    return engine


def _few_threads(engine: MadeEngine) -> MadeEngine:
    return _told(engine, device_type="cpu", threads=1, cores=8)


def _wide(engine: MadeEngine) -> MadeEngine:
    return _told(engine, dtype="torch.float32", model_config={"torch_dtype": "bfloat16"})


def _slow_server(engine: MadeEngine) -> MadeEngine:
    for record in engine.server:
        if record[0] == "came":
            record[1] -= 4_000_000  # type: ignore[operator]
    return engine


def test_without_units_for_them_16_bits_are_no_gain_on_a_cpu(tmp_path: Path) -> None:
    told = _told(_wide(_engine()), device_type="cpu", has_bf16_units=False)
    assert "RL-V12" not in [cause.code for cause in _read(told, tmp_path).causes]


Plant = Callable[[MadeEngine], MadeEngine]
TOLD: dict[str, tuple[Plant, Plant]] = {
    "RL-V06": (_slow_server, lambda engine: engine),
    "RL-V05": (_alike, lambda engine: engine),
    "RL-V08": (_alike, _unlike),
    "RL-V10": (_few_threads, lambda engine: _told(_few_threads(engine), threads=8)),
    "RL-V11": (lambda engine: _drafting(engine, 5, 1), lambda engine: _drafting(engine, 5, 4)),
    "RL-V12": (_wide, lambda engine: _told(_wide(engine), dtype="torch.bfloat16")),
}
"""What makes a cause of it, and a twin in which it is none."""


@pytest.mark.parametrize("code", TOLD)
def test_a_cause_is_named_by_what_the_engine_tells_and_its_twin_is_not(code: str, tmp_path: Path) -> None:
    for change, is_named in zip(TOLD[code], (True, False), strict=True):
        folder = tmp_path / str(is_named)
        folder.mkdir()
        found = _read(change(_calm_engine()), folder)
        assert (code in {cause.code for cause in found.causes}) is is_named


@pytest.mark.parametrize(
    ("facts", "fix"),
    [
        ({"enable_prefix_caching": False}, "--enable-prefix-caching"),
        ({"enable_prefix_caching": True, "block_size": 1024}, "--block-size 40"),
        ({"enable_prefix_caching": True, "block_size": 16}, "a larger cache"),
    ],
)
def test_what_prompts_have_in_common_is_missed_by_a_cache_too(facts: dict[str, Any], fix: str, tmp_path: Path) -> None:
    found = _read(_told(_alike(_calm_engine()), **facts), tmp_path)
    cause = next(cause for cause in found.causes if cause.code == "RL-V08")
    assert cause_text(cause).fix.startswith(fix)


@pytest.mark.parametrize(
    ("limits", "facts", "fix"),
    [
        ({"sequences": 2, "cache": 100_000}, {"max_num_seqs": 64, "max_num_active_seqs": 2}, "--max-num-active-seqs 8"),
        (
            {**ROOM, "tokens": 8},
            {"max_num_batched_tokens": 256, "max_num_scheduled_tokens": 8},
            "--max-num-scheduled-tokens 32",
        ),
    ],
)
def test_the_limit_that_holds_is_named(limits: dict[str, int], facts: dict[str, int], fix: str, tmp_path: Path) -> None:
    found = _read(_told(_engine(**limits), **facts), tmp_path)
    assert cause_text(found.causes[0]).fix == fix


def test_clients_that_come_by_chance_are_no_limit(tmp_path: Path) -> None:
    assert "RL-V09" not in {cause.code for cause in _diagnosed(tmp_path, **ROOM).causes}


def test_with_room_for_all_nothing_waits_for_a_limit(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path, **ROOM)
    assert not {"RL-V01", "RL-V02"} & {cause.code for cause in found.causes}


def test_what_is_gained_at_most_is_its_share_and_the_waiting_for_others(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path, sequences=2, tokens=8, cache=100_000)
    assert found.causes
    for cause in found.causes:
        split = slowest(found.splits, cause.latency)
        assert split is not None
        assert 0.05 <= cause.share <= cause.most <= min(cause.share + split.share(*QUEUE_ACCOUNTS), 1) + 1e-9


def test_percentiles_are_divided_without_a_rest(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path)
    assert {(split.latency, split.percentile) for split in found.splits} == {
        (latency, percentile) for latency in Latency for percentile in (50, 90, 99)
    }
    for split in found.splits:
        assert sum(split.amounts_ns) == pytest.approx(split.near_ns)
        assert split.near_ns == pytest.approx(split.value_ns, rel=0.3)
        if split.latency in (Latency.TTFT, Latency.END_TO_END):
            assert split.requests == round(0.05 * REQUESTS)


def test_a_run_that_served_nothing_has_no_diagnosis(tmp_path: Path) -> None:
    assert diagnose_serving(tmp_path) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_causes_have_words(language: str, tmp_path: Path) -> None:
    few = (
        {"sequences": 2, "cache": 100_000},
        {"sequences": 64, "cache": 200},
        {"tokens": 8},
        {**ROOM, "concurrency": 2},
    )
    engines = [_engine(**limits) for limits in few] + [plant(_calm_engine()) for plant, _ in TOLD.values()]
    seen = set()
    for number, engine in enumerate(engines):
        folder = tmp_path / str(number)
        folder.mkdir()
        found = _read(engine, folder)
        with speaking(language):
            text = text_of(Document(blocks=tuple(request_blocks(found))))
        assert all(cause.code in text for cause in found.causes)
        seen |= {cause.code for cause in found.causes}
        assert record_of(found)["requests"] == REQUESTS
    assert seen == {rule.code for rule in RULES} - {"RL-V13"}  # which test_client_file.py has


def test_bars_of_the_page_are_as_long_as_what_they_stand_for(tmp_path: Path) -> None:
    found = _diagnosed(tmp_path, sequences=2, tokens=256, cache=100_000)
    panel = request_panel(found)
    assert len(panel["bars"]) == len(found.splits)
    for bar, split in zip(panel["bars"], found.splits, strict=True):
        longest = max(one.near_ns for one in found.splits if one.latency is split.latency)
        assert sum(part["width"] for part in bar["parts"]) == pytest.approx(100 * split.near_ns / longest, abs=1)
    assert {part["name"] for bar in panel["bars"] for part in bar["parts"]} == {
        part["name"] for part in panel["legend"]
    }


def test_every_account_is_drawn_once_and_no_two_in_one_colour() -> None:
    drawn = [account for group in GROUPS for account in group.accounts]
    assert sorted(drawn) == list(RequestAccount)
    assert len({group.colour for group in GROUPS}) == len(GROUPS)


def test_the_verdict_is_what_the_slowest_wait_for_and_what_to_do(tmp_path: Path) -> None:
    text = verdict_text(_diagnosed(tmp_path, sequences=2, tokens=256, cache=100_000))
    assert text.endswith("of it for: queue. Let more sequences run at once (RL-V01).")


def test_a_log_that_cannot_be_read_costs_the_log_alone(tmp_path: Path) -> None:
    window = tmp_path / "window-1"
    window.mkdir()
    recorded = next((Path(__file__).parents[2] / "data" / "recorded").rglob("*.json*"))
    shutil.copy(recorded, window / recorded.name)
    (tmp_path / "engine-1.jsonl").write_text('["request", 5, "a", 3, 4]\n', encoding="utf-8")
    found = redline.diagnose(window)
    assert found.serving is None
    assert [failure.message for failure in found.failures if "took no step" in failure.message]
