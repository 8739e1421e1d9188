"""Bring the table of docs/how-to/worked-plans.md up to date: what its commands say, in one line each.

    python -m scripts.renew_worked_plans

The first command under each heading that plans a job with a price is run with `--json`. A test holds the table against
them.
"""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from redline.cli import main as run_command
from redline.report.plan.amounts import count

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "worked-plans.md"
BLOCK = re.compile(r"(<!-- table: worked -->\n).*?(<!-- end -->)", re.DOTALL)
SECTION = re.compile(r"^## (?P<title>.*?)$(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ redline (plan (?:train|serve) .*--price .*)$", re.MULTILINE)
HEAD = ("plan", "chosen", "what it says")


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Title and words of each worked plan."""
    for section in SECTION.finditer(page):
        found = COMMAND.search(section["text"])
        if found:
            yield section["title"], shlex.split(found[1])


def record_of(words: list[str]) -> dict[str, Any]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run_command([*words, "--json"]) == 0, words
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def row(title: str, record: Mapping[str, Any]) -> tuple[str, str, str]:
    best = record["best"]
    if record["kind"] == "serving-plan":
        chosen = f"tp {best['tp']} in {best['dtype']}, {best['concurrency']} in flight"
        said = (
            f"{1e3 * best['tpot_s']['value']:.0f} ms per token, {best['tokens_per_s_device']:.0f} tokens/s per GPU, "
            f"{best['cost_per_million']:.2f} for a million tokens"
        )
        return title, chosen, said
    layout, job = best["layout"], record["job"]
    split = " x ".join(f"{name} {layout[name]}" for name in ("dp", "tp", "pp", "cp") if layout[name] > 1)
    chosen = split + (f", ep {layout['ep']}" if layout["ep"] > 1 else "") + f", ZeRO-{layout['zero']}"
    said = (
        f"a step of {best['step_s']:.1f} s ({best['step_low_s']:.1f} to {best['step_high_s']:.1f}), "
        f"MFU {100 * best['mfu']:.0f} %, {best['peak_bytes'] / 1e9:.0f} GB; {job['days']['likely']:.0f} days "
        f"({job['days']['low']:.0f} to {job['days']['high']:.0f}), "
        f"{count(job['device_hours']['likely'])} GPU-hours, {count(job['money']['likely'])} of money"
    )
    return title, chosen, said


def rows(page: str) -> list[tuple[str, str, str]]:
    return [row(title, record_of(words)) for title, words in commands(page)]


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    lines = [HEAD, ("---",) * 3, *rows(page)]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    PAGE.write_text(BLOCK.sub(lambda block: f"{block[1]}\n{table}\n\n{block[2]}", page), encoding="utf-8")


if __name__ == "__main__":
    main()
