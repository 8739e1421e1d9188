"""A deep copy of the weights is kept after every step in case it is the best one; the twin copies only at the end."""

import copy

from torch import Tensor

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, tokens, update

LABEL = Label(cause="memory/needless_clones", says=("clone", "copy", "copies", "deepcopy", "state_dict", "allocat"))


def main(flawed: bool, steps: int) -> None:
    begin()
    model = Decoder(layers=2, vocabulary=12_000)
    optimizer = adamw(model)
    data, best = [tokens(2, 48) for _ in range(4)], dict[str, Tensor]()
    for step in range(steps):
        text = data[step % 4]
        update(optimizer, next_token_loss(model(text), text))
        if flawed or step == steps - 1:
            best = copy.deepcopy(model.state_dict())
    assert best


if __name__ == "__main__":
    main(*arguments())
