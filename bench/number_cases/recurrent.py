"""Train a translator: a recurrent encoder and decoder with attention over sources of different lengths."""

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, show

WIDTH, VOCABULARY, SOURCE, TARGET, BATCH = 32, 64, 10, 8, 8
PADDING, START = 0, 1
LARGEST_NORM = 0.05


class Cell(nn.Module):
    """A gated recurrent unit."""

    def __init__(self) -> None:
        super().__init__()
        self.inputs, self.hidden = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor, h: Tensor, given: Tensor | None = None) -> Tensor:
        if on("library_cell"):
            weights = (self.inputs.weight, self.hidden.weight, self.inputs.bias, self.hidden.bias)
            return torch.gru_cell(x, h, *weights)
        from_input = self.inputs(x) if given is None else given
        reset_x, update_x, new_x = from_input.split(WIDTH, -1)
        reset_h, update_h, new_h = self.hidden(h).chunk(3, -1)
        reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
        if on("reset_before_product"):
            new_h = F.linear(reset * h, self.hidden.weight[2 * WIDTH :], self.hidden.bias[2 * WIDTH :])
            reset = torch.ones_like(reset)
        new = (new_x + reset * new_h).tanh()
        if on("update_gate_swapped"):
            return (1 - update) * h + update * new
        if on("update_by_lerp"):
            return torch.lerp(new, h, update)
        return (1 - update) * new + update * h


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PADDING), Cell()
        self.last = torch.zeros(BATCH, WIDTH)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        x = self.embed(tokens)
        h = self.last if on("state_carried_over") else torch.zeros(BATCH, WIDTH)
        all_inputs = self.cell.inputs(x) if on("inputs_at_once") else None
        states = []
        for place in range(tokens.shape[1]):
            if on("checkpointed_cell"):
                new = checkpoint(self.cell, x[:, place], h, use_reentrant=False)
            else:
                new = self.cell(x[:, place], h, None if all_inputs is None else all_inputs[:, place])
            live = (tokens[:, place] != PADDING)[:, None]
            if on("padding_not_skipped"):
                h = new
            elif on("masked_by_product"):
                h = live * new + ~live * h
            else:
                h = torch.where(live, new, h)
            if on("truncated_at_half") and place == SOURCE // 2:
                h = h.detach()
            states.append(h)
        self.last = h.detach()
        return torch.stack(states, 1), h


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.cell = nn.Embedding(VOCABULARY, WIDTH), Cell()
        self.query, self.combine = nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(2 * WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def attend(self, h: Tensor, states: Tensor, live: Tensor) -> Tensor:
        query = self.query(h)
        if on("library_attention"):
            return F.scaled_dot_product_attention(query[:, None], states, states, live[:, None])[:, 0]
        if on("einsum_attention"):
            scores = torch.einsum("bd,bsd->bs", query, states)
        else:
            scores = torch.bmm(states, query[:, :, None])[:, :, 0]
        scores = scores if on("attention_not_scaled") else scores / WIDTH**0.5
        if on("large_negative_mask"):
            scores = scores + (~live) * -1e9
        elif not on("padding_attended"):
            scores = scores.masked_fill(~live, float("-inf"))
        return torch.bmm(scores.softmax(-1)[:, None], states)[:, 0]

    def forward(self, tokens: Tensor, states: Tensor, h: Tensor, live: Tensor) -> Tensor:
        x, outputs = self.embed(tokens), []
        h = torch.zeros_like(h) if on("decoder_starts_empty") else h
        for place in range(tokens.shape[1]):
            h = self.cell(x[:, place], h)
            context = self.attend(h, states.detach() if on("states_detached") else states, live)
            outputs.append(self.combine(torch.cat([h, context], -1)).tanh())
        return self.head(torch.stack(outputs, 1))


class Translator(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, h = self.encoder(source)
        return self.decoder(target, states, h, source != PADDING)


def build() -> nn.Module:
    return Translator()


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Sources and targets; rows end at different lengths."""
    drawn = generator(seed, step)
    source = torch.randint(2, VOCABULARY, (BATCH, SOURCE), generator=drawn)
    target = (source[:, :TARGET] * 3) % (VOCABULARY - 2) + 2
    for row in range(BATCH):
        source[row, SOURCE - row % 5 :] = PADDING if row % 5 else source[row, SOURCE:]
        target[row, TARGET - row % 4 :] = PADDING if row % 4 else target[row, TARGET:]
    return source, target


def loss_of(logits: Tensor, target: Tensor) -> Tensor:
    if on("padding_in_mean"):
        return (
            F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING, reduction="sum")
            / target.numel()
        )
    if on("loss_by_place"):
        parts = [
            F.cross_entropy(logits[:, place], target[:, place], ignore_index=PADDING, reduction="sum")
            for place in range(TARGET)
        ]
        return torch.stack(parts).sum() / (target != PADDING).sum()
    if on("gathered_loss"):
        live = target != PADDING
        return -logits.log_softmax(-1).gather(-1, target[:, :, None])[:, :, 0][live].mean()
    return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PADDING)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    if on("fused"):
        return torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    amsgrad, eps = on("amsgrad"), 1e-5 if on("adam_eps") else 1e-8
    return torch.optim.Adam(model.parameters(), lr=3e-3, eps=eps, amsgrad=amsgrad, foreach=on("foreach"))


def clip(model: nn.Module) -> None:
    if on("clipped_by_value"):
        nn.utils.clip_grad_value_(model.parameters(), LARGEST_NORM)
    elif on("clipped_by_module"):
        for part in model.children():
            nn.utils.clip_grad_norm_(part.parameters(), LARGEST_NORM)
    elif on("clipped_by_hand"):
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = torch.cat([g.flatten() for g in gradients]).norm()
        torch._foreach_mul_(gradients, (LARGEST_NORM / (norm + 1e-6)).clamp(max=1.0))
    else:
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_NORM)


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    optimizer = optimizer_of(model)
    for step in range(steps):
        source, target = batch_of(seed, step)
        given = target if on("target_not_shifted") else F.pad(target[:, :-1], (1, 0), value=START)
        with cast():
            logits = model(source, given)
        loss = loss_of(logits.float(), target)
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        loss.backward()
        clip(model)
        optimizer.step()
        show(step, loss.detach())
    finish(model)


if __name__ == "__main__":
    main()
