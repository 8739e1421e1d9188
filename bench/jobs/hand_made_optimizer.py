"""SGD with momentum and clipping as a Python loop with .item() per parameter; the twin uses torch.optim.SGD."""

import torch

from bench.common import Label, arguments, tower

LABEL = Label(cause="host/hand_made_optimizer", says=("optimizer", "foreach", "fused", "loop"))


def main(flawed: bool, steps: int) -> None:
    model = tower(128, 80)
    weights, inputs = list(model.parameters()), torch.randn(256, 128)
    momenta = [torch.zeros_like(weight) for weight in weights]
    optimizer = None if flawed else torch.optim.SGD(weights, lr=0.01, momentum=0.9, weight_decay=0.01, fused=True)
    for _ in range(steps):
        loss = model(inputs).square().mean()
        model.zero_grad()
        loss.backward()
        if optimizer is not None:
            torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
            optimizer.step()
            continue
        with torch.no_grad():
            norm = sum(weight.grad.norm().item() ** 2 for weight in weights if weight.grad is not None) ** 0.5
            for weight, momentum in zip(weights, momenta, strict=False):
                assert weight.grad is not None
                gradient = weight.grad * min(1.0, 1.0 / norm) + 0.01 * weight
                momentum.copy_(0.9 * momentum + gradient)
                weight.copy_(weight - 0.01 * momentum)


if __name__ == "__main__":
    main(*arguments())
