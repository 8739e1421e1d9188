"""Rank 1 gets five times the batch of rank 0; the twin splits the same samples evenly."""

from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(cause="communication/rank_computes_longer", says=("Rank 1", "rank 1"), ranks=2, rank=1, style="ddp")


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        model = DistributedDataParallel(LM(), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens((2, 10)[rank] if flawed else 6)
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
