"""`redline --completion SHELL`: the script with which a shell completes the words of a command."""

from __future__ import annotations

import sys

from redline.cli.output import point_to, show
from redline.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = {  # and where the shell looks for such scripts
    "bash": "~/.local/share/bash-completion/completions/redline",
    "zsh": "~/.zfunc/_redline",  # any folder of fpath
    "fish": "~/.config/fish/completions/redline.fish",
}


def run(words: Sequence[str]) -> int:
    if len(words) != 1 or words[0] not in SHELLS:
        raise UsageError(f"--completion takes one of {', '.join(SHELLS)}, such as: redline --completion bash")
    shell = words[0]
    show(script_of(shell))
    if sys.stdout.isatty():
        point_to(f"redline --completion {shell} > {SHELLS[shell]}")
    return 0


def script_of(shell: str) -> str:
    from importlib.resources import files

    return (files("redline.cli") / "completions" / f"redline.{shell}").read_text(encoding="utf-8")
