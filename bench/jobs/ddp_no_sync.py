"""Four backward passes to an optimizer step exchange all gradients each; the twin uses no_sync in the first three."""

import contextlib

from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(cause="communication/accumulation_without_no_sync", says=("no_sync", "accumulat"), ranks=2, style="ddp")


def main(flawed: bool, steps: int) -> None:
    with process_group():
        model = DistributedDataParallel(LM(width=320), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(1, 49)
        for _ in range(steps):
            optimizer.zero_grad()
            for micro in range(4):
                with contextlib.nullcontext() if flawed or micro == 3 else model.no_sync():
                    lm_loss(model, batch).backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
