"""The drawn step: its rectangles with their colours, what the host did in its gaps, and what of it is not drawn."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from redline.ledger.accounts import ACCOUNTS
from redline.ledger.rank.host_activity import HostActivity
from redline.ledger.rank.step_view import Gap, Piece, StepView, StripLane
from redline.report.diagnose import account_messages
from redline.report.diagnose.loss_messages import NAME_LIMIT, doing, site
from redline.report.diagnose.tables import unwrapped
from redline.report.html.scale import scaled, time_unit
from redline.report.language import _, listed, ngettext, sentences
from redline.report.text_parts import clipped, percent
from redline.timeline.timeline import NONE
from redline.units import format_ns

DEVICE_HEIGHT, LANE_HEIGHT, CAPTION_HEIGHT = 2.6, 0.9, 0.75  # in rows
_MARK_HEIGHT = 0.8  # for the numbers of the gaps
_MARKS_APART = 0.045  # of the step: nearer ones are put above each other
_NAME_LIMIT = 90

# What the colour of each kind of piece is called in style.css.
_COLOURS = {
    "compute": "compute",
    "communication": "transfer",
    "copy": "copy",
    "region": "region",
    "loader": "input",
    "operator": "operator",
    "call": "call",
    "blocked": "sync",
}


class _Texts:
    """Every text once."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.index.setdefault(text, len(self.index))


@dataclass(frozen=True, kw_only=True)
class _Box:
    colour: str
    name: str
    start_ns: int
    end_ns: int
    top: float
    height: float
    hover: str
    label: str


def step_view_figure(view: StepView) -> dict[str, Any]:
    """Rectangles by colour with captions and numbers; y grows downwards, in rows. Texts are shown by their index."""
    unit, unit_ns = time_unit(view.length_ns)
    marks, top = _marks(view, unit_ns)
    captions = [{"text": _("device, by account"), "y": top}]
    boxes = list(_device(view, top + CAPTION_HEIGHT))
    y = top + CAPTION_HEIGHT + DEVICE_HEIGHT
    for lane in view.lanes:
        captions.append({"text": _lane_name(lane, view.lanes), "y": y})
        levels = {level: number for number, level in enumerate(sorted({piece.level for piece in lane.pieces}))}
        boxes += (_piece(piece, y + CAPTION_HEIGHT + levels[piece.level] * LANE_HEIGHT) for piece in lane.pieces)
        y += CAPTION_HEIGHT + LANE_HEIGHT * len(levels)
    texts = _Texts()
    drawn = list(_by_colour(boxes, unit_ns, texts))
    return {
        "unit": unit,
        "length": scaled([view.length_ns], unit_ns)[0],
        "height": round(y, 2),
        "boxes": drawn,
        "captions": captions,
        "marks": marks,
        "texts": list(texts.index),
    }


def _device(view: StepView, top: float) -> Iterator[_Box]:
    for band in view.bands:
        whole = _("{account}: {share} of {time}").format(
            account=account_messages.name(band.account),
            share=percent(band.high - band.low),
            time=format_ns(band.end_ns - band.start_ns),
        )
        yield _Box(
            colour=account_messages.colour(band.account),
            name=account_messages.name(band.account),
            start_ns=band.start_ns,
            end_ns=band.end_ns,
            top=top + DEVICE_HEIGHT * (1 - band.high),
            height=DEVICE_HEIGHT * (band.high - band.low),
            hover=whole,
            label="",
        )


def _piece(piece: Piece, top: float) -> _Box:
    time = format_ns(piece.end_ns - piece.start_ns)
    if piece.count == 1:
        hover = f"{clipped(piece.name, _NAME_LIMIT)}\n{time}"
    else:
        hover = _("{count:,} spans too short to draw, within {time}").format(count=piece.count, time=time)
    return _Box(
        colour=_COLOURS[piece.kind],
        name=_kind_name(piece.kind),
        start_ns=piece.start_ns,
        end_ns=piece.end_ns,
        top=top,
        height=LANE_HEIGHT * 0.86,
        hover=hover,
        label=clipped(_short(piece), _NAME_LIMIT) if piece.count == 1 else "",
    )


def _short(piece: Piece) -> str:
    """A kernel by its last word, as there is little room: cutlass::gemm::Kernel<float, ...> is Kernel."""
    if piece.kind not in ("compute", "communication"):
        return piece.name
    return re.split(r"[<(]", unwrapped(piece.name), maxsplit=1)[0].rpartition("::")[2] or piece.name


def _kind_name(kind: str) -> str:
    return {
        "compute": _("kernel"),
        "communication": _("communication"),
        "copy": _("copy or set"),
        "region": _("region"),
        "loader": _("data loader"),
        "operator": _("operator"),
        "call": _("runtime call"),
        "blocked": _("call that waits for the device"),
    }[kind]


def _by_colour(boxes: Sequence[_Box], unit_ns: float, texts: _Texts) -> Iterator[dict[str, Any]]:
    groups: dict[tuple[str, str], list[_Box]] = {}
    for box in boxes:
        groups.setdefault((box.colour, box.name), []).append(box)
    order = [*map(account_messages.colour, ACCOUNTS), *_COLOURS.values()]
    for (colour, name), group in sorted(groups.items(), key=lambda item: order.index(item[0][0])):
        yield {
            "colour": colour,
            "name": name,
            "start": scaled([box.start_ns for box in group], unit_ns),
            "length": scaled([box.end_ns - box.start_ns for box in group], unit_ns),
            "top": [round(box.top, 3) for box in group],
            "height": [round(box.height, 3) for box in group],
            "hover": [texts.of(box.hover) for box in group],
            "label": [texts.of(box.label) if box.label else NONE for box in group],
        }


def _lane_name(lane: StripLane, lanes: Sequence[StripLane]) -> str:
    if lane.device == NONE:
        return clipped(lane.label or _("thread {thread}").format(thread=lane.thread), _NAME_LIMIT)
    name = clipped(lane.label or _("stream {stream}").format(stream=lane.stream), _NAME_LIMIT)
    several = len({strip_lane.device for strip_lane in lanes if strip_lane.device != NONE}) > 1
    return _("{name} of device {device}").format(name=name, device=lane.device) if several else name


def _marks(view: StepView, unit_ns: float) -> tuple[list[dict[str, Any]], float]:
    """Numbers of the gaps, and where the device begins below them."""
    marks: list[dict[str, Any]] = []
    reached: list[float] = []  # for each row of numbers where the last one is
    rows: list[int] = []
    for gap in view.gaps:
        middle = (gap.start_ns + gap.end_ns) / 2 / view.length_ns
        row = next((row for row, last in enumerate(reached) if middle - last >= _MARKS_APART), len(reached))
        reached[row : row + 1] = [middle]
        rows.append(row)
    top = _MARK_HEIGHT * len(reached)
    for number, (gap, row) in enumerate(zip(view.gaps, rows, strict=True), start=1):
        x = scaled([(gap.start_ns + gap.end_ns) / 2], unit_ns)[0]
        marks.append({"number": number, "x": x, "y": top - _MARK_HEIGHT * (row + 0.5), "text": gap_sentence(gap)})
    return marks, top


# --- in words ---------------------------------------------------------------------------------------------------------


def step_view_texts(view: StepView) -> dict[str, Any]:
    """Which step it is, and what its longest gaps are."""
    gaps_ns = sum(gap.end_ns - gap.start_ns for gap in view.gaps)
    which = _("Step {number} of rank {rank}, {length}: the median step of the most representative rank.").format(
        number=view.number, rank=view.rank, length=format_ns(view.length_ns)
    )
    how = _("The top lane shows the share of each account per {pixel}; numbers mark the longest gaps.").format(
        pixel=format_ns(view.pixel_ns)
    )
    return {
        "about": sentences([which, clipped(view.label, NAME_LIMIT), how]),
        "gaps": list(map(gap_sentence, view.gaps)),
        "gaps_share": percent(gaps_ns / view.idle_ns) if view.idle_ns else "",  # of the idle time of the step
        "left_out": left_out(view),
    }


def gap_sentence(gap: Gap) -> str:
    """What the device waited for, and what came after."""
    known = {"time": format_ns(gap.end_ns - gap.start_ns), "account": account_messages.name(gap.account)}
    if gap.doing is None:
        text = _("{time} {account}").format(**known)
    else:
        text = _("{time} {account}: {doing}").format(doing=_doing(gap.doing), **known)
    if not gap.next_name:
        return text
    return _("{gap}; then {work}").format(gap=text, work=clipped(unwrapped(gap.next_name), NAME_LIMIT))


def _doing(row: HostActivity) -> str:
    """What the host did, and where: at a call site, else in a region."""
    what, where = doing(row), site(row.site) or clipped(row.region, NAME_LIMIT)
    return _("{what} ({where})").format(what=what, where=where) if where and where != what else what


def left_out(view: StepView) -> str:
    """What of the step is not drawn; "" for nothing."""
    parts = (
        (view.more_streams, ngettext("{count} more stream", "{count} more streams", view.more_streams)),
        (view.more_threads, ngettext("{count} more thread", "{count} more threads", view.more_threads)),
        (view.more_pieces, ngettext("{count:,} shorter span", "{count:,} shorter spans", view.more_pieces)),
    )
    return listed(text.format(count=count) for count, text in parts if count)
