"""A compiled decoder grows its cache with torch.cat, so each token recompiles; the twin writes into a static cache."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from bench.common import Label, arguments

LABEL = Label(
    cause="serving/growing_cache_under_compile",
    says=("recompil", "static cache", "StaticCache", "dynamic"),
    pattern="first steps",
    kind="generation",
    style="compiled",
)


class Decoder(nn.Module):
    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)) for _ in range(layers)
        )

    def forward(
        self, x: Tensor, keys: list[Tensor], values: list[Tensor], place: Tensor | None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        mask = None if place is None else (torch.arange(keys[0].shape[1]) <= place)[None, :]
        for n, (qkv, mlp) in enumerate(zip(self.qkv, self.mlp, strict=False)):
            q, k, v = qkv(x).chunk(3, -1)
            if place is None:
                keys[n], values[n] = torch.cat([keys[n], k], 1), torch.cat([values[n], v], 1)
            else:
                keys[n], values[n] = keys[n].index_copy(1, place, k), values[n].index_copy(1, place, v)
            x = x + F.scaled_dot_product_attention(q, keys[n], values[n], attn_mask=mask)
            x = x + mlp(x)
        return x, keys, values


def main(flawed: bool, steps: int) -> None:
    model = Decoder(512, 4).eval()
    fast = torch.compile(model, backend="aot_eager", dynamic=False)
    length, x = 8 if flawed else 8 + steps, torch.randn(16, 1, 512)
    keys = [torch.randn(16, length, 512) for _ in range(4)]
    values = [torch.randn(16, length, 512) for _ in range(4)]
    with torch.inference_mode():
        for step in range(steps):
            x, keys, values = fast(x, keys, values, None if flawed else torch.tensor([8 + step]))
            x = F.layer_norm(x, (512,))


if __name__ == "__main__":
    main(*arguments())
