"""A loop of its own audits every step in plain Python; the twin does so every 1000 steps."""

from torch import nn

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="host/work_between_steps", says=("between", "audit"))
ROUNDS = 1_000_000


def audit(model: nn.Module, step: int) -> int:
    """A checksum of numbers that nobody reads."""
    checksum = step + len(list(model.parameters()))
    for number in range(ROUNDS):
        checksum = (checksum * 31 + number) % 65_521
    return checksum


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    model = LM()
    optimizer, batch = adamw(model), tokens(8)
    for step in range(1, steps + 1):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % every == 0:
            audit(model, step)


if __name__ == "__main__":
    main(*arguments())
