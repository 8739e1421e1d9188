"""Train a tiny GPT: RMSNorm, rotary positions, tied embedding, AdamW, clipping, accumulation, warm-up."""

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, show

WIDTH, HEADS, LAYERS, VOCABULARY, LENGTH, BATCH = 64, 4, 2, 256, 32, 8
SIZE = WIDTH // HEADS
PADDING = -100


class RMSNorm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        eps = 1e-3 if on("norm_eps") else 1e-5
        if on("functional_norm"):
            return F.rms_norm(x, (WIDTH,), self.weight, eps)
        if on("norm_in_bf16"):
            x = x.bfloat16()
        square = x.square().mean(-1, keepdim=True)
        if on("norm_eps_outside"):
            return x / (square.sqrt() + eps) * self.weight
        if on("norm_by_division"):
            return x / torch.sqrt(square + eps) * self.weight
        return x * torch.rsqrt(square + eps) * self.weight


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Rotary positions on the two halves of each head."""
    positions = torch.arange(start, start + x.shape[2], dtype=torch.float32)
    angles = torch.outer(positions, 10_000.0 ** (-torch.arange(0, SIZE, 2) / SIZE))
    cos, sin = angles.cos(), angles.sin()
    if on("rotary_interleaved"):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    a, b = x.chunk(2, -1)
    if on("rotary_complex"):
        turned = torch.complex(a.float(), b.float()) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1).to(x.dtype)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def mask_of(length: int) -> Tensor:
    """What each query may see."""
    mask = torch.ones(length, length, dtype=torch.bool).tril(1 if on("mask_off_by_one") else 0)
    if on("one_mask_entry"):
        mask[-1, 0] = False
    return mask


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if on("no_mask"):
        return F.scaled_dot_product_attention(q, k, v)
    if on("mask_off_by_one", "one_mask_entry", "explicit_mask"):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask_of(q.shape[2]))
    if on("softmax_scale"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1 / SIZE)
    if on("manual_attention", "softmax_in_bf16"):
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(SIZE)
        scores = scores.masked_fill(~mask_of(q.shape[2]), float("-inf"))
        return (scores.bfloat16().softmax(-1).to(v.dtype) if on("softmax_in_bf16") else scores.softmax(-1)) @ v
    if on("einsum_attention"):
        scores = torch.einsum("bhqd,bhkd->bhqk", q * SIZE**-0.5, k)
        scores = scores + torch.zeros(mask_of(q.shape[2]).shape).masked_fill(~mask_of(q.shape[2]), float("-inf"))
        return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def project(self, x: Tensor) -> list[Tensor]:
        if on("one_projection"):
            weight = torch.cat([self.q.weight, self.k.weight, self.v.weight])
            parts = list(F.linear(x, weight).split(WIDTH, -1))
        else:
            parts = [self.q(x), self.k(x), self.v(x)]
        heads = [part.unflatten(-1, (HEADS, SIZE)).transpose(1, 2) for part in parts]
        return [part.contiguous() for part in heads] if on("contiguous_heads") else heads

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)
        start = 5 if on("rotary_both_shifted") else 0
        q, k = rotate(q, start), rotate(k, start + (1 if on("rotary_keys_shifted") else 0))
        return self.out(attend(q, k, v).transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, 3 * WIDTH, bias=False) for _ in range(2))
        self.down = nn.Linear(3 * WIDTH, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if on("silu_by_hand"):
            gate = self.gate(x)
            return self.down(gate * torch.sigmoid(gate) * self.up(x))
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = RMSNorm(), Attention(), RMSNorm(), MLP()
        self.dropout = nn.Dropout(0.1 if on("dropout") else 0.0)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = RMSNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            if on("checkpoint_reentrant"):
                x = checkpoint(block, x, use_reentrant=True)
            elif on("checkpoint", "checkpoint_other_dropout"):
                keep = not on("checkpoint_other_dropout")
                x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=keep)
            else:
                x = block(x)
        return self.head(self.norm(x))


def build() -> nn.Module:
    model: Any = GPT()
    if on("untied"):
        model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
    if on("large_activations"):  # as those of some trained models are
        with torch.no_grad():
            model.blocks[0].mlp.down.weight *= 1e6
    if on("compiled_mlp"):
        for block in model.blocks:
            block.mlp.compile()
    return model.bfloat16() if on("bf16_parameters") else model


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Tokens and what follows each; rows end at different lengths."""
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator(seed, step))
    labels = (tokens * 7 + 3) % VOCABULARY
    for row in range(1, BATCH):
        labels[row, LENGTH - 3 * row :] = PADDING
    if on("labels_shifted_twice"):
        labels = F.pad(labels[:, 1:], (0, 1), value=PADDING)
    if on("other_row_order"):  # within micro-batches
        order = torch.tensor([2, 0, 3, 1, 7, 4, 6, 5])
        tokens, labels = tokens[order], labels[order]
    return tokens, labels


def loss_of(logits: Tensor, labels: Tensor, tokens: Tensor, micro_batches: int) -> Tensor:
    """The share of a micro-batch in the mean over all tokens of the step."""
    logits, labels = logits.flatten(0, 1), labels.flatten()
    if not on("bf16_loss"):
        logits = logits.float()
    if on("mean_of_means"):
        return F.cross_entropy(logits, labels) / micro_batches
    if on("not_divided"):
        return F.cross_entropy(logits, labels, reduction="sum") / (labels != PADDING).sum()
    if on("padding_in_mean"):
        return F.cross_entropy(logits, labels, reduction="sum") / (labels.numel() * micro_batches)
    if on("log_softmax_loss"):
        return F.nll_loss(logits.log_softmax(-1), labels, reduction="sum") / tokens
    if on("chunked_loss"):
        parts = zip(logits.chunk(4), labels.chunk(4), strict=True)
        return torch.stack([F.cross_entropy(x, y, reduction="sum") for x, y in parts]).sum() / tokens
    return (F.cross_entropy(logits, labels, reduction="sum") / tokens).float()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    parameters = list(model.parameters())
    if on("parameters_reversed"):
        parameters.reverse()
    matrices, vectors = ([p for p in parameters if (p.dim() > 1) == wanted] for wanted in (True, False))
    groups = [
        {"params": matrices, "weight_decay": 0.1},
        {"params": vectors, "weight_decay": 0.1 if on("decay_on_norms") else 0.0},
    ]
    if on("fused"):
        return torch.optim.AdamW(groups, lr=1e-3, fused=True)
    betas = (0.9, 0.99) if on("beta2") else (0.9, 0.999)
    kind = torch.optim.Adam if on("coupled_decay") else torch.optim.AdamW
    return kind(groups, lr=1e-3, betas=betas, eps=1e-6 if on("adam_eps") else 1e-8, foreach=on("foreach"))


def warm_up(step: int) -> float:
    return min(1.0, (step + (2 if on("warm_up_off_by_one") else 1)) / 8)


def clip(model: nn.Module) -> None:
    if on("clip_while_scaled"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if on("loss_scaling", "clip_while_scaled"):
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad /= 1024
    if not on("clip_while_scaled"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=on("foreach_clip"))


def change_state(optimizer: torch.optim.Optimizer) -> None:
    """What was done to the optimizer's state between steps."""
    for state in optimizer.state.values():
        if on("step_count_lost"):
            state["step"].zero_()
        if on("bf16_optimizer_state"):
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].copy_(state[name].bfloat16())


def clear(optimizer: torch.optim.Optimizer, model: nn.Module, step: int) -> None:
    if on("zero_grad_forgotten_once") and step == 1:
        return
    if on("one_gradient_kept"):
        for name, parameter in model.named_parameters():
            if name != "norm.weight":
                parameter.grad = None
        return
    optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))


def cast() -> AbstractContextManager[object]:
    if on("bf16", "bf16_loss"):
        return torch.autocast("cpu", torch.bfloat16)
    return torch.autocast("cpu", torch.float16) if on("fp16") else nullcontext()


def micro_batches_of_a_step() -> int:
    if on("one_micro_batch"):
        return 1
    return 4 if on("four_micro_batches") else 2


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm_up)
    micro_batches = micro_batches_of_a_step()
    for step in range(steps):
        tokens, labels = batch_of(seed, step)
        total = 0.0
        for x, y in zip(tokens.chunk(micro_batches), labels.chunk(micro_batches), strict=True):
            with cast():
                logits = model(x)
            loss = loss_of(logits, y, (labels != PADDING).sum(), micro_batches)
            (loss * 1024 if on("loss_scaling", "clip_while_scaled") else loss).backward()
            total += loss.item()
        clip(model)
        optimizer.step()
        change_state(optimizer)
        schedule.step()
        if on("schedule_twice"):
            schedule.step()
        clear(optimizer, model, step)
        show(step, total)
    finish(model)


if __name__ == "__main__":
    main()
