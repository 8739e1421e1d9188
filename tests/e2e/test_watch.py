"""`redline watch` on real digests: simulated windows on files, and what is said of them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from redline.cli import main
from tests.support.command_line import ROOT
from tests.support.made_windows import (
    BEGUN_S,
    EVERY_S,
    HEALTHY,
    SLOW_INPUT,
    SLOW_LINK,
    SLOW_NODE,
    SLOW_RANK,
    write_windows,
)

LEARNED = 26


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job in which a rank is slow for a while, then one is silent."""
    folder = tmp_path_factory.mktemp("run")
    write_windows(folder / "digests", [HEALTHY] * LEARNED)
    write_windows(folder / "digests", [SLOW_RANK] * 4, first=LEARNED + 1)
    write_windows(folder / "digests", [HEALTHY], first=LEARNED + 5, without=(3,))
    return folder


def watched(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["watch", str(folder), "--once", "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def alarms(folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, tuple[str, dict[str, Any]]]:
    windows = watched(folder, capsys)
    return {alarm["kind"]: (window["window"], alarm) for window in windows for alarm in window["alarms"]}


def test_a_slow_rank_and_a_silent_one_in_text(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(run), "--once"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert not err
    assert lines[0].startswith("window-1: step 11.")
    assert lines[0].endswith("learning: 23 more windows")
    assert "  usual windows are known; a step that becomes" in out
    at = lines.index(next(line for line in lines if line.startswith("window-29: ")))
    assert lines[at + 1].startswith("  step slower: +2")
    assert lines[at + 2].startswith("  rank 1 on synthetic-node-00000 is late: +2")
    assert lines[at + 2].endswith("; since window-27")
    assert lines[-2].endswith("3 of 4 ranks")
    assert lines[-1] == "  rank 3 is silent: no digest"
    assert sum(line.startswith("  ") for line in lines) == 4


def test_the_same_in_json(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    windows = watched(run, capsys)
    assert [window["window"] for window in windows] == [f"window-{number}" for number in range(1, LEARNED + 6)]
    late = next(alarm for alarm in windows[LEARNED + 2]["alarms"] if alarm["kind"] == "rank_late")
    assert (late["ranks"], late["since"], late["is_drift"]) == ([1], "window-27", False)
    assert windows[LEARNED + 2]["late"][0]["rank"] == 1
    assert windows[LEARNED + 2]["findings"][0]["code"] == "RL-N13"
    assert sum(windows[0]["accounts_ns"].values()) == pytest.approx(windows[0]["step_ns"], rel=0.1)
    assert windows[-1]["silent"] == [3]
    documented = (ROOT / "docs" / "reference" / "watch.md").read_text()
    assert all(f"`{key}`" in documented for key in windows[0])


def test_the_same_in_chinese(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(run), "--once", "--lang", "zh"]) == 0
    out = capsys.readouterr().out
    assert "rank 3 失联" in out
    assert "late" not in out


@pytest.mark.parametrize(
    ("changed", "kind", "shown"),
    [
        (SLOW_NODE, "node_late", {"host": "synthetic-node-00001", "ranks": [2, 3]}),
        (SLOW_INPUT, "input_grew", {"ranks": []}),
        (SLOW_LINK, "communication_grew", {"ranks": []}),
    ],
)
def test_other_changes(
    changed: Any, kind: str, shown: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_windows(tmp_path, [HEALTHY] * LEARNED)
    write_windows(tmp_path, [changed] * 3, first=LEARNED + 1)
    said = alarms(tmp_path, capsys)
    assert set(said) == {kind, "step_slower"}
    window, alarm = said[kind]
    assert window == f"window-{LEARNED + 3}"
    assert {name: alarm[name] for name in shown} == shown


def test_it_follows_windows_as_they_come(tmp_path: Path) -> None:
    now = int(time.time())
    folder = tmp_path / "digests"
    write_windows(folder, [HEALTHY])
    starting = (  # Ctrl-C reaches it also where whoever started pytest ignores it
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from redline.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", starting, "watch", str(tmp_path), "--poll", "0.05", "--json"]
    prom = tmp_path / "job.prom"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    asked = [*command, "--export", f"openmetrics={prom}"]
    with subprocess.Popen(asked, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert json.loads(process.stdout.readline())["window"] == "window-1"
            write_windows(tmp_path / "later", [HEALTHY], first=2)
            (folder / "window-2").mkdir()
            for path in sorted((tmp_path / "later" / "window-2").iterdir()):  # one after the other
                os.utime(path, (now, now))
                path.rename(folder / "window-2" / path.name)
            second = json.loads(process.stdout.readline())
            assert (second["window"], second["ranks"], second["silent"]) == ("window-2", 4, [])
            until_s = time.monotonic() + 300
            while f'redline_windows{{run="{tmp_path.name}"}} 2' not in prom.read_text():
                assert time.monotonic() < until_s
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            assert process.wait(300) == 130
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["watch", "no-such-folder", "--once"], "no such folder; give the folder of a run, or of its digests"),
        (["watch", "."], "argument --grace: 'x' is not a number of seconds above 0"),
        (["watch", ".", "--once", "--export", "other=x"], "there is no export 'other'"),
    ],
)
def test_what_it_refuses(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = ["--grace", "x"] if "--grace" in message else []
    assert main([*arguments, *wrong]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_without_windows_says_who_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert capsys.readouterr() == ("", "no window has a digest yet; `redline run --digests` writes them\n")


def test_a_window_of_damaged_digests_is_said_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_windows(tmp_path, [HEALTHY, HEALTHY])
    for path in (tmp_path / "window-1").iterdir():
        path.write_bytes(b"damaged")
        os.utime(path, (BEGUN_S + EVERY_S,) * 2)
    assert main(["watch", str(tmp_path), "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("window-1: no digest could be read: ")
    assert lines[1].startswith("window-2: step")
