"""A real vLLM server whose engine or whose client fails: it does what it would do without us."""

import http.client
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from bench.serving.vllm_server import PYTHON, RunningServer, make_model, server
from redline.serving.diagnose_serving import diagnose_serving

pytestmark = pytest.mark.skipif(PYTHON is None, reason="REDLINE_VLLM_PYTHON names no Python with vLLM")
_WITHIN_S = 120.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model") / "tiny")


def _answer(running: RunningServer, model: Path, tokens: int = 8) -> str:
    connection = http.client.HTTPConnection(urlsplit(running.address).netloc, timeout=_WITHIN_S)
    connection.request("POST", "/v1/completions", _asked(model, tokens), {"Content-Type": "application/json"})
    told = json.loads(connection.getresponse().read())
    connection.close()
    return str(told["choices"][0]["text"])


def _asked(model: Path, tokens: int, *, stream: bool = False) -> str:
    asked = {"model": str(model), "prompt": "w5 w6 w7", "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    return json.dumps({**asked, "stream": stream})


def _processes_of(running: RunningServer) -> dict[int, str]:
    """What the server has begun and has not ended, by title or words."""
    group, found = running.process.pid, {}  # it leads the session
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(folder.name)) == group:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                found[int(folder.name)] = b" ".join(words).decode(errors="replace").strip()
        except OSError:
            continue
    return found


def _engine_of(running: RunningServer) -> int:
    return next(process for process, title in _processes_of(running).items() if title.startswith("VLLM::EngineCore"))


def _ends(process: subprocess.Popen[bytes]) -> int:
    return process.wait(_WITHIN_S)


def test_an_engine_that_is_killed_ends_its_server_as_it_does_without_us(model: Path, tmp_path: Path) -> None:
    codes = []
    for run in (None, tmp_path / "run"):
        with server(model, run) as running:
            _answer(running, model)
            time.sleep(1.0)  # what a process that is killed loses at most has been written
            os.kill(_engine_of(running), signal.SIGKILL)
            codes.append(_ends(running.process))
    assert codes[0] == codes[1]
    found = diagnose_serving(tmp_path / "run")
    assert found is not None
    assert found.requests == 1


def test_a_client_that_hangs_holds_up_nobody(model: Path, tmp_path: Path) -> None:
    with server(model, tmp_path / "run") as running:
        hanging = http.client.HTTPConnection(urlsplit(running.address).netloc, timeout=_WITHIN_S)
        asked = _asked(model, 400, stream=True)
        hanging.request("POST", "/v1/completions", asked, {"Content-Type": "application/json"})
        assert hanging.getresponse().status == 200  # and nothing of the answer is read
        texts = {_answer(running, model) for _ in range(5)}
        hanging.close()
        time.sleep(1.0)
    assert len(texts) == 1
    found = diagnose_serving(tmp_path / "run")
    assert found is not None
    assert found.requests >= 5


def test_a_watcher_that_is_killed_leaves_what_a_killed_server_leaves(model: Path, tmp_path: Path) -> None:
    left = []
    for run in (None, tmp_path / "run"):
        with server(model, run) as running:
            _answer(running, model)
            os.kill(running.process.pid, signal.SIGKILL)
            try:
                time.sleep(5.0)  # the engine does not look whether its server lives: it stays, watched or not
                left.append([title for title in _processes_of(running).values() if title])  # the dead have none
            finally:
                os.killpg(running.process.pid, signal.SIGKILL)
    alone, watched = left
    assert len(alone) == len(watched), left
    assert not any("api_server" in title for title in watched)
