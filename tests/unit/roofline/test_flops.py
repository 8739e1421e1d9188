"""FLOPs of recorded operators are those that torch.utils.flop_counter counts, and the documented share under a mask."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count

from redline.roofline.operators.attention import visible_pairs
from redline.roofline.roofline import work_of
from redline.roofline.sizes import Work
from redline.timeline.timeline import Timeline
from redline.trace.reader import read_file

Step = Callable[[], object]


def recorded(step: Step, folder: Path) -> Timeline:
    """The timeline of one step, read back from what the profiler wrote."""
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    path = folder / "step.json"
    profiler.export_chrome_trace(str(path))
    (timeline,) = read_file(path).timelines
    return timeline


def innermost_works(timeline: Timeline) -> dict[str, list[Work]]:
    """Rated arithmetic by operator, of those that call no other that is rated: composites are not counted twice."""
    spans, operators = timeline.spans, timeline.operators
    rated: dict[int, Work] = {}
    for place, row in enumerate(operators.row.tolist()):
        columns = (operators.shapes, operators.dtypes, operators.strides, operators.values)
        work = work_of(timeline.texts[spans.name[row]], *(timeline.text(int(column[place])) for column in columns))
        if work is not None and work.flops:
            rated[row] = work
    outer: set[int] = set()
    for row in rated:
        parent = int(spans.parent[row])
        while parent >= 0:
            outer.add(parent)
            parent = int(spans.parent[parent])
    found: dict[str, list[Work]] = {}
    for row, work in rated.items():
        if row not in outer:
            found.setdefault(timeline.texts[spans.name[row]], []).append(work)
    return found


def rated_flops(step: Step, folder: Path) -> int:
    return sum(work.flops for works in innermost_works(recorded(step, folder)).values() for work in works)


def cpu_attention(query: Any, key: Any, value: Any, *_: object, out_shape: object = None, **__: object) -> int:
    return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]


def cpu_attention_backward(gradient: Any, query: Any, key: Any, value: Any, *_: object, **__: object) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))  # type: ignore[no-untyped-call]


def counted_flops(step: Step) -> int:
    """What PyTorch's own counter says; it has no formula for attention on CPUs, so it is given that for GPUs."""
    aten = torch.ops.aten
    formulas = {
        aten._scaled_dot_product_flash_attention_for_cpu: cpu_attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: cpu_attention_backward,
    }
    counter = FlopCounterMode(display=False, custom_mapping=formulas)
    with counter:
        step()
    return counter.get_total_flops()


def backward(loss: torch.Tensor) -> None:
    loss.backward()  # type: ignore[no-untyped-call]


def training_step(module: nn.Module, *shape: int, memory_format: torch.memory_format = torch.contiguous_format) -> Step:
    data = torch.randn(shape).to(memory_format=memory_format).requires_grad_()
    return lambda: module(data).sum().backward()


# --- matrix products --------------------------------------------------------------------------------------------------

MATRIX_PRODUCTS: dict[str, Step] = {
    "mm": lambda: torch.randn(3, 5) @ torch.randn(5, 7),
    "mm of transposed": lambda: torch.randn(5, 3).t() @ torch.randn(7, 5).t(),
    "matmul with one matrix for a batch": lambda: torch.randn(2, 4, 3, 5) @ torch.randn(5, 7),
    "matmul of batches": lambda: torch.randn(2, 1, 3, 5) @ torch.randn(4, 5, 7),
    "bmm": lambda: torch.bmm(torch.randn(6, 3, 5), torch.randn(6, 5, 7)),
    "addmm": lambda: torch.addmm(torch.randn(7), torch.randn(3, 5), torch.randn(5, 7)),
    "baddbmm": lambda: torch.baddbmm(torch.randn(6, 3, 7), torch.randn(6, 3, 5), torch.randn(6, 5, 7)),
    "linear of a batch": lambda: functional.linear(torch.randn(2, 3, 5), torch.randn(7, 5), torch.randn(7)),
    "einsum": lambda: torch.einsum("bik,bkj->bij", torch.randn(2, 3, 5), torch.randn(2, 5, 7)),
    "linear layers, both passes": training_step(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)), 5, 8),
}


@pytest.mark.parametrize("name", MATRIX_PRODUCTS)
def test_matrix_products(name: str, tmp_path: Path) -> None:
    step = MATRIX_PRODUCTS[name]
    assert rated_flops(step, tmp_path) == counted_flops(step) > 0


# --- convolutions -----------------------------------------------------------------------------------------------------

CHANNELS_LAST = torch.channels_last
CONVOLUTIONS: dict[str, Step] = {
    "1d": training_step(nn.Conv1d(4, 6, 3, padding=1), 2, 4, 17),
    "2d": training_step(nn.Conv2d(4, 6, 3, stride=2, padding=1), 2, 4, 17, 13),
    "2d without bias": training_step(nn.Conv2d(4, 6, 3, bias=False), 2, 4, 17, 13),
    "2d with unequal settings": training_step(nn.Conv2d(4, 6, (1, 5), stride=(2, 1), padding=(0, 2)), 2, 4, 17, 13),
    "2d of one image": training_step(nn.Conv2d(4, 6, 3), 4, 17, 13),
    "2d dilated": training_step(nn.Conv2d(4, 6, 3, dilation=2), 2, 4, 17, 13),
    "2d channels last": training_step(
        nn.Conv2d(4, 6, 3).to(memory_format=CHANNELS_LAST),  # type: ignore[call-overload]
        2,
        4,
        17,
        13,
        memory_format=CHANNELS_LAST,
    ),
    "3d": training_step(nn.Conv3d(4, 6, 3, padding=1), 2, 4, 5, 7, 9),
    "transposed": training_step(nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), 2, 4, 9, 7),
    "transposed 1d": training_step(nn.ConvTranspose1d(4, 6, 3, stride=2), 2, 4, 9),
    "transposed 3d": training_step(nn.ConvTranspose3d(4, 6, 2), 2, 4, 5, 6, 7),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_of_both_passes(name: str, tmp_path: Path) -> None:
    step = CONVOLUTIONS[name]
    assert rated_flops(step, tmp_path) == counted_flops(step) > 0


def test_the_spellings_of_a_convolution_agree(tmp_path: Path) -> None:
    timeline = recorded(lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1)(torch.randn(2, 4, 17, 13)), tmp_path)
    spans, operators = timeline.spans, timeline.operators
    works = {}
    for place, row in enumerate(operators.row.tolist()):
        columns = (operators.shapes, operators.dtypes, operators.strides, operators.values)
        name = timeline.texts[spans.name[row]]
        if "conv" in name:
            works[name] = work_of(name, *(timeline.text(int(column[place])) for column in columns))
    assert {"aten::conv2d", "aten::convolution", "aten::_convolution", "aten::mkldnn_convolution"} <= set(works)
    assert len(set(works.values())) == 1, works


@pytest.mark.parametrize("groups", [2, 4])
def test_a_grouped_convolution_costs_its_share(groups: int, tmp_path: Path) -> None:
    step = lambda: nn.Conv2d(4, 8, 3, groups=groups)(torch.randn(2, 4, 9, 9))  # noqa: E731
    assert rated_flops(step, tmp_path) == counted_flops(step) == 2 * (2 * 8 * 7 * 7) * (4 // groups) * 9


@pytest.mark.parametrize("module", [nn.Conv2d(4, 8, 3, groups=2), nn.ConvTranspose2d(4, 8, 3, groups=2)])
def test_each_gradient_of_a_grouped_convolution_costs_what_the_forward_pass_did(
    module: nn.Module, tmp_path: Path
) -> None:
    data = torch.randn(2, 4, 9, 9, requires_grad=True)
    forward = rated_flops(lambda: module(data), tmp_path)
    assert rated_flops(lambda: module(data).sum().backward(), tmp_path) == 3 * forward


@pytest.mark.parametrize(("data", "weights"), [(True, False), (False, True)])
def test_only_gradients_that_are_wanted_count(*, data: bool, weights: bool, tmp_path: Path) -> None:
    module = nn.Conv2d(4, 6, 3).requires_grad_(weights)
    image = torch.randn(2, 4, 9, 9, requires_grad=data)
    step = lambda: module(image).sum().backward()  # noqa: E731
    assert rated_flops(step, tmp_path) == counted_flops(step) == 2 * (2 * (2 * 6 * 7 * 7) * 4 * 9)


# --- attention --------------------------------------------------------------------------------------------------------


def attention_step(
    queries: tuple[int, ...], keys: tuple[int, ...], values: tuple[int, ...] | None = None, **options: Any
) -> Step:
    query, key, value = (torch.randn(shape, requires_grad=True) for shape in (queries, keys, values or keys))
    return lambda: backward(functional.scaled_dot_product_attention(query, key, value, **options).sum())


@pytest.mark.parametrize(
    "step",
    [
        attention_step((2, 4, 16, 8), (2, 4, 16, 8)),
        attention_step((2, 4, 16, 8), (2, 4, 24, 8)),
        attention_step((2, 4, 16, 8), (2, 4, 24, 8), attn_mask=torch.zeros(16, 24)),
    ],
    ids=["square", "cross", "with a mask"],
)
def test_attention_of_both_passes(step: Step, tmp_path: Path) -> None:
    assert rated_flops(step, tmp_path) == counted_flops(step) > 0


def test_a_causal_mask_leaves_its_share_of_both_passes(tmp_path: Path) -> None:
    length = 16
    step = attention_step((2, 4, length, 8), (2, 4, length, 8), is_causal=True)
    assert rated_flops(step, tmp_path) * 2 * length == counted_flops(step) * (length + 1)


def test_the_wrapper_of_attention_agrees_with_what_it_calls(tmp_path: Path) -> None:
    timeline = recorded(attention_step((2, 4, 16, 8), (2, 4, 24, 8), is_causal=True), tmp_path)
    texts = {}
    for place, row in enumerate(timeline.operators.row.tolist()):
        operators = timeline.operators
        columns = (operators.shapes, operators.dtypes, operators.strides, operators.values)
        texts[timeline.texts[timeline.spans.name[row]]] = [timeline.text(int(column[place])) for column in columns]
    outer = work_of("aten::scaled_dot_product_attention", *texts["aten::scaled_dot_product_attention"])
    inner_name = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert outer == work_of(inner_name, *texts[inner_name])
    assert outer is not None
    assert outer.flops == 2 * 2 * 4 * sum(row + 1 for row in range(16)) * (8 + 8)


def test_heads_that_share_keys_cost_as_if_they_did_not(tmp_path: Path) -> None:
    shared = attention_step((2, 8, 16, 4), (2, 2, 16, 4), enable_gqa=True)
    own = attention_step((2, 8, 16, 4), (2, 8, 16, 4))
    assert innermost_works(recorded(shared, tmp_path)).keys() >= {"aten::_scaled_dot_product_flash_attention_for_cpu"}
    assert rated_flops(shared, tmp_path) == rated_flops(own, tmp_path)


def test_visible_pairs() -> None:
    ends = (None, 0, 2)
    for queries, keys, shift, left, right in product((1, 5, 8), (1, 5, 8), (-3, 0, 3), ends, ends):
        apart = [key - (query + shift) for query in range(queries) for key in range(keys)]
        pairs = sum((left is None or by >= -left) and (right is None or by <= right) for by in apart)
        assert visible_pairs(queries, keys, shift, left, right) == pairs, (queries, keys, shift, left, right)


# --- whole models -----------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A block of a GPT."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inputs, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        batch, length, width = data.shape
        parts = self.inputs(self.first(data)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        data = data + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        wide: torch.Tensor = self.narrow(functional.gelu(self.wide(self.second(data))))
        return data + wide


def gpt_step(*, causal: bool) -> Step:
    model = nn.Sequential(
        nn.Embedding(50, 16), Block(16, 2, causal=causal), Block(16, 2, causal=causal), nn.Linear(16, 50)
    )
    tokens = torch.randint(50, (3, 12))

    def step() -> None:
        scores = model(tokens)
        backward(functional.cross_entropy(scores.flatten(0, 1), tokens.flatten()))

    return step


def test_a_gpt(tmp_path: Path) -> None:
    step = gpt_step(causal=False)
    assert rated_flops(step, tmp_path) == counted_flops(step) > 0


def test_a_causal_gpt_saves_the_hidden_half_of_attention_alone(tmp_path: Path) -> None:
    attention = 2 * (1 + 2.5) * (2 * 3 * 2 * 12 * 12 * (8 + 8))  # blocks, passes, FLOPs of one
    hidden = attention * (1 - 13 / 24)
    step = gpt_step(causal=True)
    assert rated_flops(step, tmp_path) == counted_flops(step) - hidden


class Residual(nn.Module):
    """A bottleneck of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(8, 4, 1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 4, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Conv2d(4, 16, 1, bias=False),
            nn.BatchNorm2d(16),
        )
        self.shortcut = nn.Conv2d(8, 16, 1, stride=2, bias=False)

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(data) + self.shortcut(data))


def test_a_residual_network(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3),
        nn.MaxPool2d(3, 2, 1),
        Residual(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    step = training_step(nn.Sequential(model, nn.Linear(16, 10)), 2, 3, 32, 32)
    assert rated_flops(step, tmp_path) == counted_flops(step) > 0
