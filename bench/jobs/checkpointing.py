"""Every block is checkpointed though the model fits into memory many times; the twin keeps its activations."""

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(cause="memory/needless_checkpointing", says=("checkpoint", "recompute", "recomputation"))


class Checkpointed(LM):
    def forward(self, tokens: Tensor, caches: None = None, start: int = 0) -> Tensor:  # type: ignore[override]
        x = self.token(tokens) + self.position(self.positions[: tokens.shape[1]])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)
        out: Tensor = self.head(self.norm(x))
        return out


def main(flawed: bool, steps: int) -> None:
    model = Checkpointed(vocab=512) if flawed else LM(vocab=512)
    optimizer, batch = adamw(model), tokens(8, 65, vocab=512)
    for _ in range(steps):
        loss = lm_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
