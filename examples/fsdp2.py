"""A transformer whose parameters, gradients and optimizer state are sharded over all processes: FSDP2, `fully_shard`.

    torchrun --nproc-per-node 2 examples/fsdp2.py --steps 60

It learns a rule that yields each token from the one before. The sequences are made up while the program runs; nothing
is downloaded. Processes talk through NCCL if there are GPUs, else through gloo.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional

VOCABULARY, CONTEXT, WIDTH, HEADS, LAYERS, BATCH = 128, 64, 192, 4, 4, 8


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query_key_value, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, context, _ = x.shape
        mixed = self.query_key_value(self.attention_norm(x)).view(batch, context, 3, HEADS, -1)
        query, key, value = mixed.permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(x.shape))
        return x + self.mlp(self.mlp_norm(x))


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Parameter(torch.randn(CONTEXT, WIDTH) * 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """The loss: how badly each token is foreseen from those before it."""
        x = self.tokens(tokens[:, :-1]) + self.positions
        for block in self.blocks:
            x = block(x)
        return functional.cross_entropy(self.head(self.norm(x)).flatten(0, 1), tokens[:, 1:].flatten())


def sharded(device: torch.device) -> Transformer:
    """Every block gathers its parameters when it runs; the rest of the model is one more unit."""
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    model = Transformer().to(device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def sequences(random: torch.Generator) -> Tensor:
    tokens = [torch.randint(VOCABULARY, (BATCH,), generator=random)]
    for _ in range(CONTEXT):
        tokens.append((tokens[-1] * 5 + 3) % VOCABULARY)
    return torch.stack(tokens, dim=1)


def train(model: nn.Module, device: torch.device, steps: int) -> None:
    rank = dist.get_rank()
    random = torch.Generator().manual_seed(rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        loss = model(sequences(random).to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and (step % 10 == 0 or step == steps):
            print(f"step {step:4d}  loss {loss.item():.4f}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    steps = parser.parse_args().steps
    if "RANK" not in os.environ:
        raise SystemExit("start this with torchrun: torchrun --nproc-per-node 2 examples/fsdp2.py")

    torch.manual_seed(0)
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    train(sharded(device), device, steps)
    if dist.get_rank() == 0:
        print(f"done: {steps} steps")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
