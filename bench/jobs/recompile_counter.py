"""A compiled module counts its calls in a Python int and recompiles for each; the twin counts in a tensor."""

import torch
from torch import Tensor, nn

from bench.common import LM, Label, adamw, arguments, lm_loss, tokens

LABEL = Label(
    cause="host/recompilation_by_python_number",
    says=("recompil", "Python int", "specialis", "specializ"),
    pattern="first steps",
    style="compiled",
)


class Counted(LM):
    """Warms its logits up over the first thousand calls."""

    calls_tensor: Tensor

    def __init__(self, flawed: bool) -> None:
        super().__init__(layers=2)
        self.flawed, self.calls = flawed, 0
        self.register_buffer("calls_tensor", torch.zeros(()))

    def forward(self, tokens: Tensor, caches: None = None, start: int = 0) -> Tensor:  # type: ignore[override]
        logits = super().forward(tokens)
        if self.flawed:
            self.calls += 1
            return logits * min(1.0, self.calls / 1000)
        calls = self.calls_tensor.add_(1)
        return logits * (calls / 1000).clamp(max=1.0)


def main(flawed: bool, steps: int) -> None:
    model = Counted(flawed)
    fast: nn.Module = torch.compile(model, backend="aot_eager")  # type: ignore[assignment]
    optimizer, batch = adamw(model), tokens()
    for _ in range(steps):
        loss = lm_loss(fast, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main(*arguments())
