"""FSDP2 reduces gradients in each of four micro-batches; the twin reduces them in the last one only."""

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

from bench.common import LM, Label, adamw, arguments, lm_loss, process_group, tokens

LABEL = Label(
    cause="communication/accumulation_without_no_sync",
    says=("set_requires_gradient_sync", "no_sync", "accumulat"),
    ranks=2,
    style="fsdp2",
)


def main(flawed: bool, steps: int) -> None:
    with process_group():
        mesh = init_device_mesh("cpu", (2,))
        model = LM(width=320)
        for block in model.blocks:
            fully_shard(block, mesh=mesh, reshard_after_forward=False)
        fully_shard(model, mesh=mesh, reshard_after_forward=False)
        assert isinstance(model, FSDPModule)
        optimizer, batch = adamw(model), tokens(1, 49)
        for _ in range(steps):
            optimizer.zero_grad()
            for micro in range(4):
                model.set_requires_gradient_sync(flawed or micro == 3)
                model.set_reshard_after_backward(micro == 3)
                lm_loss(model, batch).backward()
            optimizer.step()


if __name__ == "__main__":
    main(*arguments())
