"""Train a small residual network on images: BatchNorm, SGD with momentum, label smoothing, evaluation between steps."""

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

CLASSES, BATCH, SIDE = 10, 16, 16
MEAN, DEVIATION = 0.4, 0.25
SMOOTHING = 0.1


class Convolution(nn.Module):
    """Convolution, BatchNorm."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        eps = 1e-3 if on("batch_norm_eps") else 1e-5
        self.bn = nn.BatchNorm2d(outputs, eps, momentum=0.9 if on("momentum_swapped") else 0.1)

    def forward(self, x: Tensor) -> Tensor:
        if on("unfolded_convolution"):
            columns = F.unfold(x, 3, padding=1, stride=self.conv.stride)
            side = x.shape[2] // self.conv.stride[0]
            x = (self.conv.weight.flatten(1) @ columns).unflatten(2, (side, side))
        else:
            x = self.conv(x)
        if on("batch_norm_in_bf16"):
            return self.bn(x.bfloat16().float())
        return self.bn(x)


class Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = Convolution(inputs, outputs, stride), Convolution(outputs, outputs)
        self.shortcut = Convolution(inputs, outputs, stride) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        if on("relu_before_sum") and isinstance(self.shortcut, nn.Identity):
            y = self.second(self.first(x).relu())
            return y.relu_() + x
        y = self.first(x)
        y = self.second(y.relu_() if on("relu_in_place") else y.relu())
        shortcut = self.shortcut(x.detach() if on("shortcut_detached") else x)
        if on("sum_in_place"):
            return y.add_(shortcut).relu_()
        return (y + shortcut).relu()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = Convolution(3, 16)
        self.pool = nn.AvgPool2d(3, 2, 1, count_include_pad=on("padding_counted"))
        self.stages = nn.Sequential(Block(16, 16, 1), Block(16, 32, 2))
        self.head = nn.Linear(32 * 4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(self.stem(x).relu())
        if on("checkpointed_batch_norm"):
            x = checkpoint(self.stages, x, use_reentrant=False)
        elif on("checkpointed_head"):
            x = self.stages(x)
            return checkpoint(lambda y: self.head(F.avg_pool2d(y, 2).flatten(1)), x, use_reentrant=False)
        else:
            x = self.stages(x)
        x = x.unflatten(2, (2, 2)).unflatten(4, (2, 2)).mean((3, 5)) if on("pooled_by_mean") else F.avg_pool2d(x, 2)
        return self.head(x.permute(0, 2, 3, 1).flatten(1) if on("flattened_channels_last") else x.flatten(1))


def build() -> nn.Module:
    model: Any = Net()
    return model.to(memory_format=torch.channels_last) if on("channels_last") else model


def batch_of(seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Images whose brightest corner tells something of the class; half of them are flipped."""
    source = generator(seed, step)
    images = torch.rand(BATCH, 3, SIDE, SIDE, generator=source)
    labels = torch.randint(0, CLASSES, (BATCH,), generator=source)
    images += labels[:, None, None, None] / CLASSES * torch.linspace(0, 1, SIDE)
    flipped = torch.rand(BATCH, generator=source) < 0.5
    images[flipped] = (
        images[flipped][..., torch.arange(SIDE - 1, -1, -1)] if on("flip_by_index") else images[flipped].flip(3)
    )
    if on("folded_normalisation"):
        images = images * (1 / DEVIATION) - MEAN / DEVIATION
    else:
        images = (images - MEAN) / DEVIATION
    if on("normalised_twice"):
        images = (images - MEAN) / DEVIATION
    return (images.contiguous(memory_format=torch.channels_last) if on("channels_last") else images), labels


def loss_of(logits: Tensor, labels: Tensor) -> Tensor:
    if on("soft_targets"):
        target = F.one_hot(labels, CLASSES) * (1 - SMOOTHING) + SMOOTHING / CLASSES
        return -(target * logits.float().log_softmax(-1)).sum(-1).mean()
    if on("summed_loss"):
        return F.cross_entropy(logits.float(), labels, label_smoothing=SMOOTHING, reduction="sum") / len(labels)
    return F.cross_entropy(logits.float(), labels, label_smoothing=0.0 if on("no_label_smoothing") else SMOOTHING)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    groups = [
        {"params": decayed, "weight_decay": 5e-4},
        {"params": others, "weight_decay": 5e-3 if on("decay_on_batch_norm") else 0.0},
    ]
    if on("fused"):
        return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True, fused=True)
    nesterov = not on("no_nesterov")
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=nesterov, foreach=on("foreach"))


def evaluate(model: nn.Module, seed: int, step: int) -> None:
    images, labels = batch_of(seed, 1_000_000 + step)
    model.eval()
    with (
        nullcontext()
        if on("evaluated_with_gradients")
        else torch.inference_mode()
        if on("inference_mode")
        else torch.no_grad()
    ):
        show(step, F.cross_entropy(model(images), labels), "evaluation")
    if not on("left_in_eval"):
        model.train()


def cast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16) if on("bf16") else nullcontext()


def train(model: nn.Module, steps: int, seed: int) -> None:
    optimizer = optimizer_of(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    for step in range(steps):
        images, labels = batch_of(seed, step)
        with cast():
            logits = model(images)
        loss = loss_of(logits, labels)
        optimizer.zero_grad(set_to_none=not on("zero_grad_to_zero"))
        loss.backward()
        optimizer.step()
        schedule.step()
        if on("momentum_lost") and step == 1:
            optimizer.state.clear()
        show(step, loss.detach())
        if step % 2:
            evaluate(model, seed, step)


def main() -> None:
    steps, seed = arguments()
    torch.manual_seed(seed)
    model = build()
    if on("without_mkldnn"):
        torch.backends.mkldnn.set_flags(_enabled=False)
    train(model, steps, seed)
    finish(model)


if __name__ == "__main__":
    main()
