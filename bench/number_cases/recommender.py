"""Train a recommender: bags of embeddings, pairwise interactions, two towers of layers, Adagrad."""

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

ROWS, WIDTH, DENSE, BATCH = (200, 300, 400), 16, 8, 64
LONGEST = 6
POSITIVE_WEIGHT = 3.0


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        padding = None if on("padding_row_trained") else 0
        kind = "mean" if on("mean_of_bag") else "sum"
        sparse = on("sparse_gradients")
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, WIDTH, mode=kind if number == 0 else "sum", sparse=sparse, padding_idx=padding)
            for number, rows in enumerate(ROWS)
        )
        self.dense_up, self.dense_down = nn.Linear(DENSE, 32), nn.Linear(32, WIDTH)
        self.top_up, self.top_down = nn.Linear(WIDTH + 6, 32), nn.Linear(32, 1)
        table: Any
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.3)
            with torch.no_grad():
                table.weight[0] = 0

    def pooled(self, number: int, items: Tensor, offsets: Tensor, weights: Tensor) -> Tensor:
        table: Any = self.tables[number]
        sample_weights = weights if number == 2 and not on("sample_weights_ignored") else None
        if on("embedding_and_index_add"):
            rows = F.embedding(items, table.weight, padding_idx=0)
            if sample_weights is not None:
                rows = rows * sample_weights[:, None]
            ends = torch.cat([offsets[1:], torch.tensor([len(items)])])
            bags = torch.repeat_interleave(torch.arange(BATCH), ends - offsets)
            return torch.zeros(BATCH, WIDTH).index_add(0, bags, rows)
        if sample_weights is not None:
            sample_weights = sample_weights.to(table.weight.dtype)
        return table(items, offsets, per_sample_weights=sample_weights).float()

    def interact(self, features: Tensor) -> Tensor:
        """Products of all pairs of features."""
        if on("interaction_by_einsum"):
            products = torch.einsum("bid,bjd->bij", features, features)
        else:
            products = torch.bmm(features, features.mT)
        below = torch.tril_indices(4, 4, -1)
        if on("pairs_by_mask"):
            return products[:, torch.ones(4, 4, dtype=torch.bool).tril(-1)]
        if on("pairs_in_other_order"):
            below = torch.triu_indices(4, 4, 1)
        return products[:, below[0], below[1]]

    def forward(self, dense: Tensor, bags: list[tuple[Tensor, Tensor, Tensor]]) -> Tensor:
        bottom = self.dense_down(self.dense_up(dense).relu()).relu()
        pooled = [self.pooled(number, *bag) for number, bag in enumerate(bags)]
        if on("pooled_in_bf16"):
            pooled = [part.bfloat16().float() for part in pooled]
        features = torch.stack([bottom, *pooled], 1)
        if on("embeddings_detached"):
            features = torch.stack([bottom, *(part.detach() for part in pooled)], 1)
        x = torch.cat([bottom, self.interact(features)], 1)
        if on("checkpointed_top"):
            return checkpoint(lambda y: self.top_down(self.top_up(y).relu()), x, use_reentrant=False).squeeze(1)
        return self.top_down(self.top_up(x).relu()).squeeze(1)


def build() -> nn.Module:
    model = Recommender()
    if on("bf16_tables"):
        model.tables.bfloat16()
    return model


def bag_of(number: int, source: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Items of all bags in a row, where each bag begins, and a weight of each item."""
    lengths = torch.randint(1, LONGEST + 1, (BATCH,), generator=source)
    items = torch.randint(0, 10_000, (int(lengths.sum()),), generator=source)
    items %= ROWS[number] - (1 if on("hash_modulus") and number == 1 else 0)
    items[::9] = 0  # padding
    weights = torch.rand(len(items), generator=source)
    offsets = lengths.cumsum(0) - lengths
    if on("offsets_off_by_one") and number == 0:
        offsets[1:] -= 1
    if on("sorted_bags"):
        ends = [*offsets[1:].tolist(), len(items)]
        order = torch.cat([items[a:b].argsort(stable=True) + a for a, b in zip(offsets.tolist(), ends, strict=True)])
        items, weights = items[order], weights[order]
    return items, offsets, weights


def batch_of(seed: int, step: int) -> tuple[Tensor, list[tuple[Tensor, Tensor, Tensor]], Tensor]:
    source = generator(seed, step)
    dense = torch.rand(BATCH, DENSE, generator=source) * 20
    bags = [bag_of(number, source) for number in range(len(ROWS))]
    clicked = (torch.rand(BATCH, generator=source) < 0.3).float()
    if on("log_by_hand"):
        return (1 + dense).log(), bags, clicked
    return (dense if on("features_not_logged") else dense.log1p()), bags, clicked


def loss_of(logits: Tensor, clicked: Tensor) -> Tensor:
    if on("loss_by_hand"):
        parts = POSITIVE_WEIGHT * clicked * F.softplus(-logits) + (1 - clicked) * F.softplus(logits)
        return parts.mean()
    if on("sigmoid_twice"):
        logits = logits.sigmoid()
    weight = None if on("positive_weight_lost") else torch.tensor(POSITIVE_WEIGHT)
    return F.binary_cross_entropy_with_logits(logits, clicked, pos_weight=weight)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    parameters = [p for n, p in model.named_parameters() if not (on("table_left_out") and n == "tables.1.weight")]
    if on("fused"):
        return torch.optim.Adagrad(parameters, lr=0.02, fused=True)
    start = 0.1 if on("accumulator_start") else 0.0
    eps = 1e-6 if on("adagrad_eps") else 1e-10
    return torch.optim.Adagrad(parameters, lr=0.02, initial_accumulator_value=start, eps=eps, foreach=on("foreach"))


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    optimizer = optimizer_of(model)
    for step in range(steps):
        dense, bags, clicked = batch_of(seed, step)
        with cast():
            logits = model(dense, bags)
        loss = loss_of(logits.float(), clicked)
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        loss.backward()
        optimizer.step()
        if on("accumulators_reset") and step == 1:
            optimizer = optimizer_of(model)
        show(step, loss.detach())
    finish(model)


if __name__ == "__main__":
    main()
