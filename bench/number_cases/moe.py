"""Train a mixture of experts: top-2 routing with capacity, a load-balancing loss and a loss on the router's logits."""

import math
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, show

WIDTH, HEADS, VOCABULARY, LENGTH, BATCH = 48, 4, 128, 16, 8
EXPERTS, CHOICES, CAPACITY = 4, 2, 1.25


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if on("manual_attention"):
            hidden = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
            y = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(hidden, float("-inf")).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.gelu(self.up(x)))


class Experts(nn.Module):
    """Two experts per token; what exceeds the capacity of an expert is dropped."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(MLP() for _ in range(EXPERTS))
        self.extra_loss = torch.zeros(())

    def logits(self, x: Tensor) -> Tensor:
        if on("router_in_bf16"):
            with torch.autocast("cpu", torch.bfloat16):
                return self.router(x).float()
        if on("router_in_fp64"):
            return F.linear(x.double(), self.router.weight.double()).float()
        return self.router(x)

    def weights(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Of each token's experts, and which they are."""
        if on("softmax_of_chosen"):
            chosen_logits, chosen = logits.topk(CHOICES, -1)
            return chosen_logits.softmax(-1), chosen
        weights, chosen = logits.softmax(-1).topk(CHOICES, -1)
        if on("weights_detached"):
            weights = weights.detach()
        if not on("not_renormalised"):
            weights = weights / weights.sum(-1, keepdim=True)
        return weights, chosen

    def kept(self, chosen: Tensor) -> Tensor:
        """Which choices fit; first choices go before second ones."""
        capacity = math.ceil(CAPACITY * len(chosen) * (1 if on("capacity_of_one_choice") else CHOICES) / EXPERTS)
        queue = F.one_hot(chosen.T.flatten(), EXPERTS)
        places = (queue.cumsum(0) * queue).sum(-1) - (0 if on("capacity_off_by_one") else 1)
        return (places < capacity).unflatten(0, (CHOICES, -1)).T

    def losses(self, logits: Tensor, chosen: Tensor) -> Tensor:
        if on("counted_by_bincount"):
            counts = torch.bincount(chosen[:, 0], minlength=EXPERTS).float()
        else:
            counts = F.one_hot(chosen[:, 1 if on("second_choices_counted") else 0], EXPERTS).float().sum(0)
        probabilities = logits.softmax(-1).mean(0)
        balance = (counts / len(chosen) * probabilities).sum() * (1 if on("balance_not_scaled") else EXPERTS)
        size = logits.exp().sum(-1).log() if on("logsumexp_by_hand") else logits.logsumexp(-1)
        return 0.01 * (balance.detach() if on("balance_detached") else balance) + 0.001 * size.square().mean()

    def run(self, number: int, x: Tensor) -> Tensor:
        expert = self.experts[number]
        if on("bf16_experts"):
            with torch.autocast("cpu", torch.bfloat16):
                return expert(x).float()
        return checkpoint(expert, x, use_reentrant=False) if on("checkpointed_experts") else expert(x)

    def forward(self, x: Tensor) -> Tensor:
        shape, x = x.shape, x.flatten(0, 1)
        logits = self.logits(x)
        weights, chosen = self.weights(logits)
        self.extra_loss = self.losses(logits, chosen)
        weights = weights * self.kept(chosen)
        if on("second_choice_lost"):
            weights = weights * torch.tensor([1.0, 0.0])
        if on("all_experts_on_all_tokens"):
            shares = torch.zeros(len(x), EXPERTS).scatter(1, chosen, weights)
            return torch.einsum("ne,end->nd", shares, torch.stack([self.run(e, x) for e in range(EXPERTS)])).view(shape)
        mixed = (
            self.sorted(x, weights, chosen)
            if on("sorted_tokens", "order_not_undone")
            else self.looped(x, weights, chosen)
        )
        return mixed.view(shape)

    def looped(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        mixed = torch.zeros_like(x)
        for number in reversed(range(EXPERTS)) if on("experts_reversed") else range(EXPERTS):
            token, choice = torch.where((chosen == number) & (weights > 0))
            share = weights[token, choice, None]
            if on("weights_before_expert"):
                part = self.run(number, x[token] * share)
            else:
                part = self.run(number, x[token]) * share
            if on("scatter_add"):
                mixed = mixed.scatter_add(0, token[:, None].expand_as(part), part)
            else:
                mixed = mixed.index_add(0, token, part)
        return mixed

    def sorted(self, x: Tensor, weights: Tensor, chosen: Tensor) -> Tensor:
        """Every choice is computed, in the order of experts; dropped ones have no weight."""
        order = chosen.flatten().argsort(stable=True)
        counts = torch.bincount(chosen.flatten(), minlength=EXPERTS).tolist()
        parts = x[order // CHOICES].split(counts)
        results = torch.cat([self.run(number, part) for number, part in enumerate(parts)])
        if not on("order_not_undone"):
            results = results[order.argsort()]
        return (results.unflatten(0, (-1, CHOICES)) * weights[:, :, None]).sum(1)


class Block(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.norm1, self.attention, self.norm2, self.mlp = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH), inner

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([Block(MLP()), Block(Experts())])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build() -> nn.Module:
    model = Model()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.1)
    return model


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH), generator=generator(seed, step))
    return tokens, (tokens * 5 + 1) % VOCABULARY


def change_gradients(model: nn.Module) -> None:
    if on("expert_gradients_halved"):  # as if two ranks held the same experts
        for name, parameter in model.named_parameters():
            if ".experts." in name and parameter.grad is not None:
                parameter.grad /= 2


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    if on("fused"):
        return torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True)
    return torch.optim.AdamW(model.parameters(), lr=2e-3, foreach=on("foreach"))


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model: Any = build()
    optimizer = optimizer_of(model)
    for step in range(steps):
        tokens, labels = batch_of(seed, step)
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        if not on("extra_loss_forgotten"):
            loss = loss + model.blocks[1].mlp.extra_loss
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        loss.backward()
        change_gradients(model)
        optimizer.step()
        show(step, loss.detach())
    finish(model)


if __name__ == "__main__":
    main()
