"""Accelerate gathers all logits of all ranks in every step for a metric; the twin gathers every thousand steps."""

from accelerate import Accelerator
from torch.nn import functional as F

from bench.common import LM, Label, adamw, arguments, tokens

LABEL = Label(
    cause="communication/metrics_reduced_every_step",
    says=("gather", "metric", "every step"),
    ranks=2,
    style="accelerate",
)


def main(flawed: bool, steps: int) -> None:
    every = 1 if flawed else 1000
    accelerator = Accelerator(cpu=True)
    net = LM(vocab=4096)
    model, optimizer = accelerator.prepare(net, adamw(net))
    batch = tokens(4, 65, vocab=4096)
    for step in range(1, steps + 1):
        logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % every == 0:
            scores, wanted = accelerator.gather_for_metrics((logits.detach(), batch[:, 1:].contiguous()))
            (scores.argmax(-1) == wanted).float().mean().item()
    accelerator.end_training()


if __name__ == "__main__":
    main(*arguments())
