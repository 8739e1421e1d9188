"""Only the head is trained, yet the backbone keeps requires_grad and gets gradients; the twin freezes it."""

import torch

from bench.common import LM, Label, arguments, lm_loss, tokens

LABEL = Label(
    cause="kernels/gradients_of_frozen_layers", says=("requires_grad", "frozen", "not updated", "unused grad")
)


def main(flawed: bool, steps: int) -> None:
    model = LM(layers=4)
    if not flawed:
        model.requires_grad_(False)
        model.head.requires_grad_(True)
    optimizer, batch = torch.optim.AdamW(model.head.parameters(), lr=1e-4, fused=True), tokens(8)
    for _ in range(steps):
        loss = lm_loss(model, batch)
        model.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
