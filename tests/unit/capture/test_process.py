import subprocess
import sys
from pathlib import Path

import pytest

from redline.capture.process import available_bytes, control_groups

MIB = 1 << 20
ROOM = """
import resource
from redline.capture.process import available_bytes, has_memory_limit, room_bytes

def used(name):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(name)) << 10

print(has_memory_limit(), abs(room_bytes() - available_bytes()) < 64 << 20)
"""


def told(text: str) -> list[str]:
    words = [sys.executable, "-c", ROOM + text]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def test_without_a_limit_there_is_what_the_machine_has() -> None:
    assert told("") == ["False", "True"]


@pytest.mark.parametrize(("limit", "name"), [("RLIMIT_DATA", "VmData"), ("RLIMIT_AS", "VmSize")])
def test_a_limit_leaves_what_is_below_it(limit: str, name: str) -> None:
    text = f"""
resource.setrlimit(resource.{limit}, (used("{name}") + (20 << 20),) * 2)
print(has_memory_limit(), 16 << 20 < room_bytes() <= 20 << 20)
"""
    assert told(text)[2:] == ["True", "True"]


def test_memory_that_was_needed_once_is_needed_again() -> None:
    """The most that a step takes is in its middle, and a window opens between two of them."""
    text = """
block = bytearray(50 << 20)
del block
resource.setrlimit(resource.RLIMIT_DATA, (used("VmData") + (60 << 20),) * 2)
print(room_bytes() < 14 << 20)
"""
    assert told(text)[2:] == ["True"]


def test_the_group_that_leaves_least_counts(tmp_path: Path) -> None:
    own = [Path(folder) for folder in control_groups("memory", str(tmp_path))]
    assert own
    for number, folder in enumerate(own):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory.max").write_text(f"{(100 + number) * MIB}\n")
        (folder / "memory.current").write_text(f"{97 * MIB}\n")
        (folder / "memory.stat").write_text("anon 5\ninactive_file 0\n")
    assert available_bytes(str(tmp_path)) == 3 * MIB
