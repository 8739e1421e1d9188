"""What `redline run` recorded about the host, as it stands in a trace."""

from typing import Any

BASE_NS = 1_700_000_000_000_000_000


def record() -> dict[str, Any]:
    return {
        "version": 1,
        "steps": {
            "begin_ns": [BASE_NS + 10_000, BASE_NS + 50_000],
            "end_ns": [BASE_NS + 50_000, BASE_NS + 90_000],
            "cpu_ns": [30_000, 20_000],
            "run_queue_ns": [5_000, 15_000],
            "involuntary": [1, 2],
            "voluntary": [3, 4],
            "process_cpu_ns": [60_000, 40_000],
        },
        "threads": [{"name": "MainThread", "tid": 7, "cpu_ns": 50_000, "run_queue_ns": 20_000, "training": True}],
        "machine": {"cores_allowed": 2, "cores": 8, "quota_cores": None, "throttled_ns": 0, "running": 3.5},
        "collections": {"begin_ns": [BASE_NS + 20_000], "dur_ns": [9_000], "generation": [2], "collected": [0]},
        "samples": {"rate_hz": 100, "time_ns": [BASE_NS + 30_000], "stack": [0], "stacks": [["train.py:3 step"]]},
        "facts": {"optimizers": [{"kind": "AdamW", "fused": None, "parameters": 148}], "unknown": 3},
        "calls": {
            "time_ns": [BASE_NS + 10_000, BASE_NS + 50_000],
            "model": [0, 0],
            "models": [{"kind": "UNet", "denoises": True}],
            "inputs": [[0, 1], [2, 1]],
            "shapes": ["float32[2,4]", "", "float32[2,4]"],
        },
    }
