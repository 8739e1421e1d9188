"""The second fence: what the process that serves agents cannot open, write or start."""

import subprocess
import sys
from pathlib import Path

from tests.support.command_line import ROOT, environment

CODE = """
import os, socket, subprocess, sys
from pathlib import Path
from redline.mcp.allowed_folders import allowed_folders
from redline.mcp.call import call_tool
from redline.mcp.open_guard import guard_process

folders = allowed_folders([sys.argv[1]])
inside, outside = Path(sys.argv[1]), Path(sys.argv[2])
(inside / "later.json").symlink_to(outside / "run.json")
guard_process(folders)

def refused(act):
    try:
        act()
    except PermissionError:
        return True
    return False

tries = {
    "read": lambda: open(outside / "run.json"),
    "read bytes": lambda: (outside / "run.json").read_bytes(),
    "read by link": lambda: open(inside / "later.json"),
    "read by number": lambda: os.open(str(outside / "run.json"), os.O_RDONLY),
    "read the system's": lambda: open("/etc/passwd"),
    "read the process": lambda: open("/proc/self/environ"),
    "write inside": lambda: open(inside / "new", "w"),
    "append": lambda: open(inside / "rank0.json.gz", "a"),
    "write outside": lambda: (outside / "new").write_text("x"),
    "remove": lambda: os.remove(inside / "rank0.json.gz"),
    "rename": lambda: os.rename(inside / "rank0.json.gz", inside / "b"),
    "make a folder": lambda: os.mkdir(inside / "d"),
    "start": lambda: subprocess.run(["true"]),
    "shell": lambda: os.system("true"),
    "fork": lambda: os.fork(),
    "connect": lambda: socket.socket().connect(("127.0.0.1", 9)),
}
print([name for name, act in tries.items() if not refused(act)])
print((inside / "rank0.json.gz").read_bytes()[:2])
for number in range(2):
    outcome = call_tool("diagnose", {"paths": ["rank0.json.gz"]}, folders)
    print(outcome.failed, outcome.text[:18])
for question in (("explain", {"topic": "fused"}), ("hardware", {}), ("explain", {"topic": "RL-H01"})):
    print(call_tool(*question, folders).failed)
print(call_tool("plan", {"kind": "serve", "model": "llama-3.1-8b", "machine": "H100-SXM5-80GB", "prompt": 9,
    "output_tokens": 9, "concurrency": [1]}, folders).failed)
"""


def test_nothing_outside_is_opened_nothing_is_written_and_nothing_is_started(tmp_path: Path) -> None:
    inside, outside = tmp_path / "run" / "window-1", tmp_path / "run"
    inside.mkdir(parents=True)
    (outside / "run.json").write_text("{}")
    trace = ROOT / "tests" / "data" / "recorded" / "plain_loop.pt.trace.json.gz"
    (inside / "rank0.json.gz").write_bytes(trace.read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(inside), str(outside)],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env=environment(),
    )
    assert done.stdout.splitlines() == [
        "[]",
        r"b'\x1f\x8b'",
        *['False {"tool":"diagnose"'] * 2,
        *["False"] * 4,
    ], done.stderr
    assert sorted(path.name for path in inside.iterdir()) == ["later.json", "rank0.json.gz"]
    assert sorted(path.name for path in outside.iterdir()) == ["run.json", "window-1"]
