"""Every block is recomputed in the backward pass (activation checkpointing) although memory is ample; the twin keeps activations."""

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bench.label import Label
from bench.set_aside.common import Decoder, arguments, begin, train_text

LABEL = Label(cause="kernels/needless_recomputation", says=("recomput", "checkpointing", "activation checkpoint"))


class Saving(Decoder):
    """A decoder that saves memory."""

    def body(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        return self.norm(x)


def main(flawed: bool, steps: int) -> None:
    begin()
    train_text((Saving if flawed else Decoder)(layers=4, width=160), steps)


if __name__ == "__main__":
    main(*arguments())
