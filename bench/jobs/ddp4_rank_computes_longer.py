"""Rank 3 of four gets sequences four times as long as the others; in the twin all have the same length."""

from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(cause="communication/rank_computes_longer", says=("Rank 3", "rank 3"), ranks=4, rank=3, style="ddp")


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        model = DistributedDataParallel(LM(width=128), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens(4, 257 if flawed and rank == 3 else 65)
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
