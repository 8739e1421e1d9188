"""Two launchers of one job, as on two machines: they share a folder, and one record has the ranks of both."""

import importlib.util
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")

PROGRAM = Path(__file__).parent / "programs" / "stuck.py"
QUIET = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_ranks_of_both_launchers_are_in_one_record(tmp_path: Path) -> None:
    where = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1", "--master-port", str(free_port())]
    ours = ["--after", "6", "--rdzv-id", "experiment-7"]
    script = [str(PROGRAM), "--how", "sleep", "--seconds", "0"]
    launchers = [
        subprocess.Popen(
            [sys.executable, "-m", "redline", "run", *ours, *where, "--node-rank", str(node), "--", *script],
            cwd=tmp_path,
            env={**os.environ, **QUIET},
            stderr=subprocess.PIPE,
        )
        for node in range(2)
    ]
    for launcher in launchers:
        _, stderr = launcher.communicate(timeout=120)
        assert launcher.returncode == 0, stderr.decode()
    record = json.loads((tmp_path / "redline-runs" / "stuck-experiment-7" / "run.json").read_text())
    assert record["world"] == 2
    assert [(one["rank"], one["steps"]) for one in record["ranks"]] == [(0, 12), (1, 12)]
    windows = [window for one in record["ranks"] for window in one["windows"]]
    assert [(one["state"], one["first_step"], one["steps"]) for one in windows] == [("written", 8, 3)] * 2
