"""Gradients of sixteen sequences are accumulated one by one; the twin computes all sixteen in one pass."""

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="kernels/micro_batch_too_small", says=("micro-batch", "batch size", "accumulat", "larger batch"))


def main(flawed: bool, steps: int) -> None:
    model = LM(width=320)
    optimizer, batch = adamw(model), tokens(16, 17)
    for _ in range(steps):
        optimizer.zero_grad()
        parts = batch.split(1 if flawed else 16)
        for part in parts:
            (lm_loss(model, part) / len(parts)).backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
