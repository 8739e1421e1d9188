"""Shells complete the words of a command, from scripts that are as new as the options."""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from redline.cli.completion import SHELLS, script_of
from tests.support.on_terminal import without_colours

SECONDS = 60.0  # only guards against a hang
READY = "ready> "
CASES = [
    ("redline dia", "redline diagnose "),
    ("redline diagnose --kern", "redline diagnose --kernels "),
    ("redline plan tr", "redline plan train "),
    ("redline plan train --accept", "redline plan train --accept-chance "),
    ("redline diagnose --format m", "redline diagnose --format md "),
    ("redline explain RL-H0", "redline explain RL-H0"),  # there are several
    ("redline explain channels", "redline explain channels-last "),
    ("redline inspect a_tra", "redline inspect a_trace.json "),
]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_command_line_prints_the_script(shell: str) -> None:
    command = [sys.executable, "-m", "redline", "--completion", shell]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS)
    assert (done.stdout, done.stderr) == (script_of(shell), "")


@pytest.mark.parametrize("words", [[], ["tcsh"], ["bash", "zsh"]])
def test_another_shell_is_refused(words: list[str]) -> None:
    command = [sys.executable, "-m", "redline", "--completion", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("redline: --completion takes one of bash, zsh, fish, such as: redline --completion bash\n")


class Typed:
    """A shell on a terminal of its own, and what it has shown."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def shows(self, text: str) -> bool:
        until_s = time.monotonic() + SECONDS
        while text not in self.shown and time.monotonic() < until_s:
            if select.select([self._master], [], [], 0.5)[0]:
                self.shown += without_colours(os.read(self._master, 4096).decode(errors="replace"))
        return text in self.shown


@contextmanager
def started(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[Typed]:
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, {**os.environ, "TERM": "xterm", **environment})
    try:
        yield Typed(master)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(master)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "a_trace.json").write_text("{}")
    (tmp_path / "_redline").write_text(script_of("zsh"))
    (tmp_path / "redline.bash").write_text(f"{script_of('bash')}\nPS1='{READY}'\n")
    lines = [f"fpath=({tmp_path} $fpath)", "autoload -Uz compinit", "compinit -u -D", f"PROMPT='{READY}'"]
    (tmp_path / ".zshrc").write_text("\n".join([*lines, "unsetopt PROMPT_SP", ""]))
    return tmp_path


COMMANDS = {
    "bash": ["bash", "--noprofile", "--rcfile", "redline.bash", "-i"],
    "zsh": ["zsh", "--no-globalrcs", "-i"],
}


@pytest.mark.parametrize("shell", COMMANDS)
def test_tab_completes(shell: str, home: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    environment = {"HOME": str(home), "ZDOTDIR": str(home), "INPUTRC": "/dev/null"}
    for typed, completed in CASES:
        with started(COMMANDS[shell], home, environment) as terminal:
            assert terminal.shows(READY), terminal.shown
            terminal.type(f"{typed}\t")
            assert terminal.shows(completed), (typed, terminal.shown)


def test_fish_completes(home: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    script = home / "redline.fish"
    script.write_text(script_of("fish"))
    for typed, completed in CASES:
        code = f"source {script}; cd {home}; complete -C '{typed}'"
        command = ["fish", "--no-config", "-c", code]
        known = {**os.environ, "HOME": str(home), "TERM": "xterm"}
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=known, timeout=SECONDS)
        offered = [re.split(r"\t", line)[0] for line in done.stdout.splitlines()]
        last = completed.split()[-1]
        assert offered == [last] if completed.endswith(" ") else last in offered[0], (typed, offered)
