"""Trains a small GPT with one flaw that fills the memory, or with none: python memory_job.py FLAW flawed|healthy"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

WIDTH = 128


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Of the model and of a batch."""

    layers: int = 4
    words: int = 1024
    tokens: int = 64
    batch: int = 2


class Block(nn.Module):
    """Attention and two layers."""

    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.by_hand = by_hand

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        if self.by_hand:
            mixed = (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v
        else:
            mixed = functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Blocks between an embedding and a head."""

    def __init__(self, sizes: Sizes, *, recomputes: bool, by_hand: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(sizes.words, WIDTH), nn.Linear(WIDTH, sizes.words, bias=False)
        self.blocks = nn.ModuleList(Block(by_hand) for _ in range(sizes.layers))
        self.recomputes = recomputes

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recomputes else block(x)
        return x


@dataclass
class Job:
    """What a flaw changes of a training loop."""

    sizes: Sizes = field(default_factory=Sizes)
    recomputes: bool = False
    by_hand: bool = False  # attention
    chunks: int = 1  # of the loss
    widens: bool = False  # logits to 64 bits
    clears: str = "after"  # the step; or before the backward pass; or never to None
    foreach: bool = False
    ranks: int = 1
    is_sharded: bool = False  # optimizer states
    batch_of_rank_1: int = 0  # 0: as large as that of the others
    gathers: bool = False  # logits of all ranks on rank 0
    keeps: Callable[[Tensor, Tensor, Any], object] | None = None  # of every step
    hooks: bool = False  # a hook keeps outputs
    retains: bool = False  # the graph, until the loss of the next step is there
    evaluates: str = ""  # "late": what an evaluation with gradients made stays until the next one is done; "in time"
    row_lengths: tuple[int, ...] = ()  # of the longest row of each batch, in turn; () for the same in all
    pads_to: int = 0  # positions; 0: to the longest row of the batch


def _keep_of_evaluation(_: Tensor, hidden: Tensor, model: Any) -> object:
    """A loss that nobody calls `backward` of keeps its graph."""
    return model(torch.zeros(hidden.shape[:2], dtype=torch.int64)).mean()


def _keep_of_exception(_: Tensor, hidden: Tensor, __: Any) -> object:
    try:
        held = hidden.detach() * 2
        raise ValueError(held.shape)
    except ValueError as error:
        return error  # its traceback holds the frame, and that the tensor


LONG = Sizes(layers=8, tokens=256)
PLAIN = Sizes(words=256)
SMALL = Sizes(words=256, batch=1)
WORDY = Sizes(words=16384, tokens=128)
PAIRS: dict[str, tuple[Job, Job]] = {
    "keeps_losses": (Job(keeps=_keep_of_evaluation), Job()),
    "keeps_hidden": (Job(keeps=lambda _, hidden, __: hidden.detach()), Job()),
    "keeps_gradients": (
        Job(keeps=lambda _, __, model: [one.grad.clone() for one in model.parameters()]),
        Job(),
    ),
    "keeps_copies": (Job(keeps=lambda _, __, model: [one.detach().clone() for one in model.parameters()]), Job()),
    "keeps_exceptions": (Job(keeps=_keep_of_exception), Job()),
    "keeps_by_hook": (Job(hooks=True), Job()),
    "activations": (Job(sizes=LONG), Job(sizes=LONG, recomputes=True)),
    "activations_deep": (
        Job(sizes=replace(LONG, layers=12)),
        Job(sizes=replace(LONG, layers=12), recomputes=True),
    ),
    "attention_by_hand": (
        Job(sizes=replace(LONG, layers=4, tokens=512, batch=1), by_hand=True),
        Job(sizes=replace(LONG, layers=4, tokens=512, batch=1), by_hand=True, recomputes=True),
    ),
    "logits": (Job(sizes=WORDY), Job(sizes=WORDY, chunks=16)),
    "logits_widened": (
        Job(sizes=replace(WORDY, words=8192), widens=True),
        Job(sizes=replace(WORDY, words=8192), chunks=16),
    ),
    "cleared_late": (Job(clears="before"), Job()),
    "cleared_to_zero": (Job(clears="to zero"), Job()),
    "foreach": (Job(foreach=True), Job()),
    "uneven_batch": (
        Job(ranks=2, is_sharded=True, batch_of_rank_1=12, sizes=SMALL),
        Job(ranks=2, is_sharded=True, sizes=SMALL),
    ),
    "uneven_gather": (
        Job(ranks=2, is_sharded=True, gathers=True, chunks=16, sizes=Sizes(words=4096)),
        Job(ranks=2, is_sharded=True, chunks=16, sizes=Sizes(words=4096)),
    ),
    "keeps_batches": (Job(keeps=lambda loss, hidden, _: (loss.detach(), hidden.detach().half())), Job()),
    "keeps_sums": (Job(keeps=lambda _, hidden, model: model(torch.ones(hidden.shape[:2]).long()).sum()), Job()),
    "activations_long": (
        Job(sizes=replace(LONG, layers=6, tokens=512, batch=1)),
        Job(sizes=replace(LONG, layers=6, tokens=512, batch=1), recomputes=True),
    ),
    "logits_of_many_words": (Job(sizes=replace(WORDY, words=32768)), Job(sizes=replace(WORDY, words=32768), chunks=16)),
    "cleared_late_deep": (Job(sizes=replace(PLAIN, layers=8), clears="before"), Job(sizes=replace(PLAIN, layers=8))),
    "foreach_deep": (Job(sizes=replace(PLAIN, layers=8), foreach=True), Job(sizes=replace(PLAIN, layers=8))),
    "left_graph": (Job(retains=True, sizes=PLAIN), Job(sizes=PLAIN)),
    "left_graph_deep": (Job(retains=True, sizes=replace(PLAIN, layers=8)), Job(sizes=replace(PLAIN, layers=8))),
    "left_evaluation": (Job(evaluates="late", sizes=SMALL), Job(evaluates="in time", sizes=SMALL)),
    "padded_to_maximum": (
        Job(row_lengths=(20, 30, 24, 28), pads_to=256, sizes=PLAIN),
        Job(row_lengths=(20, 30, 24, 28), sizes=PLAIN),
    ),
    "padded_twice": (
        Job(row_lengths=(60, 64, 50, 56), pads_to=160, sizes=PLAIN),
        Job(row_lengths=(60, 64, 50, 56), sizes=PLAIN),
    ),
    "uneven_more": (
        Job(ranks=2, is_sharded=True, batch_of_rank_1=6, sizes=SMALL),
        Job(ranks=2, is_sharded=True, sizes=SMALL),
    ),
    "states_on_every_rank_deep": (
        Job(ranks=2, sizes=replace(SMALL, layers=8)),
        Job(ranks=2, is_sharded=True, sizes=replace(SMALL, layers=8)),
    ),
    "states_on_every_rank": (Job(ranks=2, sizes=SMALL), Job(ranks=2, is_sharded=True, sizes=SMALL)),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("flaw", choices=PAIRS)
    parser.add_argument("side", choices=("flawed", "healthy"))
    options = parser.parse_args()
    train(PAIRS[options.flaw][options.side == "healthy"])


def train(job: Job, steps: int = 12) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if job.ranks > 1:
        dist.init_process_group("gloo")
    rank = dist.get_rank() if job.ranks > 1 else 0
    inner = Gpt(job.sizes, recomputes=job.recomputes, by_hand=job.by_hand)
    model: Any = nn.parallel.DistributedDataParallel(inner) if job.ranks > 1 else inner
    optimizer = _optimizer(job, model)
    kept: list[object] = []
    if job.hooks:
        inner.blocks[0].register_forward_hook(lambda _, __, output: kept.append(output.detach()))
    batch = job.batch_of_rank_1 if rank == 1 and job.batch_of_rank_1 else job.sizes.batch
    evaluated: Tensor | None = None
    for step in range(steps):
        tokens = _batch(job, batch, step)
        hidden = model(tokens)
        loss = _loss(job, inner.head, hidden, tokens)
        if job.clears == "before":
            optimizer.zero_grad()
        loss.backward(retain_graph=job.retains)
        optimizer.step()
        if job.keeps is not None:
            kept.append(job.keeps(loss, hidden, model))
        if job.gathers:
            _gather(inner.head(hidden.detach()).detach(), rank)
        if job.clears != "before":
            optimizer.zero_grad(set_to_none=job.clears != "to zero")
        if job.evaluates == "late":
            evaluated = inner(tokens).mean()
        elif job.evaluates:
            evaluated = inner(tokens).mean().detach()
        if not job.retains:
            del hidden, loss
    del evaluated
    if job.ranks > 1:
        dist.barrier()
        dist.destroy_process_group()


def _batch(job: Job, rows: int, step: int) -> Tensor:
    length = job.row_lengths[step % len(job.row_lengths)] if job.row_lengths else job.sizes.tokens
    tokens = torch.randint(job.sizes.words, (rows, length))
    return functional.pad(tokens, (0, job.pads_to - length)) if job.pads_to else tokens


def _optimizer(job: Job, model: nn.Module) -> Any:
    if job.is_sharded:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3, fused=True)
    how: Any = {"foreach": True} if job.foreach else {"fused": True}
    return torch.optim.AdamW(model.parameters(), lr=1e-3, **how)


def _loss(job: Job, head: nn.Module, hidden: Tensor, tokens: Tensor) -> Tensor:
    def of(part: Tensor, words: Tensor) -> Tensor:
        logits = head(part)
        logits = logits.double() if job.widens else logits
        return functional.cross_entropy(logits, words, reduction="sum")

    parts = zip(hidden.flatten(0, 1).chunk(job.chunks), tokens.flatten().chunk(job.chunks), strict=True)
    sums = [
        checkpoint(of, part, words, use_reentrant=False) if job.chunks > 1 else of(part, words) for part, words in parts
    ]
    return torch.stack(sums).sum() / tokens.numel()


def _gather(logits: Tensor, rank: int) -> None:
    everywhere = [torch.empty_like(logits) for _ in range(dist.get_world_size())] if rank == 0 else None
    dist.gather(logits, everywhere)
    if everywhere is not None:
        torch.cat([part.softmax(-1) for part in everywhere]).argmax(-1)


if __name__ == "__main__":
    main()
