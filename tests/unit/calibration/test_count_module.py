"""A user's module is counted on shapes alone, as torch counts it; what cannot be counted says why in two lines."""

from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from redline.calibration.count_module import CountedModule, count_module
from redline.errors import InputError, RedlineError, UsageError
from redline.model.activations import Practice, bytes_kept, layer_activations
from redline.model.flops import Pairs, backward_flops, forward_flops
from redline.model.huggingface import describe, read_config
from redline.model.parameters import count_parameters
from tests.support import small_dit
from tests.support.small_configs import DIFFUSION

MODELS = Path(small_dit.__file__)


def test_a_cnn_is_counted_as_torch_counts_it() -> None:
    counted = count_module(f"{MODELS}:cnn")
    module, inputs = small_dit.cnn()
    with FlopCounterMode(display=False) as forward:
        made = module(**inputs)
    with FlopCounterMode(display=False) as backward:
        made.sum().backward()
    assert counted.parameters == counted.trained_parameters == sum(each.numel() for each in module.parameters())
    assert counted.parameter_bytes == 4 * counted.parameters
    assert counted.forward_flops == forward.get_total_flops()
    assert counted.backward_flops == backward.get_total_flops()
    first = counted.operators[0]
    assert (first.name, first.calls, first.backward) == ("convolution", 1, False)
    assert first.bytes == 4 * (4 * 3 * 8 * 8 + 16 * 3 * 9 + 16 + 4 * 16 * 6 * 6)


def test_what_a_cnn_keeps_is_counted_once_and_without_weights() -> None:
    """Inputs of both products, of the norm and of the activation; the norm's two statistics per channel."""
    image, inside, statistics = 4 * 3 * 8 * 8, 4 * 16 * 6 * 6, 2 * 16
    assert count_module(f"{MODELS}:cnn").kept_bytes == 4 * (image + 2 * inside + statistics)


def test_a_dit_has_the_parameters_and_flops_that_its_config_gives() -> None:
    counted, model = count_module(f"{MODELS}:dit"), read_config(DIFFUSION["dit"])
    sequences, sequence = 2, 16
    tokens, h = sequences * sequence, 48
    assert counted.parameters == count_parameters(model).total
    embedded_again = sequences * 2 * (256 * h + h * h)  # the first layer's embedding of time, for the last norm
    assert counted.forward_flops == forward_flops(model, tokens, sequence, Pairs.ALL).total + embedded_again
    again_backward = sequences * 2 * (256 * h + 2 * h * h)
    assert counted.backward_flops == backward_flops(model, tokens, sequence, Pairs.ALL).total + again_backward


@pytest.mark.parametrize(("name", "gated", "ffn"), [("gpt", 0, 256), ("llama", 1, 160)])
def test_what_a_layer_keeps_is_what_the_arithmetic_says(name: str, gated: int, ffn: int) -> None:
    counted = count_module(f"{MODELS}:{name}")
    model = describe(layers=1, hidden=64, heads=4, vocab=0, gated=gated, ffn=ffn)
    per_token = float(bytes_kept(layer_activations(model, 32, Practice())))
    assert counted.kept_bytes == pytest.approx(64 * per_token + statistics_of_norms(), abs=64)


def statistics_of_norms() -> int:
    """Mean and deviation of each token, in 32 bits, for two norms: left out of the arithmetic."""
    return 2 * 2 * 64 * 4


def test_what_does_not_grow_with_the_batch_is_told_apart(tmp_path: Path) -> None:
    text = "def build():\n    return nn.Sequential(nn.Linear(6, 2), nn.Linear(2, 7)), torch.ones({}, 6)\n"
    small, large = (count_module(f"{written(tmp_path, text.format(samples))}:build") for samples in (5, 10))
    assert (small.samples, large.samples) == (5, 10)
    for one, other in zip(small.operators, large.operators, strict=True):
        assert other.parameter_bytes == one.parameter_bytes
        assert other.bytes - other.parameter_bytes == 2 * (one.bytes - one.parameter_bytes)


def test_blocks_are_what_repeats(tmp_path: Path) -> None:
    text = (
        "class Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)\n"
        "    def forward(self, x):\n        return x + self.down(self.up(x).relu())\n"
        "def build():\n    blocks = [Block() for _ in range(5)]\n"
        "    return nn.Sequential(nn.Linear(6, 8), *blocks), torch.ones(3, 6)\n"
        "def plain():\n    return nn.Linear(6, 8), torch.ones(3, 6)\n"
    )
    path = written(tmp_path, text)
    counted, plain = count_module(f"{path}:build"), count_module(f"{path}:plain")
    assert (counted.blocks, counted.block_inputs_bytes) == (5, 5 * 4 * 3 * 8)
    assert counted.largest_block_bytes == 4 * 3 * (8 + 32)  # inputs of both products; relu keeps its result
    assert counted.blocks_kept_bytes == 5 * counted.largest_block_bytes < counted.kept_bytes
    assert (plain.blocks, plain.block_inputs_bytes) == (1, 0)
    assert plain.blocks_kept_bytes == plain.largest_block_bytes == plain.kept_bytes


@pytest.mark.parametrize("given", ["is_causal=True", "None, 0.0, True"])
def test_causal_attention_is_noted(tmp_path: Path, given: str) -> None:
    text = (
        "class Own(nn.Module):\n    def forward(self, q):\n"
        f"        return nn.functional.scaled_dot_product_attention(q, q, q, {given})\n"
        "def build():\n    return Own(), torch.ones(1, 4, 16, 8, requires_grad=True)\n"
    )
    counted = count_module(f"{written(tmp_path, text)}:build")
    assert [each.causal for each in counted.operators if each.flops] == [True, True]


def written(folder: Path, text: str) -> Path:
    path = folder / "models.py"
    path.write_text("import torch\nfrom torch import nn\n" + text)
    return path


@pytest.mark.parametrize(
    ("text", "function", "said"),
    [
        ("", "build", "has no function 'build'. It has no functions."),
        ("def make():\n    pass\n", "build", "has no function 'build'. It has make."),
        ("def build():\n    return 1 / 0\n", "build", "raised ZeroDivisionError: division by zero. Run it in Python"),
        ("raise ValueError('not today')\n", "build", "cannot be imported: ValueError: not today. Run it in Python"),
        ("raise SystemExit(3)\n", "build", "cannot be imported: SystemExit: 3. Run it in Python"),
        ("def build():\n    return 5\n", "build", "returned a int.\nIt has to return an nn.Module and its inputs"),
        (
            "def build():\n    return nn.Linear(2, 2)\n",
            "build",
            "returned an nn.Module without inputs.\nIt has to return",
        ),
        (
            "def build():\n    return nn.Linear(2, 2), torch.ones(3, 5)\n",
            "build",
            "cannot run on shapes alone: RuntimeError",
        ),
        (
            "class M(nn.Module):\n    def forward(self, x):\n        return x[x > 0]\n"
            "def build():\n    return M(), torch.ones(3)\n",
            "build",
            "leave out what depends on values",
        ),
        (
            "class M(nn.Module):\n    def forward(self, x):\n        return x * x.sum().item()\n"
            "def build():\n    return M(), torch.ones(3)\n",
            "build",
            "Tensor.item() cannot be called on meta tensors",
        ),
    ],
)
def test_what_is_wrong_is_said_in_two_lines(tmp_path: Path, text: str, function: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        count_module(f"{written(tmp_path, text)}:{function}")
    assert said in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 2


def test_a_missing_file_and_a_missing_name_are_said(tmp_path: Path) -> None:
    assert "is not a file. Give path.py:function" in str(error(f"{tmp_path}/no.py:build", InputError))
    assert "names no function. Give path.py:function" in str(error("models.py", UsageError))
    (tmp_path / "models.txt").write_text("")
    assert "is not a Python file. Give path.py:function." in str(error(f"{tmp_path}/models.txt:build", InputError))


def error(source: str, kind: type[RedlineError]) -> RedlineError:
    with pytest.raises(kind) as raised:
        count_module(source)
    return raised.value


def test_a_file_may_import_its_neighbours_and_build_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "neighbour_of_models.py").write_text("WIDTH = 6\n")
    text = "from neighbour_of_models import WIDTH\n"
    text += "def build():\n    return nn.Linear(WIDTH, 2, device='cpu'), torch.ones(3, WIDTH, device='cpu')\n"
    counted = count_module(f"{written(tmp_path, text)}:build")
    assert (counted.parameters, counted.forward_flops, counted.backward_flops) == (14, 72, 72)


def test_attention_of_torch_and_of_users_is_one_kernel_and_keeps_no_scores(tmp_path: Path) -> None:
    text = (
        "from torch.nn.functional import scaled_dot_product_attention\n"
        "class Own(nn.Module):\n    def forward(self, q, k):\n"
        "        return scaled_dot_product_attention(q, k, k, enable_gqa=True)\n"
        "def own():\n    q = torch.ones(1, 4, 512, 8, requires_grad=True)\n"
        "    return Own(), (q, torch.ones(1, 2, 512, 8))\n"
        "def theirs():\n    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)\n"
        "    return layer, torch.ones(1, 512, 32)\n"
    )
    path = written(tmp_path, text)
    for name in ("own", "theirs"):
        counted = count_module(f"{path}:{name}")
        assert fused_calls(counted) == 2
        assert counted.kept_bytes < 4 * 4 * 512 * 512
    assert torch.nn.functional.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention"


def fused_calls(counted: CountedModule) -> int:
    return sum(each.calls for each in counted.operators if "flash_attention" in each.name)
