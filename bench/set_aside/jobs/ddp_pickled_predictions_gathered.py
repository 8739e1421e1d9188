"""All predictions are gathered as pickled Python objects in each step; the twin gathers them as one tensor. Four ranks."""

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from bench.label import Label
from bench.set_aside.common import Decoder, adamw, arguments, begin, next_token_loss, process_group, tokens, update

LABEL = Label(
    cause="communication/object_collectives",
    says=("all_gather_object", "object", "pickle", "gather"),
    ranks=4,
    style="ddp",
)


def gather_objects(best: Tensor, text: Tensor) -> None:
    """One dictionary per token."""
    mine = [
        {"place": place, "said": said, "meant": meant}
        for place, (said, meant) in enumerate(zip(best.flatten().tolist(), text.flatten().tolist(), strict=True))
    ]
    everyone: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, mine)


def gather_tensor(best: Tensor, text: Tensor) -> None:
    """The same numbers."""
    mine = torch.stack([best, text])
    everyone = [torch.empty_like(mine) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, mine)


def main(flawed: bool, steps: int) -> None:
    begin()
    with process_group() as rank:
        model = DistributedDataParallel(Decoder(layers=1, width=64))
        optimizer = adamw(model)
        torch.manual_seed(rank)
        text = tokens(8, 128)
        for _ in range(steps):
            logits = model(text)
            update(optimizer, next_token_loss(logits, text))
            (gather_objects if flawed else gather_tensor)(logits.detach().argmax(-1), text)


if __name__ == "__main__":
    main(*arguments())
