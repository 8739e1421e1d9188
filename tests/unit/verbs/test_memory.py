"""`redline.memory` and its reports: one screen, exact JSON, both languages; one bad file among several ends nothing."""

import json
import os
from pathlib import Path

import pytest

import redline
from redline.cli import main
from redline.errors import InputError, UsageError
from redline.report.language import speaking
from tests.support.made_snapshots import MAIN, MIB, Frame, MadeAllocator, random_allocator

FORWARD: Frame = ("forward", "/job/model.py", 12)


def _failed(path: Path) -> Path:
    """80 MiB of activations of 100 MiB, half of them free again in pieces of 10; 30 MiB asked for."""
    made = MadeAllocator(device_bytes=100 * MIB)
    blocks = [made.alloc(10 * MIB, FORWARD, MAIN) for _block in range(8)]
    for block in blocks[::2]:
        made.free(block, MAIN)
    with pytest.raises(MemoryError):
        made.alloc(30 * MIB, FORWARD, MAIN)
    return made.write(path)


def test_the_screen_of_a_failure(tmp_path: Path) -> None:
    text = redline.memory(_failed(tmp_path / "a.pickle"), device_bytes=128 * MIB).text()
    assert text.startswith(
        "Out of memory: 30.00 MiB asked at model.py:12 forward, 10.00 MiB more than the driver had free\n"
    )
    words = " ".join(text.split())
    assert "asked for activations" in words
    assert "20.00 MiB at the driver. 40.00 MiB cached in 4 pieces, the largest 10.00 MiB: too small." in words
    assert "Expandable segments would have served this request" in words
    assert "1. set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in words
    assert "saves up to 40.00 MiB, enough for this request" in words
    assert "28.00 MiB was outside of torch" in words
    assert len(text.splitlines()) <= 40


def test_the_screen_of_a_peak(tmp_path: Path) -> None:
    made = MadeAllocator()
    made.free(made.alloc(30 * MIB, FORWARD, MAIN), MAIN)
    made.alloc(3 * MIB, FORWARD, MAIN)
    text = redline.memory(made.write(tmp_path / "a.pickle")).text()
    assert text.startswith("Peak: 30.00 MiB in use, 30.00 MiB reserved\n")
    assert "what would have made it fit" not in text


def test_chinese_has_no_english_sentence_left(tmp_path: Path) -> None:
    result = redline.memory([_failed(tmp_path / "a.pickle")], device_bytes=128 * MIB)
    with speaking("zh"):
        text = result.text()
    assert text.startswith("OOM：model.py:12 forward 申请 30.00 MiB，比驱动的空闲显存多 10.00 MiB")
    for english in ("asked", "driver", "cached", "account", "saves", "outside", "history", "blocks"):
        assert english not in text


def test_json_adds_up(tmp_path: Path) -> None:
    found = json.loads(redline.memory(_failed(tmp_path / "a.pickle")).rendered("json"))
    assert (found["kind"], found["schema_version"]) == ("memory", 1)
    failure = found["devices"][0]["out_of_memory"]
    assert (failure["asked_bytes"], failure["short_bytes"]) == (30 * MIB, 10 * MIB)
    for ledger in (failure["ledger"], found["devices"][0]["peak"]):
        assert sum(ledger["accounts"].values()) == ledger["reserved_bytes"]
        assert sum(holder["size_bytes"] for holder in ledger["holders"]) == ledger["live_bytes"]
    assert failure["changes"][0] == {
        "change": "expandable_segments", "saves_bytes": 40 * MIB, "would_fit": True, "site": "",
    }  # fmt: skip


def test_markdown_has_the_same_tables(tmp_path: Path) -> None:
    text = redline.memory(_failed(tmp_path / "a.pickle")).rendered("md")
    assert text.startswith("## Out of memory: 30.00 MiB asked")
    assert "| activations | 40.00 MiB | 50.0 % | 41,943,040 |" in text


def test_a_folder_and_a_bad_file_in_it(tmp_path: Path) -> None:
    random_allocator(1, 200).write(tmp_path / "rank1.pickle")
    _failed(tmp_path / "rank0.pickle")
    (tmp_path / "rank2.pickle").write_bytes(b"\x80\x04cos\nsystem\n.")
    result = redline.memory(tmp_path)
    assert [device.failure is not None for device in result.devices] == [True, False]
    assert result.first is result.devices[0]
    assert [Path(failure.path).name for failure in result.failures] == ["rank2.pickle"]
    text = result.text()
    assert "nothing of it was run" in " ".join(text.split())
    assert "rank1.pickle" in text


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no path was given"):
        redline.memory([])
    with pytest.raises(InputError, match="Nor is there a memory snapshot"):
        redline.memory(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        redline.memory(tmp_path / "nothing")
    (tmp_path / "a.pickle").write_bytes(b"x")
    (tmp_path / "b.pickle").write_bytes(b"x")
    with pytest.raises(InputError, match=r"none of 2 files tells of memory; the first: .*a.pickle"):
        redline.memory(tmp_path)
    empty = MadeAllocator().write(tmp_path / "a.pickle")
    with pytest.raises(InputError, match="holds nothing"):
        redline.memory(empty)


def test_a_cut_file_says_so(tmp_path: Path) -> None:
    path = random_allocator(2, 500).write(tmp_path / "a.pickle")
    path.write_bytes(path.read_bytes()[:-5000])
    text = " ".join(redline.memory(path).text().split())
    assert "The file is cut: its history is not used" in text


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _failed(tmp_path / "a.pickle")
    assert main(["memory", str(path), "-q"]) == 0
    assert capsys.readouterr().out.startswith("Out of memory: 30.00 MiB")
    assert main(["memory", str(path), "--json", "-o", str(tmp_path / "a.json")]) == 0
    assert json.loads((tmp_path / "a.json").read_text())["kind"] == "memory"
    assert main(["memory", str(path), "-o", str(tmp_path / "a.md"), "--lang", "zh"]) == 0
    assert (tmp_path / "a.md").read_text().startswith("## OOM：")
    assert main(["memory", str(tmp_path / "nothing")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.needs_traces
def test_the_real_failure_in_one_screen() -> None:
    folder = Path(os.environ.get("REDLINE_TRACES", "/nonexistent"))
    files = sorted(folder.glob("a100_torchtitan_fsdp_rank*_memory_snapshot.pickle.gz"))
    if len(files) != 4:
        pytest.skip("a100_torchtitan_fsdp_rank0-3_memory_snapshot.pickle.gz are not in REDLINE_TRACES")
    text = redline.memory(files).text()
    words = " ".join(text.split())
    assert "Out of memory: 3.914 GiB asked at loss.py:21 cross_entropy_loss, 165.9 MiB more than" in words
    assert "logits in fp32: 8,192 tokens x 128,256 words x 4 bytes" in words
    assert "3.752 GiB at the driver. 806.6 MiB cached in 27 pieces, the largest 112.0 MiB: too small." in words
    assert "14.00 GiB 64 activations model.py:340 forward" in words
    assert len(text.splitlines()) <= 60


@pytest.mark.needs_traces
def test_a_real_trace_without_ranks_says_what_each_device_has_cached() -> None:
    file = Path(os.environ.get("REDLINE_TRACES", "/nonexistent")) / "h100_Qwen_Qwen1.5-0.5B-Chat.json.gz"
    if not file.exists():
        pytest.skip(f"{file.name} is not in REDLINE_TRACES")
    text = redline.memory(file).text()
    assert "Qwen1.5-0.5B-Chat.json.gz 0 1.945 GiB 2.449 GiB 516.2 MiB - -" in " ".join(text.split())
    assert "\nrank " not in text
