"""Two workers of Ray Train, which Ray's own daemon starts, in an instance of Ray that the script starts by itself.

A step is one of the optimizer. Each worker trains beside its main thread.
"""

import argparse
import logging
import tempfile

import ray
import torch
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORKERS = 2


def train(settings: dict[str, int]) -> None:
    torch.set_num_threads(1)
    inputs = torch.randn(settings["steps"] * WORKERS * 8, 32)
    data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
    loader = prepare_data_loader(DataLoader(data, batch_size=8))
    model = prepare_model(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for batch, target in loader:
        nn.functional.mse_loss(model(batch), target).backward()
        optimizer.step()
        optimizer.zero_grad()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=30)
    steps = parser.parse_args().steps
    ray.init(num_cpus=WORKERS, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with tempfile.TemporaryDirectory() as storage:
        TorchTrainer(
            train,
            train_loop_config={"steps": steps},
            scaling_config=ScalingConfig(num_workers=WORKERS, resources_per_worker={"CPU": 1}),
            run_config=RunConfig(storage_path=storage),
        ).fit()
    ray.shutdown()
    print(f"done: {steps} steps")


if __name__ == "__main__":
    main()
