"""Bring docs/explanation/planner-accuracy.md up to date: its tables, and pictures of predicted against measured.

    python -m scripts.draw_accuracy

Run it after the constants of plans changed, then read the diff and look at the pictures in a browser. On the page, a
table stands between `<!-- table: NAME -->` and `<!-- end -->`; all else is written by hand. A test holds the page
against what `redline plan validate` says.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from redline.plan.accuracy import accuracy_of
from redline.report.document import ReportTable
from redline.report.plan import validation_report as tables

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "explanation" / "planner-accuracy.md"
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

# --- tables -----------------------------------------------------------------------------------------------------------


def written(shown: ReportTable) -> str:
    """A table as Markdown, and what is said under it."""
    rows = [shown.head, ["---"] * len(shown.head), *shown.rows]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    notes = [f"{note[0].upper()}{note[1:]}." for note in shown.notes]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def renewed(page: str, shown: Mapping[str, ReportTable]) -> str:
    """The page with its tables as they are now."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{written(shown[block[2]])}\n{block[3]}", page)


# --- pictures ---------------------------------------------------------------------------------------------------------

Cloud = Mapping[str, Any]
"""Measured and predicted figures of runs that belong together."""
SIDE, LEFT, TOP, BOTTOM, RIGHT = 380.0, 62.0, 40.0, 48.0, 18.0
WITHIN = 1.25
FAMILIES = {
    "nanotron": ("#d9480f", ("nanotron",)),
    "Megatron-DeepSpeed": ("#1c7ed6", ("megatron-deepspeed",)),
    "built on Megatron": ("#2b8a3e", ("megatron-core", "megatron-bridge", "megatron-lm", "bigscience")),
}
OTHERS = ("other software", "#9c36b5")
STYLE = """\
text { font: 12px system-ui, sans-serif; fill: #343a40; }
.title { font-weight: bold; }
.small { font-size: 11px; }"""


@dataclass(frozen=True)
class Axis:
    """Both axes of a picture: logarithmic, and the same."""

    low: float
    high: float
    ticks: Sequence[float]
    unit: str
    scale: float = 1.0
    """Values are divided by it."""

    def at(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """In pixels from the lower left corner."""
        span = np.log(self.high / self.low)
        return np.asarray(SIDE * np.log(np.clip(values, self.low, self.high) / self.low) / span)


STEP = Axis(0.05, 1000.0, (0.1, 1, 10, 100, 1000), "s")
MEMORY = Axis(0.8, 200.0, (1, 4, 16, 64), "GB", 1e9)


def picture(title: str, points: Sequence[Cloud], axis: Axis) -> str:
    """Predicted against measured: on the line they are equal, in the grey band within 25 %."""
    width, height = LEFT + SIDE + RIGHT, TOP + SIDE + BOTTOM
    size = f"{width:.0f} {height:.0f}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" width="{width:.0f}" height="{height:.0f}" '
            'role="img">',
            f"<title>{title}</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#ffffff"/>',
            f'<text class="title" x="{LEFT}" y="22">{title}</text>',
            *_frame(axis),
            *_clouds(points, axis),
            "</svg>\n",
        ]
    )


def _frame(axis: Axis) -> list[str]:
    corner, end = TOP + SIDE, LEFT + SIDE
    off = SIDE * float(np.log(WITHIN) / np.log(axis.high / axis.low))
    band = [(LEFT, corner), (LEFT, corner - off), (end - off, TOP), (end, TOP), (end, TOP + off), (LEFT + off, corner)]
    outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in band)
    parts = [
        f'<polygon points="{outline}" fill="#f1f3f5"/>',
        f'<path d="M{LEFT} {corner}L{end} {TOP}" stroke="#868e96"/>',
        f'<path d="M{LEFT} {TOP}V{corner}H{end}" fill="none" stroke="#ced4da"/>',
        f'<text x="{LEFT + SIDE / 2}" y="{corner + 38}" text-anchor="middle">measured</text>',
        f'<text x="{-TOP - SIDE / 2}" y="16" text-anchor="middle" transform="rotate(-90)">predicted</text>',
    ]
    for tick in axis.ticks:
        place = float(axis.at(np.array(tick)))
        label = f"{tick:,g} {axis.unit}"
        parts += [
            f'<text class="small" x="{LEFT + place:.1f}" y="{corner + 18}" text-anchor="middle">{label}</text>',
            f'<text class="small" x="{LEFT - 6}" y="{corner - place + 4:.1f}" text-anchor="end">{label}</text>',
        ]
    return parts


def _clouds(points: Sequence[Cloud], axis: Axis) -> list[str]:
    """A cloud of each family of software, and a legend."""
    clouds: dict[tuple[str, str], list[Cloud]] = {}
    for one in points:
        family = next(((name, colour) for name, (colour, stacks) in FAMILIES.items() if one["name"] in stacks), OTHERS)
        clouds.setdefault(family, []).append(one)
    parts = []
    order = [*((name, colour) for name, (colour, _) in FAMILIES.items()), OTHERS]
    for number, family in enumerate(family for family in order if family in clouds):
        name, colour = family
        dots = "".join(_dots(one, axis) for one in clouds[family])
        runs = sum(len(one["measured"]) for one in clouds[family])
        y = TOP + 16 + 18 * number
        parts += [
            f'<path d="{dots}" stroke="{colour}" stroke-width="3.4" stroke-linecap="round" stroke-opacity="0.45"/>',
            f'<circle cx="{LEFT + 14}" cy="{y - 4}" r="4" fill="{colour}"/>',
            f'<text x="{LEFT + 24}" y="{y}">{name}: {runs:,}</text>',
        ]
    return parts


def _dots(one: Cloud, axis: Axis) -> str:
    """Lines of no length, whose round ends are dots: many points in few bytes."""
    x, y = (
        LEFT + axis.at(np.array(one["measured"]) / axis.scale),
        TOP + SIDE - axis.at(np.array(one["predicted"]) / axis.scale),
    )
    return "".join(f"M{across:.1f} {down:.1f}h0" for across, down in zip(x, y, strict=True))


def pictures() -> dict[str, str]:
    """By file name."""
    found = accuracy_of("validation")
    return {
        "accuracy-step.svg": picture("step time of runs that nothing was fitted to", found["step_points"], STEP),
        "accuracy-memory.svg": picture(
            "peak of GPU memory of runs that nothing was fitted to", found["memory_points"], MEMORY
        ),
    }


def main() -> None:
    shown = tables.every(accuracy_of("validation"), brief=True)
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), shown), encoding="utf-8")
    for name, drawn in pictures().items():
        (DOCS / "images" / name).write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main()
