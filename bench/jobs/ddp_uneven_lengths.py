"""Each rank pads to the longest of its own batch, so one waits for the other; the twin sorts by length alike."""

from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/uneven_lengths", says=("length", "uneven", "imbalance", "unequal"), ranks=2, style="ddp"
)
LONG = (0, 1, 1, 0, 1, 0, 0, 1)


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        model = DistributedDataParallel(LM(width=192), gradient_as_bucket_view=True)
        optimizer = adamw(model)
        for step in range(steps):
            length = (161 if LONG[step % 8] == rank else 33) if flawed else 97
            loss = lm_loss(model, tokens(4, length))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
