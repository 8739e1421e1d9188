"""Train a diffusion transformer: timestep and class embeddings, adaLN, noise prediction, EMA for evaluation."""

import math
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.number_cases.common import arguments, finish, generator, on, show

WIDTH, HEADS, LAYERS, CLASSES, BATCH = 64, 4, 2, 10, 8
CHANNELS, SIDE, PATCH = 3, 12, 3
TIMES = 1000
DECAY = 0.9


def frequencies() -> Tensor:
    half, period = WIDTH // 2, 1000.0 if on("time_period") else 10_000.0
    if on("frequencies_by_power"):
        return period ** (-torch.arange(half, dtype=torch.float32) / half)
    return torch.exp(-math.log(period) * torch.arange(half, dtype=torch.float32) / half)


def time_embedding(times: Tensor) -> Tensor:
    times = times.bfloat16().float() if on("times_in_bf16") else times.float()
    angles = times[:, None] * frequencies()
    parts = [angles.cos(), angles.sin()]
    return torch.cat(parts[::-1] if on("sine_before_cosine") else parts, -1)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    shift, scale = shift[:, None], scale[:, None]
    if on("scale_without_one"):
        return x * scale + shift
    if on("addcmul"):
        return torch.addcmul(shift, x, 1 + scale)
    return x * (1 + scale) + shift


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        if on("manual_attention", "softmax_over_queries"):
            scores = q @ k.mT / math.sqrt(q.shape[-1])
            y = scores.softmax(-2 if on("softmax_over_queries") else -1) @ v
        elif on("heads_in_batch"):
            flat = [part.flatten(0, 1) for part in (q, k, v)]
            weights = torch.baddbmm(torch.zeros(1), flat[0], flat[1].mT, beta=0, alpha=q.shape[-1] ** -0.5).softmax(-1)
            y = torch.bmm(weights, flat[2]).unflatten(0, (-1, HEADS))
        else:
            y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        eps = 1e-5 if on("layer_norm_eps") else 1e-6
        self.norm1 = nn.LayerNorm(WIDTH, eps, elementwise_affine=False)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps, elementwise_affine=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.modulation = nn.Linear(WIDTH, 6 * WIDTH)

    def parts(self, condition: Tensor) -> tuple[Tensor, ...]:
        whole = self.modulation(F.silu(condition))
        parts = whole.unflatten(-1, (6, WIDTH)).unbind(1) if on("unbound_modulation") else whole.chunk(6, -1)
        if on("shift_and_scale_swapped"):
            parts = (parts[1], parts[0], *parts[2:])
        return parts

    def forward(self, x: Tensor, condition: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.parts(condition)
        change = torch.compile(modulate) if on("compiled_modulation") else modulate
        x = x + gate1[:, None] * self.attention(change(self.norm1(x), shift1, scale1))
        y = self.up(change(self.norm2(x), shift2, scale2))
        y = self.down(F.gelu(y, approximate="none" if on("exact_gelu") else "tanh"))
        return x + (y if on("gate_missing") else gate2[:, None] * y)


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, WIDTH, PATCH, PATCH)
        self.position = nn.Parameter(torch.randn(1, (SIDE // PATCH) ** 2, WIDTH) * 0.1)
        self.time_up, self.time_down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.label = nn.Embedding(CLASSES + 1, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, 1e-6, elementwise_affine=False)
        self.modulation = nn.Linear(WIDTH, 2 * WIDTH)
        self.head = nn.Linear(WIDTH, PATCH * PATCH * CHANNELS)

    def embed(self, images: Tensor) -> Tensor:
        if on("patches_by_unfold"):
            columns = F.unfold(images, PATCH, stride=PATCH).transpose(1, 2)
            return F.linear(columns, self.patches.weight.flatten(1), self.patches.bias) + self.position
        return self.patches(images).flatten(2).transpose(1, 2) + self.position

    def forward(self, images: Tensor, times: Tensor, labels: Tensor) -> Tensor:
        x = self.embed(images)
        condition = self.time_down(F.silu(self.time_up(time_embedding(times)))) + self.label(labels)
        for block in self.blocks:
            if on("checkpoint"):
                x = checkpoint(block, x, condition, use_reentrant=False)
            else:
                x = block(x, condition)
        last = condition.detach() if on("condition_detached") else condition
        x = self.head(modulate(self.norm(x), *self.modulation(F.silu(last)).chunk(2, -1)))
        x = x.unflatten(1, (SIDE // PATCH, -1)).unflatten(3, (PATCH, PATCH, CHANNELS))
        order = (0, 5, 1, 4, 2, 3) if on("patches_transposed") else (0, 5, 1, 3, 2, 4)
        return x.permute(order).flatten(4, 5).flatten(2, 3)


def build() -> nn.Module:
    model = Transformer()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.05)
    return model


def signal_shares() -> Tensor:
    """What is left of the image at each time."""
    kind = torch.float64 if on("schedule_in_fp64") else torch.float32
    return (1 - torch.linspace(1e-4, 0.02, TIMES, dtype=kind)).cumprod(0).float()


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Noisy images, their times, labels, and the noise."""
    source = generator(seed, step)
    images = torch.rand(BATCH, CHANNELS, SIDE, SIDE, generator=source) * 2 - 1
    labels = torch.randint(0, CLASSES, (BATCH,), generator=source)
    times = torch.randint(0, TIMES, (BATCH,), generator=source)
    noise = torch.randn(images.shape, generator=source)
    if on("same_noise_for_all"):
        noise = noise[:1].expand_as(noise)
    dropped = torch.rand(BATCH, generator=source) < 0.1
    share = signal_shares()[(times - 1).clamp(0) if on("previous_time") else times][:, None, None, None]
    if on("square_root_missing"):
        return images * share + noise * (1 - share), times, labels.masked_fill(dropped, CLASSES), noise
    return share.sqrt() * images + (1 - share).sqrt() * noise, times, labels.masked_fill(dropped, CLASSES), noise


def loss_of(predicted: Tensor, noise: Tensor) -> Tensor:
    if on("loss_in_bf16"):
        return F.mse_loss(predicted.bfloat16(), noise.bfloat16())
    predicted = predicted.float()
    if on("loss_by_hand"):
        return (predicted - noise).square().flatten(1).mean(1).mean()
    if on("mean_over_batch_only"):
        return (predicted - noise).square().flatten(1).sum(1).mean()
    return F.mse_loss(predicted, noise)


class Average:
    """An exponential average of the parameters, which takes their place in evaluation."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.kept = [parameter.detach().clone() for parameter in model.parameters()]

    @torch.no_grad()
    def update(self) -> None:
        live: list[Tensor] = list(self.model.parameters())
        if on("average_foreach"):
            torch._foreach_lerp_(self.kept, live, 1 - DECAY)
            return
        for kept, parameter in zip(self.kept, live, strict=True):
            if on("average_by_lerp"):
                kept.lerp_(parameter, 1 - DECAY)
            else:
                weight = 1 - DECAY if on("average_swapped") else DECAY
                kept.mul_(weight).add_(parameter, alpha=1 - weight)

    @torch.no_grad()
    def swap(self) -> None:
        for kept, parameter in zip(self.kept, self.model.parameters(), strict=True):
            live = parameter.clone()
            parameter.copy_(kept)
            kept.copy_(live)


def evaluate(model: nn.Module, average: Average, seed: int, step: int) -> None:
    images, times, labels, noise = batch_of(seed, 1_000_000 + step)
    average.swap()
    with torch.no_grad():
        show(step, F.mse_loss(model(images, times, labels), noise), "evaluation")
    if not on("average_not_restored"):
        average.swap()


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    if on("fused"):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    betas = (0.9, 0.95) if on("beta2") else (0.9, 0.999)
    eps = 1e-6 if on("adam_eps") else 1e-8
    return torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=betas, eps=eps, weight_decay=0.01, foreach=on("foreach")
    )


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    optimizer, average = optimizer_of(model), Average(model)
    for step in range(steps):
        images, times, labels, noise = batch_of(seed, step)
        with cast():
            predicted = model(images, times, labels)
        loss = loss_of(predicted, noise)
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        loss.backward()
        optimizer.step()
        average.update()
        show(step, loss.detach())
        if step % 2:
            evaluate(model, average, seed, step)
    finish(model)


if __name__ == "__main__":
    main()
