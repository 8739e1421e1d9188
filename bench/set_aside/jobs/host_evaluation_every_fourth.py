"""The whole validation set is run after every fourth step; the twin evaluates once, at the end."""

import torch

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(cause="host/frequent_evaluation", says=("evaluat", "validation"), pattern="every 4 steps")


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2)
    optimizer = adamw(model)
    data, validation = [tokens() for _ in range(4)], [tokens(16) for _ in range(4)]
    for step in range(steps):
        text = data[step % 4]
        update(optimizer, next_token_loss(model(text), text))
        if step == steps - 1 or (flawed and step % 4 == 3):
            model.eval()
            with torch.inference_mode():
                torch.stack([next_token_loss(model(part), part) for part in validation]).mean()
            model.train()


if __name__ == "__main__":
    main(*arguments())
