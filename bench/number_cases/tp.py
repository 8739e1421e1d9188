"""Train a small transformer with tensor parallelism on two ranks; without torchrun, the same on one process."""

import math
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, process_group, rank, show

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, BATCH = 48, 4, 2, 128, 16, 4
SIZE = WIDTH // HEADS
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class SumForward(torch.autograd.Function):
    """The sum over ranks; each rank's part gets the gradient of the sum."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, doubled: bool) -> Tensor:
        ctx.doubled = doubled
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if ctx.doubled:
            gradient = gradient.clone()
            dist.all_reduce(gradient)
        return gradient, None


class SumBackward(torch.autograd.Function):
    """The same on all ranks; its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


def local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        shape = (HEADS, -1) if on("all_heads_on_each_rank") else (-1, SIZE)
        q, k, v = (part(x).unflatten(-1, shape).transpose(1, 2) for part in (self.q, self.k, self.v))
        if on("manual_attention"):
            hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
            y = (q @ k.mT / math.sqrt(SIZE)).masked_fill(hidden, float("-inf")).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


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

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, mean=float(parameter.dim() == 1 and bool(parameter[0] == 1)), std=0.1)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.position(torch.arange(LENGTH))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if on("checkpoint") else block(x)
        return self.head(self.norm(x))


def build() -> nn.Module:
    model: Any = Transformer()
    down = model.blocks[0].mlp.down.weight
    with torch.no_grad():
        if on("shards_swapped"):
            down.copy_(torch.cat(down.chunk(2, 1)[::-1], 1))
        if on("shard_reshaped"):
            second = down[:, 2 * WIDTH :]
            second.copy_(second.reshape(2 * WIDTH, WIDTH).T)
    return model


def rows_by_hand(layer: nn.Linear, x: Tensor, doubled: bool = False) -> Tensor:
    """A layer that is split by inputs, on this rank's part of them."""
    y = F.linear(x, local(layer.weight))
    bias = local(layer.bias)
    if on("partial_not_reduced"):
        return y + bias
    if on("bias_on_every_rank"):
        return SumForward.apply(y + bias, doubled)
    return SumForward.apply(y, doubled) + bias


def columns_by_hand(layer: nn.Linear, x: Tensor) -> Tensor:
    """A layer that is split by outputs."""
    x = x if on("input_gradient_of_one_rank") else SumBackward.apply(x)
    return F.linear(x, local(layer.weight), local(layer.bias))


def embed_by_hand(layer: nn.Embedding, tokens: Tensor) -> Tensor:
    """A table that is split by rows."""
    rows = VOCABULARY // RANKS
    places = tokens - rank() * rows
    inside = (places > 0 if on("vocabulary_off_by_one") else places >= 0) & (places < rows)
    y = F.embedding(places.clamp(0, rows - 1), local(layer.weight)) * inside[..., None]
    return SumForward.apply(y, False)


def norm_by_hand(layer: Any, x: Tensor) -> Tensor:
    """A norm on this rank's part of the sequence; the gradients of its parameters are parts of a sum."""
    placements = [Replicate()] if on("norm_gradients_not_summed") else [Partial()]
    weight, bias = (p.to_local(grad_placements=placements) for p in (layer.weight, layer.bias))
    y = F.layer_norm(local(x), (WIDTH,), weight, bias)
    return DTensor.from_local(y, x.device_mesh, x.placements) if isinstance(x, DTensor) else y


def replace(module: nn.Module, function: Callable[..., Tensor]) -> None:
    """Call a function in place of a module's forward; hooks stay."""
    module.forward = partial(function, module)


def change_layers(model: Any) -> None:
    """Layers that are written by hand."""
    first, last = model.blocks[0].mlp, model.blocks[-1].mlp
    if on("rows_by_hand", "partial_not_reduced", "bias_on_every_rank"):
        replace(first.down, rows_by_hand)
    if on("gradient_summed_twice"):
        replace(last.down, partial(rows_by_hand, doubled=True))
    if on("columns_by_hand", "input_gradient_of_one_rank"):
        replace(last.up, columns_by_hand)
    if on("embedding_by_hand", "vocabulary_off_by_one"):
        replace(model.embed, embed_by_hand)


class Sharded(ParallelStyle):
    """Split the parameters of a layer whose forward is written by hand."""

    def __init__(self, style: ParallelStyle) -> None:
        super().__init__()
        self.style = style

    def _apply(self, module: nn.Module, mesh: DeviceMesh) -> nn.Module:
        self.style._apply(module, mesh)
        module._forward_pre_hooks.clear()
        module._forward_hooks.clear()
        return module


def plan_of_block(number: int) -> dict[str, ParallelStyle]:
    plan: dict[str, ParallelStyle] = {}
    if not on("mlp_only"):
        plan |= {f"attention.{name}": ColwiseParallel() for name in ("q", "k", "v")}
        plan["attention.out"] = RowwiseParallel()
    if not on("attention_only"):
        by_hand_down = number == 0 and on("rows_by_hand", "partial_not_reduced", "bias_on_every_rank")
        by_hand_down |= number == LAYERS - 1 and on("gradient_summed_twice")
        by_hand_up = number == LAYERS - 1 and on("columns_by_hand", "input_gradient_of_one_rank")
        up, down = ColwiseParallel(), RowwiseParallel()
        if on("gathered_columns"):
            up, down = ColwiseParallel(output_layouts=Replicate()), RowwiseParallel(input_layouts=Replicate())
        plan["mlp.up"] = Sharded(up) if by_hand_up else up
        plan["mlp.down"] = Sharded(down) if by_hand_down else down
    return plan


def sequence_plan_of_block() -> dict[str, ParallelStyle]:
    """Norms and sums on parts of the sequence."""
    whole = PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),))
    plan: dict[str, ParallelStyle] = {f"attention.{name}": ColwiseParallel() for name in ("q", "k", "v")}
    return plan | {
        "norm1": SequenceParallel(),
        "attention": whole,
        "attention.out": RowwiseParallel(output_layouts=Shard(1)),
        "norm2": SequenceParallel(),
        "mlp": whole,
        "mlp.up": ColwiseParallel(),
        "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
    }


def parallel(model: Any) -> None:
    mesh = init_device_mesh("cpu", (RANKS,))
    by_hand = on("embedding_by_hand", "vocabulary_off_by_one")
    local_logits = on("loss_by_hand", "sums_of_one_rank")
    head = ColwiseParallel(output_layouts=Shard(-1) if on("parallel_loss") or local_logits else Replicate())
    head.use_local_output = not on("parallel_loss")
    rows = RowwiseParallel(input_layouts=Replicate())
    outer: dict[str, ParallelStyle] = {"embed": Sharded(rows) if by_hand else rows, "head": head}
    if on("sequence_parallel", "sequence_parallel_by_hand", "norm_gradients_not_summed"):
        outer["embed"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1))
        outer["position"] = RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(0))
        outer["norm"] = SequenceParallel()
        outer["head"] = ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())
    parallelize_module(model, mesh, outer)
    for number, block in enumerate(model.blocks):
        if "norm" in outer:
            parallelize_module(block, mesh, sequence_plan_of_block())
        else:
            parallelize_module(block, mesh, plan_of_block(number))
    if on("sequence_parallel_by_hand", "norm_gradients_not_summed"):
        for block in model.blocks:
            replace(block.norm2, norm_by_hand)
    change_layers(model)


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator(seed, step))
    return tokens, (tokens * 7 + 3) % VOCABULARY


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    logits, labels = logits.flatten(0, 1), labels.flatten()
    if not on("loss_by_hand", "sums_of_one_rank") or RANKS == 1:
        return F.cross_entropy(logits if isinstance(logits, DTensor) else logits.float(), labels)
    rows = VOCABULARY // RANKS
    places = labels - rank() * rows
    inside = (places >= 0) & (places < rows)
    largest = logits.detach().amax(-1)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    shifted = logits - largest[:, None]
    sums = shifted.exp().sum(-1)
    sums = sums if on("sums_of_one_rank") else SumForward.apply(sums, False)
    wanted = shifted.gather(-1, places.clamp(0, rows - 1)[:, None])[:, 0] * inside
    return (sums.log() - SumForward.apply(wanted, False)).mean()


def clip(model: nn.Module) -> None:
    """By the norm of whole gradients, of which split ones are in parts."""
    split, whole = torch.zeros(()), torch.zeros(())
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    for gradient in gradients:
        if isinstance(gradient, DTensor) and any(placement.is_shard() for placement in gradient.placements):
            split += gradient.to_local().square().sum()
        else:
            whole += (gradient.full_tensor() if isinstance(gradient, DTensor) else gradient).square().sum()
    if RANKS > 1 and not on("norm_of_one_rank"):
        dist.all_reduce(split)
    factor = (0.5 / ((split + whole).sqrt() + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factor.item())


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Split and whole parameters are in groups of their own, as loops over many tensors cannot mix them."""
    parameters = list(model.parameters())
    kinds = [[p for p in parameters if isinstance(p, DTensor) is split] for split in (True, False)]
    groups = [{"params": kind} for kind in kinds if kind]
    if on("fused"):
        return torch.optim.AdamW(groups, lr=1e-3, fused=True)
    return torch.optim.AdamW(groups, lr=1e-3, foreach=on("foreach"))


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def train(model: nn.Module, steps: int, seed: int) -> None:
    if RANKS > 1:
        parallel(model)
    optimizer = optimizer_of(model)
    for step in range(steps):
        tokens, labels = batch_of(seed, step)
        with loss_parallel() if on("parallel_loss") else nullcontext():
            with cast():
                logits = model(tokens)
            loss = loss_of(logits, labels)
            optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
            loss.backward()
        clip(model)
        optimizer.step()
        shown = loss.detach()
        show(step, shown.full_tensor() if isinstance(shown, DTensor) else shown)


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed + (rank() if on("seed_of_rank") else 0))
    model = build()
    with process_group() if RANKS > 1 else nullcontext():
        train(model, steps, seed)
        finish(model)


if __name__ == "__main__":
    main()
