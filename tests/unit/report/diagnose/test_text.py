"""The text of `diagnose`: every line is true, one screen is enough, and nothing in it can harm a terminal."""

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from redline.findings.evidence import Evidence
from redline.job.read_failures import Failure
from redline.ledger.accounts import ACCOUNTS, Account
from redline.ledger.job.first_screen import Outline, Remark, Unseen, Utilisation
from redline.ledger.job.lateness import CAUSES, Pattern
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.kernel_table import KernelRow
from redline.report.diagnose import account_messages, fact_messages, loss_messages, unseen_messages
from redline.report.diagnose.diagnose_result import DiagnoseResult
from redline.report.diagnose.diagnosis_document import MOST_FINDINGS, MOST_LINES, MOST_MEMORY_LINES
from redline.report.diagnose.findings_screen import fix_text
from redline.report.diagnose.screen import screen_of
from redline.report.diagnose.tables import MOST_ROWS, TABLES, kind_letter, shapes, shapes_or_kernel
from redline.report.display import PLAIN_COLUMNS
from redline.report.language import LANGUAGES, speaking
from redline.report.terminal import width_of
from redline.verbs.diagnose import diagnose
from tests.support.events import Event, collective, document, kernel, launch, op, region
from tests.support.made_findings import findings
from tests.support.real_traces import RealTraces
from tests.support.traces.synthetic import JobSpec, ParallelSizes, Straggler, write_job

EVIL = "\x1b]0;pwned\x07\x9b2J\u202e\r\n"
MEMORY = ("memory at the peak of", "设备 0 的显存峰值")


def shown(found: DiagnoseResult, *tables: str, verbose: bool = False, unicode: bool = True) -> str:
    return found.rendered("text", tables=tables, verbose=verbose, unicode=unicode)


def unexplained(found: DiagnoseResult) -> str:
    """As if no rule had found anything: accounts stand in place of findings."""
    return shown(replace(found, findings=replace(found.findings, findings=())))


def of(folder: Path, *documents: bytes, machine: str | None = None) -> DiagnoseResult:
    for number, data in enumerate(documents):
        (folder / f"rank-{number}.json").write_bytes(data)
    return diagnose([folder], machine=machine)


def line(text: str, label: str) -> str:
    (found,) = (one for one in text.splitlines() if one.startswith(f"{label} "))
    return found


def block(text: str, title: str) -> list[str]:
    """Lines of a block that begins with this title."""
    (found,) = (part.splitlines()[1:] for part in text.rstrip().split("\n\n") if part.splitlines()[0] == title)
    return found


MATMUL: dict[str, Any] = {"Input Dims": [[1024, 1024], [1024, 1024]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}


def events(*, late_us: float = 0) -> list[Event]:
    """Two steps: a matmul that takes 10 us, an exchange, and a host that is slow in between."""
    found: list[Event] = []
    for step in range(2):
        at = 1000 * step
        found += [
            region(f"ProfilerStep#{step}", at, 1000),
            op("aten::mm", at + 100, 50, **MATMUL),
            launch(at + 120, correlation=10 + step),
            kernel("gemm", at + 130 + late_us, 10, correlation=10 + step),
            launch(at + 500, correlation=20 + step),
            collective(at + 510 + late_us, 200 - late_us, args={"correlation": 20 + step}),
        ]
    return found


def trace(rank: int = 0, world_size: int = 1, *, late_us: float = 0, **more: object) -> bytes:
    devices = [{"id": 0, "name": "NVIDIA H20"}]
    return document(
        events(late_us=late_us), rank=rank, world_size=world_size, deviceProperties=devices, record_shapes=1, **more
    )


# --- the screen -------------------------------------------------------------------------------------------------------


def test_the_lines_above_the_waterfall(tmp_path: Path) -> None:
    text = shown(of(tmp_path, trace()))
    assert text.startswith("1 rank of 1 on NVIDIA H20; figures of H20 (catalogue)\n")
    assert line(text, "steps").endswith("2, from ProfilerStep: 1.000 ms")
    assert line(text, "window").endswith("2.000 ms = 2.000 ms in steps + 0 ns outside")
    assert line(text, "device").endswith(
        "busy 420.0 us (computing 20.00 us) of 1.580 ms between first and last work; idle 73.4 %"
    )
    assert line(text, "MFU").endswith("1.5 % = 2.15 GFLOP / 148 TFLOP/s bf16 / 1.000 ms; peak: catalogue")
    assert line(text, "coverage").endswith("2 kernels: FLOPs and peak known for 100.0 % of their time")


def test_a_utilisation_is_a_lower_bound_where_work_is_not_known(tmp_path: Path) -> None:
    more = [launch(700, correlation=30), kernel("mystery", 720, 10, correlation=30)]
    devices = [{"id": 0, "name": "NVIDIA H20"}]
    text = shown(of(tmp_path, document([*events(), *more], deviceProperties=devices, record_shapes=1)))
    assert "at least 1.5 %" in line(text, "MFU")
    assert "FLOPs unknown for 33.3 % of the kernel time: unrated, not guessed" in text


RECOMPUTED = Utilisation(
    mfu=0.3,
    hfu=0.4,
    flops=4 * 10**12,
    recomputed_flops=10**12,
    step_ns=1e7,
    peaks={"bf16": 1e15, "fp32": 1e14},
    peak_origins=("catalogue",),
    peak_spread=0.0,
    model_flops={"bf16": 3 * 10**12, "fp32": 10},
    unrated_flops=0,
    known_share=1.0,
)


def test_recomputed_work_is_told_apart() -> None:
    use = RECOMPUTED
    assert fact_messages.mfu_line(use) == "30.0 % = 3.00 TFLOP / 1.00 PFLOP/s bf16 / 10.00 ms; peak: catalogue"
    assert fact_messages.hfu_line(use) == "40.0 %, including 1.00 TFLOP per step recomputed in the backward pass"
    assert fact_messages.mfu_line(replace(use, known_share=0.98)).startswith("at least 30.0 %")
    assert fact_messages.mfu_line(replace(use, unrated_flops=1)).startswith("at least 30.0 %")
    both = fact_messages.mfu_line(replace(use, model_flops={"bf16": 10**12, "fp32": 10**12}))
    assert (
        both == "30.0 % = (1.00 TFLOP / 100 TFLOP/s fp32 + 1.00 TFLOP / 1.00 PFLOP/s bf16) / 10.00 ms; peak: catalogue"
    )


@pytest.mark.parametrize(
    ("origins", "told"),
    [
        ((), "10.00 ms"),
        (("calibrated",), "; peak: calibrated, within 4.0 %"),
        (("calibrated", "catalogue"), "; peaks: some from the catalogue, some calibrated"),
    ],
)
def test_the_utilisation_says_whose_peak_it_is_against(origins: tuple[str, ...], told: str) -> None:
    use = replace(RECOMPUTED, peak_origins=origins, peak_spread=0.04)
    assert fact_messages.mfu_line(use).endswith(told)


def test_the_screen_shows_the_hfu_only_where_work_was_done_again(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    assert "\nHFU" not in shown(found)
    assert found.outline.utilisation is not None
    again = replace(found.outline, utilisation=replace(found.outline.utilisation, recomputed_flops=5, hfu=0.5))
    assert "\nHFU       50.0 %" in replace(found, outline=again).rendered("text")


def test_the_bars_of_the_waterfall_follow_each_other(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    lines = block(shown(found), "average step of a rank, from the redline (math) up to the measured time")
    bars = screen_of(found).waterfall.bars
    assert lines[len(bars)].split()[:4] == ["=", "step", "1.000", "ms"]
    assert bars[0].start == 0
    assert bars[-1].end == pytest.approx(1)
    assert all(one.end == pytest.approx(other.start) for one, other in pairwise(bars))
    assert all(re.search("[▏▎▍▌▋▊▉█▐]", one) for one in lines[: len(bars)])


def test_every_account_is_in_the_waterfall_or_said_to_be_empty(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    waterfall = screen_of(found).waterfall
    drawn = [part.name for part in waterfall.bars]
    others = re.sub("nothing in |below 0.05 % in ", "", waterfall.of).replace("; ", ", ").split(", ")
    assert sorted([*drawn, *others]) == sorted(map(str, ACCOUNTS))


def test_bars_of_plain_letters(tmp_path: Path) -> None:
    text = shown(of(tmp_path, trace()), unicode=False)
    assert text.isascii()
    assert "###" in text


def test_one_screen_is_enough(tmp_path: Path) -> None:
    write_job(JobSpec(ranks=4, steps=2, layers=2, stragglers=(Straggler(rank=1, extra_us=900),)), tmp_path)
    lines = shown(diagnose([tmp_path])).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= PLAIN_COLUMNS


@pytest.mark.parametrize(
    "name",
    [
        "h20_single.json.gz",
        "dlrm_8rank_v100",
        "h800_deepseek_v3_train_dualpipe.json.gz",
        "h100_Qwen_Qwen1.5-0.5B-Chat.json.gz",
        "tb_resnet50_num_workers_0_1623143089861.pt.trace.json.gz",
        "vllm_decode_fullgraph_exec.json.gz",
        "hta_cpu_only_rank34_full.pt.trace.json.gz",
        "mi210_gpu_only.json.gz",
        "kineto_after_fix_trace.json.gz",
        "sam_amg_False_9566500c.json.gz",
        "xdit_sd35_rank0.json.gz",
    ],
)
@pytest.mark.needs_traces
def test_one_screen_is_enough_for_real_traces(traces: RealTraces, name: str) -> None:
    found = diagnose([traces / name])
    for language in LANGUAGES:
        with speaking(language):
            lines = shown(found).splitlines()
        memory = next((place for place, text in enumerate(lines) if text.startswith(MEMORY)), len(lines) + 1)
        assert memory - 1 <= MOST_LINES
        assert len(lines) - memory <= MOST_MEMORY_LINES
        assert max(map(width_of, lines)) <= PLAIN_COLUMNS


def test_a_number_is_never_parted_from_its_unit(tmp_path: Path) -> None:
    text = shown(of(tmp_path, trace(0, 2), trace(1, 2, late_us=60)))
    assert not re.search(r"^ *(%|[num]?s|[kMGT]?B)\b", text, re.MULTILINE)


# --- findings ---------------------------------------------------------------------------------------------------------


def test_findings_stand_in_place_of_the_largest_accounts(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    text = replace(found, findings=findings(2)).rendered("text")
    assert "largest accounts" not in text
    assert "largest accounts" in replace(found, findings=findings(2)).rendered("text", verbose=True)
    assert line(text, "verdict").startswith("verdict   Launch-bound: up to 40.0 % of the step is lost.")
    lines = block(text, "findings, largest possible gain first")
    assert lines[0].startswith("  1. RL-H01 Replay the launches of a step as a CUDA graph: at most 40.0 % of the step,")
    assert lines[2:4] == ["     The device waits 4.000 ms for a|b.", "     Second."]
    assert " ".join(lines).count("Fix: Compile the model with CUDA graphs, which") == 2
    assert 'all launches of a step as one: model = torch.compile(model, mode="reduce-overhead")' in " ".join(
        " ".join(lines).split()
    )
    assert text.split("\n\n")[3] == "+ Well done: 99.0 % busy.\n! RL-H01 Look first."


@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_findings_leave_room_for_the_rest_of_the_screen(tmp_path: Path, count: int) -> None:
    found = of(tmp_path, trace(0, 2), trace(1, 2, late_us=60))
    lines = replace(found, findings=findings(count)).rendered("text").splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= PLAIN_COLUMNS
    shown = sum("RL-H01 Replay" in one for one in lines)
    assert min(count, 2) <= shown <= MOST_FINDINGS
    assert "     Second." in lines  # all evidence of the first
    assert (f"  and {count - shown} more: -v or --findings" in lines) == (count > shown)
    everything = replace(found, findings=findings(count)).rendered("text", verbose=True)
    assert everything.count("RL-H01 Replay") == everything.count("Third.") == count


def test_evidence_of_the_last_findings_goes_first_where_there_is_little_room(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    failures = [Failure(path="a.json", message="broken " * 20)] * 4
    lines = replace(found, findings=findings(3), failures=tuple(failures)).rendered("text").splitlines()
    assert len(lines) <= MOST_LINES
    assert sum("Fix: " in one for one in lines) == 1


def test_facts_make_room_before_evidence_and_the_line_of_the_program_stays(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    site = Evidence("Most of it comes from {site}.", {"site": "audit (/home/me/job/train.py:31)"})
    three = tuple(replace(one, evidence=(*one.evidence, site)) for one in findings(3).findings)
    failures = tuple([Failure(path="a.json", message="broken " * 15)] * 4)
    crowded = replace(found, findings=replace(findings(3), findings=three), failures=failures)
    lines = crowded.rendered("text").splitlines()
    labels = ["steps", "window", "device", "MFU", "coverage"]
    assert [label for label in labels if any(one.startswith(f"{label} ") for one in lines)] == ["steps", "MFU"]
    assert sum("comes from audit (" in one for one in lines) == sum("RL-H01 Replay" in one for one in lines) > 0
    whole = crowded.rendered("text", verbose=True).splitlines()
    assert all(any(one.startswith(f"{label} ") for one in whole) for label in labels)


def test_a_finding_does_not_hide_where_the_host_is_for_longest(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    (rank,) = found.diagnosis.ranks
    audit = "audit (/home/me/job/train.py:31)"
    spent_ns = rank.ledger.of(Account.HOST)
    spent = HostActivity(
        account=Account.HOST, kind="python", name=audit, region="", site=audit, time_ns=spent_ns, times=1
    )
    busy = replace(found, diagnosis=replace(found.diagnosis, doing=(spent,)), findings=findings(1))
    assert "Largest: 100.0 % at audit (job/train.py:31)." in " ".join(busy.rendered("text").split())
    named = replace(findings(1).findings[0], evidence=(Evidence("In {site}.", {"site": audit}),))
    said = replace(busy, findings=replace(findings(1), findings=(named,)))
    assert "Largest:" not in said.rendered("text")


def test_the_table_of_findings(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    lines = block(replace(found, findings=findings(2)).rendered("text", tables=["findings"]), "findings")
    assert lines[1].split()[-9:] == ["40.0", "%", "40.0", "%", "1.67", "x", "bitwise", "measured", "1"]
    assert lines[2].split()[-9:] == ["20.0", "%", "40.0", "%", "1.67", "x", "bitwise", "measured", "1"]
    assert lines[3].split()[-7:] == ["-", "-", "-", "-", "bitwise", "measured", "1"]
    none = replace(findings(), findings=(), remarks=())
    assert block(replace(found, findings=none).rendered("text", tables=["findings"]), "findings") == [
        "  nothing was found"
    ]


@pytest.mark.parametrize(
    ("fix", "said"),
    [
        ("Do `this`. Then that.", "Do this."),
        ("Do this:\n\n```python\na = 1\n```\n\nOr that.", "Do this: a = 1"),
        ("Do it. More is better:\n\n```python\na = 1\n```", "Do it: a = 1"),
        ("Do this:\n\n```python\nfrom x import y\n\na = 1\nb = 2\n```\n", "Do this: a = 1; b = 2"),
        ("Do this:\n\n```python\nwith a:\n    b = 2\n```\n", "Do this; see its page"),
        ("```python\na = 1\n```\n\nIt helps.", "a = 1"),
        ("```python\nwith a:\n    b = 2\n```\n\nIt helps. Much.", "It helps."),
        ("By its cause:\n\n- one\n- two", "By its cause; see its page"),
        ("Do this.\n\nOr that:\n\n```\na\n```", "Do this."),
        ("As in [RL-H01](RL-H01.md).", "As in RL-H01."),
        ("Set torch.a.b to 1.5 in\nany case. More.", "Set torch.a.b to 1.5 in any case."),
        ("关闭它。然后。", "关闭它。"),
    ],
)
def test_the_first_thing_to_try(fix: str, said: str) -> None:
    assert fix_text(fix) == said


# --- in Chinese -------------------------------------------------------------------------------------------------------


def test_everything_but_names_is_in_chinese(tmp_path: Path) -> None:
    found = of(tmp_path, trace(0, 2), trace(1, 2, late_us=60))
    with speaking("zh"):
        text = shown(found, "findings", *TABLES, verbose=True)
        code = replace(found, findings=findings(2)).rendered("text")
    assert text.startswith("2 个 rank（共 2 个），设备：NVIDIA H20；采用 H20 的数据（目录）\n")
    words = set(re.findall(r"[a-z]{3,}", text))
    english = "device waited average share nothing the findings launch accounts"
    assert not words & set(english.split())
    assert "设备等待" in text or "设备在等待" in text
    assert "发现（按收益上限排序）" in code
    assert "torch.compile(model" in code


def test_columns_line_up_in_chinese(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    with speaking("zh"):
        lines = block(shown(found, "host"), "host")
    starts = {width_of(one[: one.index(word)]) for one, word in ((lines[0], "内容"), (lines[1], "未记录的代码"))}
    assert len(starts) == 1


# --- losses -----------------------------------------------------------------------------------------------------------


def test_host_time_is_put_down_to_what_the_host_did(tmp_path: Path) -> None:
    text = " ".join(unexplained(of(tmp_path, trace())).split())
    assert "1. host, " in text
    assert "the device waited for the host to launch work. Largest: " in text
    assert "unrecorded code" in text


def test_the_late_rank_is_named_with_its_cause(tmp_path: Path) -> None:
    write_job(JobSpec(ranks=4, steps=3, layers=2, stragglers=(Straggler(rank=2, extra_us=3000),)), tmp_path)
    text = " ".join(unexplained(diagnose([tmp_path])).split())
    assert "peer wait" in text
    assert re.search(r"Rank 2 was last at \d+ of \d+ collectives and caused \d+\.\d % of the waiting there", text)
    assert "the same rank in all steps" in text
    assert re.search(r"it was [\d.]+ ms late on average; it computed [\d.]+ ms longer than the others", text)


def test_a_pipeline_has_nobody_to_blame(tmp_path: Path) -> None:
    write_job(JobSpec(ranks=2, steps=2, layout=ParallelSizes(pp=2)), tmp_path)
    text = " ".join(unexplained(diagnose([tmp_path])).split())
    assert "is between pairs of ranks that send and receive, like pipeline stages." in text
    assert "was last" not in text


def test_nobody_is_blamed_where_no_ranks_met() -> None:
    assert not loss_messages.who_is_late(None, None)


def test_a_transfer_is_shown_with_its_size_and_bandwidth(tmp_path: Path) -> None:
    spec = JobSpec(ranks=2, steps=2, layers=1, step_compute_us=2000, collective_bytes=256 << 20, network_gb_per_s=5)
    write_job(spec, tmp_path)
    text = " ".join(unexplained(diagnose([tmp_path])).split())
    assert re.search(r"transfer, .* Mostly all_reduce of 268 MB over 2 ranks at \d+ GB/s of bus bandwidth;", text)
    alone = " ".join(unexplained(diagnose([tmp_path / "rank-0.pt.trace.json.gz"])).split())
    assert "of bus bandwidth, waiting included" in alone
    assert "one rank only: waiting for other ranks is counted as transfer" in alone


def test_queued_work_is_explained() -> None:
    assert loss_messages.queue_text(1000, 0, 30, 10, 0) == (
        "That is 100 ns per kernel: launch latency, or work that waits for another stream."
    )
    assert loss_messages.queue_text(1000, 100, 700, 10, 0) == "The longest gap is 700 ns (70.0 %)."
    assert loss_messages.queue_text(1000, 600, 600, 10, 2) == (
        "60.0 % is before the first work on the device. 2 graphs were launched."
    )


def test_every_account_has_a_meaning_and_every_late_cause_a_word() -> None:
    assert set(account_messages.MEANING) == set(Account)
    assert set(loss_messages.CAUSE) == set(CAUSES)
    assert set(loss_messages.PATTERN) == set(Pattern.__args__)  # type: ignore[attr-defined]


# --- what could not be seen -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", list(Unseen))
def test_there_is_a_sentence_for_everything_unseen(what: Unseen) -> None:
    remark = Remark(what=what, ranks=2, count=3, time_ns=4_000, share=0.5, detail="a detail")
    text = unseen_messages.unseen(remark, 4)
    assert len(text) > 20
    assert text.endswith("(2 of 4 ranks)")
    assert not text.startswith("(")
    assert "ranks)" not in unseen_messages.unseen(remark, 1)


@pytest.mark.parametrize(
    ("unseen", "said"),
    [
        ([Remark(what=Unseen.NO_PEAK, detail="no figures\nchoose")], "unknown: no figures; choose"),
        ([Remark(what=Unseen.UNKNOWN_WORK, detail="no shapes recorded")], "record_shapes=True"),
        ([Remark(what=Unseen.NO_DTYPE_PEAK, detail="fp4")], "no peak for fp4"),
        ([], "no matmul, convolution or attention"),
    ],
)
def test_why_there_is_no_utilisation(unseen: list[Remark], said: str) -> None:
    assert said in fact_messages.no_mfu_line(unseen, on_cpu=False)


def test_a_cpu_needs_a_profile(tmp_path: Path) -> None:
    text = shown(of(tmp_path, document([op("aten::mm", 0, 5, **MATMUL), op("aten::mm", 20, 5, **MATMUL)])))
    assert text.startswith("1 rank of 1 on CPU (no device work in the trace); no peaks known\n")
    assert "no peaks; run `redline calibrate -o machine.json`, pass `--machine machine.json`" in line(text, "MFU")
    assert "2 operators: FLOPs known for 100.0 % of their time; no peak to rate them against" in line(text, "coverage")
    assert "no device work in the trace: the CPU is the device" in text
    assert "no peaks, so no kernel can be rated: see MFU" in text


def test_files_that_could_not_be_read_are_said(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    failures = [Failure(path=f"{number}.json", message=f"{number}.json: broken\nmend it") for number in range(6)]
    text = replace(found, failures=tuple(failures)).rendered("text")
    assert "  - unread: 0.json: broken mend it" in text
    assert "  - unread: 2 more files" in text


@pytest.mark.parametrize(
    "data",
    [document([]), document([op("aten::mm", 5, 0)]), document([kernel("gemm", 5, 3)]), document([launch(5, 3)])],
    ids=["empty", "no time", "a kernel alone", "a launch alone"],
)
def test_traces_with_next_to_nothing_look_fine(tmp_path: Path, data: bytes) -> None:
    text = shown(of(tmp_path, data), *TABLES)
    assert text.startswith("1 rank of 1 on ")
    assert "nan" not in text
    assert "inf" not in text


# --- tables -----------------------------------------------------------------------------------------------------------


def row(**changes: object) -> KernelRow:
    known: dict[str, object] = {
        "operator": "aten::mm",
        "kernel": "gemm",
        "shapes": "[[8944, 1024], [1024, 2816], []]",
        "dtype": "bf16",
        "calls": 2,
        "kernels": 2,
        "time_ns": 1000,
        "flops": 10**9,
        "bytes": 10**6,
        "math_ns": 500.0,
        "memory_ns": 100.0,
    }
    return KernelRow(**{**known, **changes})  # type: ignore[arg-type]


def test_the_table_of_kernels(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    many = tuple(row(operator=f"op{number}", time_ns=1000 - number) for number in range(30))
    rows = (row(), row(math_ns=2000.0), row(flops=0, bytes=0, kernel="void at::native::mystery<int>"), *many)
    diagnosis = replace(found.diagnosis, kernels=rows)
    lines = block(replace(found, diagnosis=diagnosis).rendered("text", tables=["kernels"]), "kernels")
    assert lines[0].split()[:2] == ["operator", "shapes,"]
    assert "50.0 %" in lines[1]
    assert "8944x1024 1024x2816" in lines[1]
    assert lines[1].endswith("compute")
    assert lines[2].rstrip().endswith("above roof")
    assert "200.0" not in lines[2]
    assert "mystery<int>" in lines[3]
    assert len(lines) == 1 + MOST_ROWS + 3
    assert "  ... and 17 more rows; -v lists all" in lines
    assert any("above roof: from cache, or a wrong shape or peak" in one for one in lines)
    whole = replace(found, diagnosis=diagnosis).rendered("text", tables=["kernels"], verbose=True)
    assert "more rows" not in whole


def test_shapes_can_be_read() -> None:
    assert shapes("[[8944, 1024], [1024, 2816], [], []]") == "8944x1024 1024x2816"
    assert shapes("[[[2, 3], [4]], []]") == "2x3 4"
    assert shapes("[[2, 3], [4, 5") == "2x3"
    assert shapes("") == ""
    many = shapes("[" + ", ".join(["[1024, 1024]"] * 9) + "]")
    assert many.endswith(" ...")
    assert len(many) <= 48
    assert shapes_or_kernel(row(shapes="")) == ""


def test_the_table_of_collectives(tmp_path: Path) -> None:
    text = shown(of(tmp_path, trace(0, 2), trace(1, 2, late_us=60)), "collectives")
    lines = block(text, "collectives")
    assert lines[1].split()[:3] == ["all_reduce", "2", "4.10"]
    assert lines[1].endswith("GB/s")
    assert "as in nccl-tests" in " ".join(lines)
    (tmp_path / "rank-1.json").unlink()
    alone = block(shown(diagnose([tmp_path]), "collectives"), "collectives")
    assert "waiting -: the other ranks are not in the traces" in " ".join(alone)


def test_the_table_of_ranks_chooses_those_that_matter(tmp_path: Path) -> None:
    spec = JobSpec(ranks=20, steps=2, layers=1, stragglers=(Straggler(rank=19, extra_us=900),))
    write_job(spec, tmp_path)
    found = diagnose([tmp_path])
    lines = block(shown(found, "ranks"), "ranks")
    assert lines[1].split()[0] == "19"
    assert lines[17].startswith("  ... and 4 more ranks; shown are those that others waited for longest")
    assert len(block(shown(found, "ranks", verbose=True), "ranks")) == 23


def test_kinds_are_letters() -> None:
    assert [kind_letter(number) for number in (0, 1, 25, 26, 27, 52)] == ["A", "B", "Z", "AA", "AB", "BA"]


def test_the_table_of_steps(tmp_path: Path) -> None:
    lines = block(shown(of(tmp_path, trace()), "steps"), "steps")
    assert lines[1].split()[:2] == ["0", "ProfilerStep#0"]
    assert lines[2].split()[:2] == ["1", "ProfilerStep#1"]


def test_the_table_of_the_host(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    place = "/a/long/way/to/train.py(12): step"
    rows = (
        HostActivity(
            account=Account.HOST, kind="call", name="cudaMalloc", region="fwd", site=place, time_ns=5, times=1
        ),
        HostActivity(account=Account.SYNC, kind="unrecorded", name="", region="", site="", time_ns=3, times=1),
        HostActivity(
            account=Account.HOST,
            kind="python",
            name="<built-in method item of Tensor object at 0x7f>",
            region="",
            site="",
            time_ns=2,
            times=1,
        ),
    )
    lines = block(
        replace(found, diagnosis=replace(found.diagnosis, doing=rows)).rendered("text", tables=["host"]), "host"
    )
    assert lines[1].split() == ["host", "5", "ns", "0.0", "%", "cudaMalloc", "fwd", "to/train.py(12):", "step"]
    assert "unrecorded code" in lines[2]
    assert "built-in item" in lines[3]


def test_tables_say_what_did_not_fit_into_digests(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    cut = {"kernel_rows": 3, "doing_rows": 5}
    diagnosis = replace(found.diagnosis, ranks=(replace(found.diagnosis.ranks[0], left_out=cut),))
    text = replace(found, diagnosis=diagnosis).rendered("text", tables=["kernels", "host"])
    assert "3 rows did not fit into the digests and are summed up under others" in text
    assert "5 rows did not fit into the digests and are summed up under others" in text


# --- strangers' names -------------------------------------------------------------------------------------------------


def test_nothing_in_a_trace_can_harm_a_terminal(tmp_path: Path) -> None:
    evil = [
        region(f"ProfilerStep#1{EVIL}", 0, 1000),
        region(f"region{EVIL}", 0, 900),
        op(f"aten::mm{EVIL}", 100, 50, **MATMUL),
        launch(120, correlation=1, name=f"cudaLaunchKernel{EVIL}"),
        kernel(f"gemm{EVIL}", 300, 10, correlation=1),
        collective(600, 50, name=f"allreduce{EVIL}"),
    ]
    data = document(evil, deviceProperties=[{"id": 0, "name": f"GPU{EVIL}"}], synthetic=EVIL, host_name=EVIL)
    text = shown(of(tmp_path, data), *TABLES)
    assert not set(text) & set("\x1b\x07\x9b\u202e\r")
    assert "pwned" in text


def test_an_outline_without_losses_has_no_such_block(tmp_path: Path) -> None:
    found = of(tmp_path, trace())
    healthy: Outline = replace(found.outline, largest=())
    assert "largest accounts" not in replace(found, outline=healthy).rendered("text")


def test_a_sampled_site_keeps_its_function_and_the_end_of_its_path() -> None:
    assert loss_messages.site("main (train.py:12)") == "main (train.py:12)"
    assert loss_messages.site("Trainer.step (a/b/c/loop.py:7)") == "Trainer.step (c/loop.py:7)"
    assert loss_messages.site("a/b/c/loop.py(7): step") == "c/loop.py(7): step"
