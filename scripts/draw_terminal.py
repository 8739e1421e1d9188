"""Draw what a command prints, as a terminal in SVG: `python scripts/draw_terminal.py OUT.svg TITLE redline ...`.

Standard output alone is drawn. A test compares the pictures in docs/images with what is printed today.
"""

import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

LINE_PX, CHARACTER_PX, MARGIN_PX, TOP_PX = 18, 7.85, 20, 54
STYLE = """\
text { font: 13px ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; fill: #d4d8de; white-space: pre; }
.title { font: 13px system-ui, sans-serif; fill: #9aa3ad; }
.prompt { fill: #ffffff; font-weight: bold; }"""


def drawn(title: str, command: str, lines: list[str]) -> str:
    width = round(2 * MARGIN_PX + CHARACTER_PX * max(map(len, [title, f"$ {command}", *lines])))
    height = TOP_PX + LINE_PX * len(lines) + MARGIN_PX
    lights = "".join(f'<circle cx="{x}" cy="18" r="5" fill="#4a525b"/>' for x in (20, 36, 52))
    rows = "\n".join(
        f'<text x="{MARGIN_PX}" y="{TOP_PX + LINE_PX * number}">{escape(line)}</text>'
        for number, line in enumerate(lines, start=1)
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>{escape(title)}</title>
<style>
{STYLE}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#1b1f24"/>
{lights}
<text class="title" x="76" y="23">{escape(title)}</text>
<g xml:space="preserve">
<text x="{MARGIN_PX}" y="{TOP_PX}" class="prompt">$ {escape(command)}</text>
{rows}
</g>
</svg>
"""


def main() -> None:
    target, title, *command = sys.argv[1:]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = " ".join(command)
    Path(target).write_text(drawn(title, shown, printed.rstrip("\n").split("\n")))


if __name__ == "__main__":
    main()
