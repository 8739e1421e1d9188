"""Train a tagger on two ranks with DDP: batch statistics over all ranks, accumulation, a mean over all tokens."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, process_group, rank, show

WIDTH, VOCABULARY, TAGS, LENGTH, BATCH = 32, 128, 12, 16, 16
PADDING = -100
RANKS = int(os.environ.get("WORLD_SIZE", "1"))


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        x = x.clone()
        if RANKS > 1:
            dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        if RANKS > 1 and not on("statistics_gradient_local"):
            dist.all_reduce(gradient)
        return gradient


def over_ranks(x: Tensor) -> Tensor:
    return x if on("statistics_of_one_rank") else SumOverRanks.apply(x)


class SyncNorm(nn.Module):
    """BatchNorm whose statistics are those of all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.running_mean: Tensor
        self.register_buffer("running_mean", torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(0, 1)
        count = torch.full((1,), float(len(flat)))
        if on("statistics_in_one_message"):
            total, square, count = over_ranks(torch.cat([flat.sum(0), flat.square().sum(0), count])).split(
                [WIDTH, WIDTH, 1]
            )
        else:
            total, square, count = over_ranks(flat.sum(0)), over_ranks(flat.square().sum(0)), over_ranks(count)
        mean = total / count
        variance = square / count - mean.square()
        with torch.no_grad():
            self.running_mean.lerp_(mean, 0.1)
        return (x - mean) * torch.rsqrt(variance + 1e-5) * self.weight + self.bias


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.conv = nn.Embedding(VOCABULARY, WIDTH), nn.Conv1d(WIDTH, WIDTH, 3, padding=1)
        self.norm, self.blocks = SyncNorm(), nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(WIDTH, TAGS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.norm(self.conv(self.embed(tokens).transpose(1, 2)).transpose(1, 2)).relu()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if on("checkpoint") else block(x)
        return self.head(x)


def build() -> nn.Module:
    return Tagger()


def sum_hook(
    state: object,
    bucket: dist.GradBucket,  # type: ignore[name-defined]
) -> torch.futures.Future[Tensor]:
    """Gradients of a bucket over all ranks."""
    buffer = bucket.buffer() if on("summed_not_averaged") else bucket.buffer() / RANKS
    if on("reduced_in_bf16"):  # gloo has no bf16 of its own, so that it is rounded before
        buffer = buffer.bfloat16().float()
    return dist.all_reduce(buffer, async_op=True).get_future().then(lambda done: done.value()[0])


def parallel(model: Any) -> nn.Module:
    if RANKS == 1 or on("averaged_by_hand", "averaged_in_one_message", "clipped_before_average"):
        return model
    model.head.requires_grad_(not on("unfrozen_after_wrapping"))
    if on("one_parameter_ignored"):
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["blocks.1.down.weight"])
    wrapped = DistributedDataParallel(
        model,
        bucket_cap_mb=0.001 if on("small_buckets") else 25,
        gradient_as_bucket_view=on("bucket_views"),
        static_graph=on("static_graph"),
        find_unused_parameters=on("unused_looked_for"),
        init_sync=not on("different_start"),
        forward_sync_buffers=not on("buffers_not_broadcast"),
    )
    if on("summed_not_averaged", "reduced_in_bf16"):
        wrapped.register_comm_hook(None, sum_hook)
    if on("library_hook"):
        wrapped.register_comm_hook(None, allreduce_hook)
    model.head.requires_grad_(True)
    return wrapped


def batch_of(seed: int, step: int, micro_batches: int) -> list[tuple[Tensor, Tensor]]:
    """This rank's part of each micro-batch."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator(seed, step))
    labels = (tokens * 7 + tokens.roll(1, 1)) % TAGS
    for row in range(BATCH):
        labels[row, LENGTH - row % 7 :] = PADDING if row % 7 else labels[row, LENGTH:]
    own = 0 if on("same_data_on_both") else rank()
    parts = zip(tokens.chunk(micro_batches), labels.chunk(micro_batches), strict=True)
    return [(x.chunk(RANKS)[own], y.chunk(RANKS)[own]) for x, y in parts]


def tokens_of(batch: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Number of tokens of the step, on all ranks."""
    count = torch.stack([(labels != PADDING).sum() for _, labels in batch]).sum().float()
    if on("tokens_of_one_rank"):
        return count * RANKS
    if RANKS > 1:
        dist.all_reduce(count)
    return count


def average(model: nn.Module) -> None:
    """Gradients over ranks where DDP does not do it."""
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    if on("averaged_in_one_message"):
        flat = torch.cat([g.flatten() for g in gradients])
        dist.all_reduce(flat)
        for gradient, part in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(part.view_as(gradient) / RANKS)
    if on("clipped_before_average"):
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    if on("averaged_by_hand", "clipped_before_average"):
        for gradient in gradients:
            dist.all_reduce(gradient)
            gradient.div_(RANKS)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    rate = 2e-3
    if on("zero_redundancy"):
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=rate, foreach=False)
    if on("fused"):
        return torch.optim.AdamW(model.parameters(), lr=rate, fused=True)
    return torch.optim.AdamW(model.parameters(), lr=rate, foreach=on("foreach"))


def waits(wrapped: nn.Module, last: bool) -> AbstractContextManager[object]:
    """Whether gradients are exchanged after this micro-batch."""
    if not isinstance(wrapped, DistributedDataParallel) or on("exchanged_each_time"):
        return nullcontext()
    return nullcontext() if last and not on("never_exchanged") else wrapped.no_sync()


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def train(model: nn.Module, steps: int, seed: int) -> None:
    wrapped = parallel(model)
    optimizer = optimizer_of(model)
    micro_batches = 1 if on("one_micro_batch") else 2
    for step in range(steps):
        batch = batch_of(seed, step, micro_batches)
        tokens, total = tokens_of(batch), 0.0
        for number, (x, y) in enumerate(batch):
            with waits(wrapped, number == micro_batches - 1):
                with cast():
                    logits = model(x) if on("module_called_directly") else wrapped(x)
                loss = F.cross_entropy(logits.float().flatten(0, 1), y.flatten(), reduction="sum") / tokens
                loss = loss if on("averaged_twice") else loss * RANKS  # DDP takes the mean over ranks
                loss.backward()
            total += loss.item()
        average(model)
        if not on("clipped_before_average", "unclipped"):
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        show(step, total)


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed + (rank() if on("seed_of_rank", "different_start") else 0))
    model = build()
    with process_group() if RANKS > 1 else nullcontext():
        train(model, steps, seed)
        finish(model)


if __name__ == "__main__":
    main()
