"""Records of runs, of ranks and of windows."""

from dataclasses import replace
from typing import Any

from redline.capture.run_record import RankRecord, RunRecord, WindowRecord

MS = 1_000_000


def window(**changed: Any) -> WindowRecord:
    known = WindowRecord(
        number=1,
        state="written",
        first_step=10,
        steps=3,
        length_ns=36 * MS,
        stall_ns=20 * MS,
        writing_ns=90 * MS,
        writing_cpu_ns=80 * MS,
        path="window-1/rank-0.trace.json.gz",
        raw_bytes=4_000_000,
        size_bytes=400_000,
        sha256="0" * 64,
        slowdown=1.2,
    )
    return replace(known, **changed)


def rank(number: int = 0, **changed: Any) -> RankRecord:
    known = RankRecord(
        rank=number,
        restart=0,
        host="node",
        pid=100 + number,
        steps=1000,
        step_kind="optimizer",
        step_ns=10 * MS,
        step_p10_ns=9 * MS,
        step_p90_ns=12 * MS,
        slowest_ns=40 * MS,
        step_mean_ns=10 * MS,
        step_wait_ns=1 * MS,
        input_wait_ns=1000 * MS,
        batches=1000,
        peak_bytes=600_000_000 + number,
        capture_cost_ns=20 * MS,
        finished=True,
        windows=(window(),),
        notes=(),
        facts={"versions": {"torch": "2.13.0"}},
    )
    return replace(known, **changed)


def run(*ranks: RankRecord, **changed: Any) -> RunRecord:
    known = RunRecord(
        command=("python", "train.py", "--size", "3"),
        folder="/x",
        launcher="python",
        world=max(len({one.rank for one in ranks}), 1),
        started="2026-01-01T00:00:00Z",
        wall_ns=12_000 * MS,
        exit_code=0,
        signal=None,
        ranks=ranks,
        machine={},
        settings={"capture": True, "after": 8, "steps": 3, "when": ""},
    )
    return replace(known, **changed)
