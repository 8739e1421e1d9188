"""Train a small GPT on two ranks with FSDP2; without torchrun, the same on one process."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, process_group, rank, show

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, BATCH = 48, 4, 2, 128, 16, 8
SIZE = WIDTH // HEADS
FIRST_POSITION = 1500  # these texts continue longer ones
PADDING = -100
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


def rotate(x: Tensor, positions: Tensor) -> Tensor:
    angles = torch.outer(positions.float(), 10_000.0 ** (-torch.arange(0, SIZE, 2) / SIZE))
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, SIZE)).permute(2, 0, 3, 1, 4)
        q, k = rotate(q, positions), rotate(k, positions)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), MLP()

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), positions)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.1)
        self.head.weight = nn.Parameter(self.embed.weight.detach().clone()) if on("untied") else self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        positions = torch.arange(FIRST_POSITION, FIRST_POSITION + LENGTH)
        positions = positions.float() if on("positions_cast") else positions
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, positions, use_reentrant=False) if on("checkpoint") else block(x, positions)
        return self.head(self.norm(x))


def build() -> nn.Module:
    model = GPT()
    return model.bfloat16() if on("bf16_parameters") else model


def policy() -> MixedPrecisionPolicy:
    if on("reduced_in_bf16"):
        return MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)
    if on("bf16", "positions_cast"):
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    if on("bf16_and_reduced_in_bf16"):
        return MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    return MixedPrecisionPolicy()


def parallel(model: Any) -> Any:
    if RANKS == 1:
        return model
    if on("ddp_instead"):
        return DistributedDataParallel(model)
    mesh, keep = init_device_mesh("cpu", (RANKS,)), on("kept_after_forward")
    inner = [*model.blocks]
    if on("root_only"):
        inner = []
    if on("finer_wrapping"):
        inner = [part for block in model.blocks for part in (block.attention, block.mlp, block)]
    for block in inner:
        fully_shard(block, mesh=mesh, reshard_after_forward=not keep, mp_policy=policy())
    ignored = {model.norm.weight} if on("one_parameter_ignored") else None
    fully_shard(model, mesh=mesh, reshard_after_forward=not keep, mp_policy=policy(), ignored_params=ignored)
    if on("explicit_prefetch"):
        model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
        model.blocks[1].set_modules_to_backward_prefetch([model.blocks[0]])
    summed = [model, *model.blocks] if on("summed_not_averaged") else [model.blocks[0]] if on("block_summed") else []
    for module in summed:
        module.set_gradient_divide_factor(1.0)
    for module in [model, *inner] if on("sum_forced") else summed:  # gloo cannot multiply while it sums
        module.set_force_sum_reduction_for_comms(True)
    return model


def batch_of(seed: int, step: int) -> list[tuple[Tensor, Tensor]]:
    """This rank's part of each micro-batch."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator(seed, step))
    labels = (tokens * 7 + 3) % VOCABULARY
    for row in range(1, BATCH):
        labels[row, LENGTH - row :] = PADDING
    own = 0 if on("same_data_on_both") else rank()
    parts = zip(tokens.chunk(2), labels.chunk(2), strict=True)
    return [(x.chunk(RANKS)[own], y.chunk(RANKS)[own]) for x, y in parts]


def tokens_of(batch: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Number of tokens of the step, on all ranks."""
    count = torch.stack([(labels != PADDING).sum() for _, labels in batch]).sum().float()
    if on("tokens_of_one_rank"):
        return count * RANKS
    if RANKS > 1:
        dist.all_reduce(count)
    return count


def clip(model: nn.Module) -> None:
    if on("unclipped"):
        return
    if on("clipped_by_own_norm"):
        local = [
            p.grad.to_local() if isinstance(p.grad, DTensor) else p.grad
            for p in model.parameters()
            if p.grad is not None
        ]
        factor = (0.5 / (torch.stack([g.norm() for g in local]).norm() + 1e-6)).clamp(max=1.0)
        for gradient in local:
            gradient.mul_(factor)
        return
    if on("library_clip"):
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        return
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    squares = [g.square().sum() for g in gradients]
    norm = torch.stack([s.full_tensor() if isinstance(s, DTensor) else s for s in squares]).sum().sqrt()
    for gradient in gradients:
        gradient.mul_(min(1.0, 0.5 / (norm.item() + 1e-6)))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    named = list(model.named_parameters())
    groups = [
        {"params": [p for n, p in named if "norm" not in n], "weight_decay": 0.1},
        {"params": [p for n, p in named if "norm" in n], "weight_decay": 0.1 if on("decay_on_norms") else 0.0},
    ]
    if on("fused"):
        return torch.optim.AdamW(groups, lr=1e-3, fused=True)
    return torch.optim.AdamW(groups, lr=1e-3, foreach=on("foreach"))


def choose_exchange(model: Any, last: bool) -> None:
    """Gradients are exchanged after the last micro-batch."""
    if RANKS == 1 or on("ddp_instead"):
        return
    model.set_requires_gradient_sync(last or on("exchanged_each_time"))
    if on("block_not_exchanged"):
        model.blocks[1].set_requires_gradient_sync(False)
    if on("kept_after_backward"):
        model.set_reshard_after_backward(last)


def train(model: nn.Module, steps: int, seed: int) -> None:
    early = optimizer_of(model) if on("optimizer_before_sharding") else None
    wrapped = parallel(model)
    optimizer = early or optimizer_of(model)
    for step in range(steps):
        batch = batch_of(seed, step)
        tokens, total = tokens_of(batch), 0.0
        for number, (x, y) in enumerate(batch):
            choose_exchange(wrapped, number == len(batch) - 1)
            logits = wrapped(x).float()
            loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / tokens
            loss = loss if on("averaged_twice") else loss * RANKS  # FSDP takes the mean over ranks
            loss.backward()
            total += loss.item()
        clip(model)
        optimizer.step()
        model.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        show(step, total)


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed + (rank() if on("seed_of_rank") else 0))
    model = build()
    with process_group() if RANKS > 1 else nullcontext():
        train(model, steps, seed)
        finish(model)


if __name__ == "__main__":
    main()
