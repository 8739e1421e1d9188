"""Logs of engines: what is whole is read, the rest is counted, and what is no log is refused in a line."""

import json
from pathlib import Path
from random import Random

import pytest

from redline.errors import InputError
from redline.serving.read_logs import read_serving
from redline.serving.request_ledger import request_ledger
from tests.support.made_engine import MadeEngine


def test_a_folder_without_logs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log of a serving engine in it"):
        read_serving(tmp_path)


def test_an_engine_without_a_step_is_refused(tmp_path: Path) -> None:
    (tmp_path / "engine-1.jsonl").write_text('["request", 5, "a", 3, 4]\n', encoding="utf-8")
    with pytest.raises(InputError, match="took no step"):
        read_serving(tmp_path)


def test_logs_that_are_too_large_are_refused(tmp_path: Path) -> None:
    with (tmp_path / "engine-1.jsonl").open("wb") as file:
        file.truncate((4 << 30) + 1)
    with pytest.raises(InputError, match="larger than 4 GiB"):
        read_serving(tmp_path)


def test_cores_are_those_of_the_process_that_is_bound_to_none(tmp_path: Path) -> None:
    engine = MadeEngine(seed=1)
    engine.run(3)
    engine.engine += [["facts", {"cores": 8}], ["facts", {"cores": 2, "threads": 2}]]
    settings = read_serving(engine.write(tmp_path)).settings
    assert (settings["cores"], settings["threads"]) == (8, 2)


@pytest.mark.parametrize(
    "line",
    [
        "no JSON",
        "{}",
        "[]",
        '["unheard of", 1]',
        '["__class__"]',
        '["take", []]',
        '["step", 1, [1, 2], [], [], [], [0, 0, 0]]',
        '["step", 1, [1, 2, 3, 4, "x"], [], [], [], [0, 0, 0]]',
        '["step", 1, [1, 2, 3, 4, 1e999], [], [], [], [0, 0, 0]]',
        '["request"]',
        '["phase", ["x"], 1, 2]',
        '["phase", "x", 1, 99999999999999999999]',
        '["came", 18446744073709551616, 1, "a"]',
        '["request", 1, 7, 3, 4]',
        '["facts", "x"]',
        '["metrics", 1, {"a": "x"}]',
        '["step", 1, [1, 2, 3, 4, 5], [["a", 1, 2]], [], [], [0, 0, "x"]]',
        '["step", 1, [1, 2, 3, 4, 5], [["a", 99999999999999999999, 2]], [], [], [0, 0, 0]]',
    ],
)
def test_a_line_that_cannot_be_read_is_counted(line: str, tmp_path: Path) -> None:
    engine = MadeEngine(seed=1)
    engine.run(5)
    path = engine.write(tmp_path) / "engine-7.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    recording = read_serving(tmp_path)
    assert recording.dropped_lines == 1
    assert request_ledger(recording).left_out == 0


def test_damaged_logs_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """Bytes are changed, lines are lost, doubled and put elsewhere: it adds up, or is refused in a line."""
    engine = MadeEngine(seed=2)
    engine.run(12)
    path = engine.write(tmp_path) / "engine-7.jsonl"
    whole = path.read_bytes()
    read = 0
    for seed in range(150):
        path.write_bytes(_damaged(whole, Random(seed)))
        try:
            ledger = request_ledger(read_serving(tmp_path))
        except InputError:
            continue
        read += 1
        for times in (ledger.to_first_token, ledger.to_last_token):
            assert (times.amounts_ns.sum(axis=1) == times.length_ns).all()
    assert read > 100


def _damaged(whole: bytes, chance: Random) -> bytes:
    lines = whole.splitlines(keepends=True)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(lines))
        change = chance.choice(("byte", "lose", "double", "move"))
        if change == "byte":
            changed = bytearray(lines[at])
            changed[chance.randrange(len(changed))] = chance.choice(b'0123456789[]",x\n')
            lines[at] = bytes(changed)
        elif change == "double":
            lines.insert(at, lines[at])
        else:
            line = lines.pop(at)
            if change == "move":
                lines.insert(chance.randrange(len(lines)), line)
    return b"".join(lines)


def test_settings_of_the_engine_are_kept(tmp_path: Path) -> None:
    engine = MadeEngine(seed=1, sequences=6)
    engine.run(3)
    assert read_serving(engine.write(tmp_path)).settings["max_num_seqs"] == 6
    assert json.dumps(dict(read_serving(tmp_path).settings))
