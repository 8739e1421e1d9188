"""`redline mcp` as a client sees it: a real process over stdin and stdout, driven by the SDK's own client."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from redline.cli import main
from redline.mcp.bounded_answer import MOST_BYTES
from redline.mcp.tools import AGENT_TOOLS
from redline.report.terminal import is_hidden
from tests.support.command_line import REDLINE, ROOT, environment, run_redline
from tests.support.made_hostile import INJECTION, folders_with_traps, hostile_trace

RECORDED = ROOT / "tests" / "data" / "recorded"
SECONDS = 300.0  # only guards against a hang
TRACE = "plain_loop.pt.trace.json.gz"
QUESTIONS: list[tuple[str, dict[str, Any]]] = [
    ("inspect", {"paths": ["."]}),
    ("diagnose", {"paths": ["slow_loader_rank0.pt.trace.json.gz", "slow_loader_rank1.pt.trace.json.gz"]}),
    ("explain", {"topic": "RL-D01"}),
    ("compare", {"before": "ddp_rank0.pt.trace.json.gz", "after": "slow_loader_rank0.pt.trace.json.gz"}),
    (
        "plan",
        {"kind": "serve", "model": "llama-3.1-8b", "machine": "H100-SXM5-80GB", "prompt": 100, "output_tokens": 10},
    ),
    ("hardware", {"name": "H100-SXM5-80GB"}),
]


def talk(allowed: Path, conversation: Callable[[Any], Awaitable[None]]) -> str:
    """A conversation with a server of its own; what that printed on stderr."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed: pip install 'redline-perf[mcp]'")
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    told = allowed.parent / f"{allowed.name}-stderr.txt" if os.access(allowed.parent, os.W_OK) else Path(os.devnull)
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "redline", "mcp", "--allow", str(allowed)], env=environment()
    )

    async def whole() -> None:
        with told.open("w") as stderr:
            async with Client(stdio_client(command, errlog=stderr)) as client:
                await conversation(client)

    asyncio.run(asyncio.wait_for(whole(), SECONDS))
    return told.read_text()


def text_of(result: Any) -> str:
    (content,) = result.content
    return str(content.text)


@pytest.fixture(name="recorded")
def _recorded(tmp_path: Path) -> Path:
    allowed = tmp_path / "recorded"
    allowed.mkdir()
    for trace in RECORDED.glob("*.gz"):
        (allowed / trace.name).write_bytes(trace.read_bytes())
    return allowed


def test_all_tools_answer_recorded_traces(recorded: Path) -> None:
    async def conversation(client: Any) -> None:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == list(AGENT_TOOLS)
        assert all(tool.annotations.read_only_hint for tool in tools)
        for name, arguments in QUESTIONS:
            result = await client.call_tool(name, arguments)
            text = text_of(result)
            assert not result.is_error, text
            assert len(text.encode()) <= MOST_BYTES
            record = json.loads(text)
            assert record["tool"] == name
            assert record["verify"].startswith("redline ")

    assert talk(recorded, conversation) == ""


def test_hostile_paths_and_names(tmp_path: Path) -> None:
    trace = hostile_trace(tmp_path / "made.json.gz")
    allowed, traps = folders_with_traps(tmp_path, trace)
    assert len(traps) >= 25

    async def conversation(client: Any) -> None:
        for trap in traps:
            result = await client.call_tool("inspect", {"paths": [trap]})
            text = text_of(result)
            assert result.is_error, (trap, text)
            assert "\n" not in text
            assert not any(map(is_hidden, text))
        text = text_of(await client.call_tool("diagnose", {"paths": ["rank0.json.gz"], "table": "kernels"}))
        assert not any(map(is_hidden, text))
        assert INJECTION in text
        assert INJECTION not in re.sub(r'\{"recorded":"(?:[^"\\]|\\.)*"\}', "", text)

    talk(allowed, conversation)


def test_nothing_beside_the_allowed_folder_is_read_and_nothing_is_written(tmp_path: Path) -> None:
    """Also not above: there lies the record of a run, which `diagnose` would read."""
    window = tmp_path / "run" / "window-1"
    window.mkdir(parents=True)
    (window / "rank0.json.gz").write_bytes((RECORDED / TRACE).read_bytes())
    os.mkfifo(tmp_path / "run" / "engine-0.jsonl")
    (tmp_path / "run" / "run.json").write_text("{")
    before = sorted(tmp_path.rglob("*"))

    async def conversation(client: Any) -> None:
        result = await client.call_tool("diagnose", {"paths": ["."]})
        assert not result.is_error, text_of(result)

    talk(window, conversation)
    assert sorted(path for path in tmp_path.rglob("*") if "stderr" not in path.name) == before


def test_200_calls_leave_memory_and_files_as_they_were(recorded: Path) -> None:
    async def conversation(client: Any) -> None:
        server = _child_of_this_process()
        calls = [
            ("explain", {"topic": "RL-H01"}),
            ("hardware", {"name": "A100"}),
            ("inspect", {"paths": [TRACE]}),
            ("inspect", {"paths": ["../"]}),
        ]
        for name, arguments in calls * 10:
            await client.call_tool(name, arguments)
        first = _resident_bytes(server), _descriptors(server)
        for name, arguments in calls * 40:
            await client.call_tool(name, arguments)
        until_s = time.monotonic() + 30
        while _descriptors(server) > first[1] and time.monotonic() < until_s:  # it may still be at the last call
            await asyncio.sleep(0.1)
        assert _descriptors(server) <= first[1]
        assert _resident_bytes(server) < first[0] + 16_000_000  # 100 KB a call

    talk(recorded, conversation)


def _child_of_this_process() -> int:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
            command = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(words[1]) == os.getpid() and b"redline\0mcp" in command:
            return int(stat.parent.name)
    raise AssertionError("no server")


def _resident_bytes(process: int) -> int:
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _descriptors(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


# --- without the SDK's client -----------------------------------------------------------------------------------------

HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@contextmanager
def greeted(allowed: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server that has answered once, ended at the latest when the test is over."""
    pytest.importorskip("mcp", reason="the extra mcp is not installed: pip install 'redline-perf[mcp]'")
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*REDLINE, "mcp", "--allow", str(allowed)], stdin=pipe, stdout=pipe, stderr=pipe, env=environment()
    )
    try:
        say(process, HELLO)
        assert heard(process)["result"]["serverInfo"]["name"] == "redline"
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: subprocess.Popen[bytes], message: object) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    record: dict[str, Any] = json.loads(process.stdout.readline())
    return record


def test_a_client_that_leaves_ends_it(recorded: Path) -> None:
    with greeted(recorded) as process:
        call = {"name": "diagnose", "arguments": {"paths": ["."]}}
        say(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call})
        rest, told = process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        assert told == b""
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())  # the protocol and nothing else


def test_a_client_that_no_longer_reads_ends_it(recorded: Path) -> None:
    with greeted(recorded) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        say(process, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert process.wait(SECONDS) == 0
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it(recorded: Path, number: int, code: int) -> None:
    with greeted(recorded) as process:
        assert process.stderr is not None
        process.send_signal(number)
        assert process.wait(SECONDS) == code
        assert process.stderr.read() == (b"redline: interrupted\n" if number == signal.SIGINT else b"")


def test_what_is_no_message_does_not_end_it(recorded: Path) -> None:
    with greeted(recorded) as process:
        assert process.stdin is not None
        process.stdin.write(b"\xff\x00 no json\n{}\n[1]\n" + b"x" * 100_000 + b"\n")
        say(process, {"jsonrpc": "2.0", "id": 7, "method": "ping"})
        answers = iter(lambda: heard(process), None)
        assert next(answer for answer in answers if answer.get("id") == 7)["result"] is not None


def test_without_the_sdk_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert main(["mcp"]) == 2
    assert capsys.readouterr().err == (
        "redline: mcp needs the official SDK, mcp 2.0 or later: pip install 'redline-perf[mcp]'\n"
    )


def test_folders_that_cannot_be_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed: pip install 'redline-perf[mcp]'")
    assert main(["mcp", "--allow", "/no/such/folder"]) == 2
    assert capsys.readouterr().err == "redline: /no/such/folder: no such folder; --allow takes one that exists\n"
    done = run_redline("mcp", "--allow", "/")
    assert (done.returncode, done.stdout) == (2, "")
    assert "the whole disk" in done.stderr


def test_help_imports_neither_the_sdk_nor_the_tools() -> None:
    code = (
        "import sys; from redline.cli import main; main(['mcp', '--help']); main(['--help']);"
        "sys.exit(any(name.startswith(('mcp', 'anyio', 'pydantic', 'redline.mcp')) for name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, timeout=SECONDS, env=environment()
    )
    assert done.returncode == 0
