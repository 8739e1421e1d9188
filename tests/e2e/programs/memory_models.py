"""Trains one of ten kinds of model for a few steps and says in the end how many bytes it holds of what.

`--leak KIND` keeps something of every step; the healthy twin is the same without it.
"""

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH, WORDS, LENGTH, BATCH = 64, 512, 32, 4


class Block(nn.Module):
    """Attention and two layers."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """A tiny one."""

    def __init__(self, layers: int = 3, *, is_tied: bool = False, recomputes: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)
        self.recomputes = recomputes
        if is_tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        return self.head(x)


class Experts(nn.Module):
    """Each token goes through one of four."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gate = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 4)
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        share, chosen = self.gate(x).softmax(-1).max(-1)
        mixed = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            mixed = mixed + expert(x) * (share * (chosen == number)).unsqueeze(-1)
        return self.head(mixed)


class Convolutions(nn.Module):
    """With running statistics, which are buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3))
        self.head = nn.Linear(16, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        pictures = tokens.float().repeat(1, 12)[:, :300].reshape(BATCH, 3, 10, 10)
        return self.head(self.parts(pictures).mean((2, 3))).unsqueeze(1).expand(-1, LENGTH, -1)


class Adapted(nn.Module):
    """A frozen layer with a low-rank addition."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 4, bias=False), nn.Linear(4, layer.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) + self.up(self.down(x))


def frozen() -> nn.Module:
    model = Gpt()
    model.blocks[:2].requires_grad_(False)
    model.embed.requires_grad_(False)
    return model


def lora() -> nn.Module:
    model = Gpt().requires_grad_(False)
    for block in model.blocks:
        block.up = Adapted(block.up)
    return model


def sharded() -> Any:
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("gloo")
    model = Gpt()
    for block in model.blocks:
        fully_shard(block)
    return fully_shard(model)


def replicated() -> nn.Module:
    dist.init_process_group("gloo")
    return nn.parallel.DistributedDataParallel(Gpt())


MODELS: dict[str, Callable[[], Any]] = {
    "gpt": Gpt,
    "cnn": Convolutions,
    "experts": Experts,
    "frozen": frozen,
    "tied": lambda: Gpt(is_tied=True),
    "lora": lora,
    "checkpointing": lambda: Gpt(recomputes=True),
    "compiled": lambda: torch.compile(Gpt()),
    "fsdp": sharded,
    "zero": replicated,
}


def optimizer_of(kind: str, model: nn.Module) -> torch.optim.Optimizer:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if kind == "zero":
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(trained, torch.optim.AdamW, lr=1e-3)
    return torch.optim.AdamW(trained, lr=1e-3)


class Leak:
    """What a script forgets to let go."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.kept: list[Any] = []

    def after(self, loss: Tensor, logits: Tensor, model: nn.Module) -> None:
        if self.kind == "losses":
            self.kept.append(model(torch.zeros(BATCH, LENGTH, dtype=torch.int64)).mean())  # with its graph
        elif self.kind == "logits":
            self.kept.append(logits.detach())
        elif self.kind == "gradients":
            self.kept.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
        elif self.kind == "exceptions":
            try:
                held = logits.detach() * 2
                raise ValueError(held.shape)
            except ValueError as error:
                self.kept.append(error)  # its traceback holds the frame
        elif self.kind == "copies":
            self.kept.append([parameter.detach().clone() for parameter in model.parameters()])
        elif self.kind == "history":
            self.kept.append(
                torch.cat([*self.kept[-1:], torch.randn(64, 512)])
            )  # a tensor that grows, all versions kept


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--leak", default="")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = MODELS[options.model]()
    optimizer, leak = optimizer_of(options.model, model), Leak(options.leak)
    for _ in range(options.steps):
        tokens = torch.randint(WORDS, (BATCH, LENGTH))
        logits = model(tokens)
        loss = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        leak.after(loss, logits, model)
        optimizer.zero_grad()
    rank = dist.get_rank() if dist.is_initialized() else 0
    options.out.with_suffix(f".{rank}.json").write_text(json.dumps(held(model, optimizer)))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def held(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, int]:
    """Each storage once; gradients are as large as what they are of."""
    inner = getattr(optimizer, "optim", optimizer)
    states = [value for state in inner.state.values() for value in state.values() if isinstance(value, Tensor)]
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    buckets = trained if isinstance(model, nn.parallel.DistributedDataParallel) else []
    return {
        "parameters": _bytes([*model.parameters(), *model.buffers()]),
        "gradients": _bytes(trained),
        "optimizer states": _bytes(states),
        "gathered weights and communication": _bytes(buckets),
    }


def _bytes(tensors: Iterable[Tensor]) -> int:
    storages = [getattr(tensor, "_local_tensor", tensor).untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


if __name__ == "__main__":
    main()
