"""The summary of a run fits a screen, says what matters, and says it of odd runs too."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from redline.capture.run_record import DigestsRecord, RunRecord
from redline.capture.supervisor.stall import Stall, Standing
from redline.report.display import PLAIN_COLUMNS, Display, displaying
from redline.report.language import speaking
from redline.report.run.run_notes import TOLD
from redline.report.run.run_summary import MOST_LINES, document_of_run, shown_path
from redline.report.run.stall import document_of_stall
from redline.report.terminal import text_of, width_of
from tests.support.run_records import MS, rank, run, window


def render(record: RunRecord, folder: Path | None) -> str:
    return text_of(document_of_run(record, folder))


def render_stall(stall: Stall, path: Path | None) -> str:
    return text_of(document_of_stall(stall, "" if path is None else shown_path(path)))


def shown(record: RunRecord, folder: Path | None = Path("runs/a")) -> list[str]:
    text = render(record, folder)
    assert text.endswith("\n")
    lines = text.splitlines()
    assert len(lines) <= MOST_LINES
    assert all(width_of(line) <= PLAIN_COLUMNS for line in lines)
    return lines


def test_a_narrow_terminal_says_as_much_on_more_lines() -> None:
    with displaying(Display(columns=60, is_terminal=True)):
        text = render(run(rank()), Path("runs/a"))
    assert max(map(width_of, text.splitlines())) <= 60
    assert text.split() == " ".join(shown(run(rank()))).split()


def test_a_usual_run() -> None:
    assert shown(run(rank())) == [
        "redline: train.py --size 3: 1 rank, exit code 0 after 12.00 s",
        "  steps     1,000, counted from optimizer steps; median 10.00 ms, p10-p90 9.000-12.00 ms",
        "  input     waiting for the data loader takes 10.0 % of a step",
        "  window 1  steps 10-12; 1.20 x as long as the others; then 20.00 ms to hand over the trace; 400 kB",
        "  peak      at most 600 MB in the process",
        "  folder    runs/a",
    ]


def test_digests_that_were_made_where_the_ranks_ran() -> None:
    made = DigestsRecord(
        keep_traces=2, wait_s=30.0, written=6, failed=1, missed=1, size_bytes=24_000, cpu_ns=1200 * MS, deleted=4
    )
    lost = window(state="digested")
    text = render(run(rank(windows=(lost,)), digests=made), Path("/x"))
    assert "  digests   6 of 8; 4.00 kB and 200.0 ms of CPU time each, at idle priority; 4 traces deleted\n" in text
    assert "no trace" not in text


def test_ranks_that_stand_out() -> None:
    ranks = [rank(number) for number in range(4)]
    ranks[1] = rank(1, step_ns=15 * MS, step_p10_ns=14 * MS)
    ranks[2] = rank(2, step_wait_ns=4 * MS)
    ranks[3] = rank(3, windows=(window(state="killed"),), finished=False, notes=())
    lines = shown(run(*ranks, command=("python", "-m", "torch.distributed.run", "--nproc-per-node", "4", "t.py")))
    assert lines[0] == "redline: torchrun --nproc-per-node 4 t.py: 4 ranks, exit code 0 after 12.00 s"
    with_options = ("python", "-W", "error", "-m", "torch.distributed.run", "t.py")
    assert shown(run(*ranks, command=with_options))[0].startswith("redline: torchrun t.py: ")
    text = " ".join(" ".join(lines).split())
    assert (
        "slow a step of rank 1 takes 1.50 x as long as on the other ranks; rank 2 waits 4.000 ms "
        "per step for data, the others 1.000 ms"
    ) in text
    assert "steps 10-12 on 3 of 4 ranks;" in text
    assert "no trace of rank 3: killed before it was written" in text
    assert "at most 600 MB in a process, rank 3" in text
    assert "note rank 3 did not exit normally: killed, or ended by os._exit" in text


def test_chance_makes_no_rank_slow() -> None:
    few = run(rank(steps=9), rank(1, steps=9, step_ns=15 * MS, step_p10_ns=14 * MS))
    now_and_then = run(rank(), rank(1, step_ns=12 * MS, step_p10_ns=8 * MS))
    assert not any(line.startswith("  slow") for record in (few, now_and_then) for line in shown(record))


def test_a_step_that_never_ended_is_not_counted_as_captured() -> None:
    assert "  window 1  steps 10; " in "\n".join(shown(run(rank(steps=10, windows=(window(steps=2, slowdown=1.0),)))))


def test_a_thousand_ranks() -> None:
    ranks = [rank(number, steps=1000 + number % 2) for number in range(1024)]
    for number in range(0, 1024, 100):
        ranks[number] = rank(
            number,
            step_ns=(20 + number) * MS,
            step_p10_ns=20 * MS,
            finished=False,
            windows=(window(state="no space"),),
        )
    lines = shown(run(*ranks, world=2048))
    text = " ".join(" ".join(lines).split())
    assert lines[0].startswith("redline: train.py --size 3: 1,024 ranks of 2,048, exit code 0")
    assert "steps 1,000 to 1,001 per rank, counted from optimizer steps" in text
    assert "and 8 more ranks" in text
    assert "on 1,013 of 1,024 ranks" in text
    assert "no data from 1,024 ranks" in text


def test_a_run_that_was_restarted() -> None:
    first = [rank(number, steps=400, finished=False, windows=()) for number in range(2)]
    second = [rank(number, restart=1, steps=600, windows=(window(),)) for number in range(2)]
    text = " ".join(" ".join(shown(run(*first, *second))).split())
    assert "2 ranks, exit code 0" in text
    assert "steps 600, counted from optimizer steps;" in text
    assert "after 1 restart, with at most 400 steps before" in text
    assert "window 1 steps 10-12 after restart 1 on 2 of 2 ranks" in text
    assert "exit normally" not in text


def test_many_windows_show_the_newest() -> None:
    windows = tuple(window(number=number, first_step=100 * number) for number in range(1, 13))
    lines = shown(run(rank(windows=windows)))
    assert [line.split()[:2] for line in lines if line.startswith("  window")] == [
        ["window", "10"],
        ["window", "11"],
        ["window", "12"],
    ]
    assert "  captured  9 earlier windows" in lines


STALL = {
    "after_s": 300.0,
    "held_by": [1],
    "ranks": [{"rank": 0, "quiet_s": 300.0}, {"rank": 1, "quiet_s": 301.0}],
    "recordings": [],
}


@pytest.mark.parametrize(
    ("record", "said"),
    [
        (run(), "no process of the job was watched: it did not start Python, or started it with -S, -I or -E"),
        (
            run(rank(steps=0, step_ns=None, windows=(), facts={}, batches=0, step_mean_ns=None, peak_bytes=0)),
            "the job did not import torch, so nothing could be captured",
        ),
        (
            run(rank(steps=0, step_ns=None, windows=(), step_kind="none", batches=0)),
            "no steps recognised: no optimizer stepped, and no model was called often enough to tell "
            "steps by its calls; mark the end of a step with redline.step()",
        ),
        (
            run(rank(steps=6, windows=())),
            "the job ended before the first window, which starts after 8 steps: try --after 2",
        ),
        (
            run(rank(windows=()), settings={"capture": True, "when": "step_time>2*median", "after": 8, "steps": 3}),
            "--when 'step_time>2*median' was never met, so nothing was captured",
        ),
        (
            run(rank(windows=(window(state="no space"),))),
            "no trace of rank 0: no space on the disk, or in --max-disk",
        ),
        (
            run(rank(windows=(window(state="incomplete"),))),
            "no trace of rank 0: the profiler's output is incomplete",
        ),
        (run(rank(windows=(window(state="failed"),))), "no trace of rank 0: it could not be written"),
        (
            run(rank(notes=({"code": "profiler-taken", "text": "x", "count": 3},))),
            "the script was running its own profiler, so nothing was captured meanwhile",
        ),
        (
            run(rank(notes=({"code": "budget", "text": "x", "count": 3},))),
            "some windows were skipped: they would cost more of the run than --budget allows",
        ),
        (
            run(rank(notes=({"code": "failed", "text": "RuntimeError: busy", "count": 1},))),
            "capturing failed, and the job went on: RuntimeError: busy",
        ),
        (
            run(rank(notes=({"code": "cut-short", "text": "window 1 was cut short: the process ended", "count": 1},))),
            "window 1 was cut short: the process ended",
        ),
        (run(rank(), signal="SIGKILL", exit_code=None), "1 rank, ended by SIGKILL after 12.00 s"),
        (
            run(rank(), rank(1, notes=({"code": "new", "text": "a new one", "count": 1},))),
            "a new one (rank 1)",
        ),
        (
            run(rank(), notes=("nothing was captured: /x cannot be written (Read-only file system)",)),
            "nothing was captured: /x cannot be written (Read-only file system)",
        ),
        (
            run(rank(), notes=("watching failed, which is a bug in Redline: OSError: x",)),
            "watching failed, which is a bug in Redline: OSError: x",
        ),
        (
            run(rank(notes=({"code": "stopped", "text": "no more windows after 2 failures in a row", "count": 1},))),
            "no more windows after 2 failures in a row",
        ),
        (
            run(notes=("no shared memory available; the job ran unwatched",)),
            "no shared memory available; the job ran unwatched",
        ),
        (
            run(rank(), rank(1), stalls=(STALL,)),
            "no step for 300.0 s; the others seem to wait for rank 1: stall-1.txt",
        ),
        (run(rank(step_kind="calls")), "counted from model calls"),
        (run(rank(step_kind="by hand")), "counted from redline.step()"),
    ],
)
def test_what_is_odd_is_said_plainly(record: RunRecord, said: str) -> None:
    assert said in " ".join(" ".join(shown(record)).split())


def test_watching_only_needs_no_apology() -> None:
    record = run(rank(windows=()), settings={"capture": False, "after": 8, "steps": 3, "when": ""})
    assert not any(line.startswith("  note") for line in shown(record))


def test_more_notes_than_fit() -> None:
    notes = tuple({"code": f"c{number}", "text": "words " * 30, "count": 1} for number in range(20))
    lines = shown(run(rank(notes=notes)))
    assert len(lines) == MOST_LINES or lines[-2].endswith("more notes, in run.json")
    assert any("more notes, in run.json" in line for line in lines)
    assert lines[-1] == "  folder    runs/a"


def test_names_cannot_command_the_terminal() -> None:
    record = run(rank(), command=("python", "a\x1b[31m.py"))
    assert "\x1b" not in "\n".join(shown(record))


def test_without_a_folder_none_is_named() -> None:
    assert not any(line.startswith("  folder") for line in shown(run(rank()), None))


def test_in_chinese() -> None:
    with speaking("zh"):
        lines = shown(run(*(rank(number) for number in range(3)), world=4))
    assert "optimizer steps" not in "\n".join(lines)


def test_what_processes_note_is_known_here_and_in_the_reference() -> None:
    root = Path(__file__).parents[4]
    source = "".join(path.read_text() for path in (root / "src" / "redline" / "capture" / "worker").rglob("*.py"))
    codes = set(re.findall(r'(?:notes\.add\(\s*|self\.add\((?="no-))"([\w-]+)"', source))
    page = (root / "docs" / "reference" / "run.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `ranks[].notes[].code`")]
    assert set(re.findall(r"`([\w-]+)`", row.split("|")[2])) == codes
    reasons = re.findall(r'_guarded\(self\._close, "([^"]+)"\)', source)
    assert {f"window {{number}} was cut short: {reason}" for reason in reasons} <= set(TOLD)


# --- a stall ----------------------------------------------------------------------------------------------------------


def standing(number: int, **changed: Any) -> Standing:
    known = Standing(
        rank=number,
        steps=12,
        quiet_s=300.0,
        state="sleeping",
        where="/lib/torch/distributed/c10d.py:10 in wait",
        user="/home/me/train.py:40 in main",
        in_torch=True,
        stacks="",
    )
    return replace(known, **changed)


def test_ranks_at_one_place_stand_together() -> None:
    ranks = [standing(number) for number in range(8)]
    ranks[3] = standing(3, where="/home/me/train.py:33 in load", user="/home/me/train.py:33 in load", steps=11)
    stall = Stall(after_s=300.0, ranks=tuple(ranks), held_by=(3,), recordings=())
    assert render_stall(stall, Path("runs/a/stall-1.txt")).splitlines() == [
        "redline: no step for 300.0 s; the others seem to wait for rank 3",
        "  rank 3: sleeping, 11 steps done; /home/me/train.py:33 in load",
        "  ranks 0-2, 4-7: sleeping, 12 steps done; /home/me/train.py:40 in main; inside",
        "    /lib/torch/distributed/c10d.py:10 in wait",
        "  all stacks: runs/a/stall-1.txt",
    ]


def test_a_stall_of_which_little_is_known() -> None:
    ranks = tuple(standing(number, where="", user="", state="stopped") for number in range(2))
    lines = render_stall(Stall(after_s=2.5, ranks=ranks, held_by=(0, 1), recordings=("/tmp/r0",)), None).splitlines()
    assert lines == [
        "redline: no step for 2.500 s; no rank stands out",
        "  ranks 0-1: stopped, 12 steps done",
        "  written by NCCL's flight recorder: /tmp/r0",
    ]


def test_a_rank_that_stands_still_while_the_others_go_on() -> None:
    ranks = (standing(0, quiet_s=0.1), standing(1), standing(2, quiet_s=0.2))
    text = render_stall(Stall(after_s=300.0, ranks=ranks, held_by=(1,), recordings=()), None)
    assert text.startswith("redline: no step for 300.0 s on rank 1; the others go on\n")


def test_a_stall_of_one_process_and_of_many_places() -> None:
    (line, *_) = render_stall(Stall(after_s=9.0, ranks=(standing(0),), held_by=(0,), recordings=()), None).splitlines()
    assert line == "redline: no step for 9.000 s"
    ranks = tuple(standing(number, user=f"a.py:{number} in f") for number in range(30))
    text = render_stall(Stall(after_s=9.0, ranks=ranks, held_by=(2,), recordings=()), None)
    assert "  22 more places\n" in text
