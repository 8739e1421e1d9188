"""Rank 0 alone formats weights for a log in slow Python every step; in the twin no rank does."""

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(cause="host/one_rank_logs", says=("Rank 0", "rank 0"), ranks=2, rank=0, style="ddp")


def formatted(model: nn.Module) -> int:
    """Write the weights as text, and give its length."""
    weights = list(model.parameters())[:16]
    return sum(len(f"{value:.3e}") for weight in weights for value in weight.detach().flatten()[:9000].tolist())


def main(flawed: bool, steps: int) -> None:
    with process_group() as rank:
        model = DistributedDataParallel(LM(), gradient_as_bucket_view=True)
        optimizer, batch = adamw(model), tokens()
        for _ in range(steps):
            loss = lm_loss(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if flawed and rank == 0:
                formatted(model)


if __name__ == "__main__":
    main(*arguments())
