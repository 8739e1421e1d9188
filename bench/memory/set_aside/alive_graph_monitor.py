"""Previous step alive: a monitor keeps the layer outputs of the step before until the next forward pass is over."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

NODES, WIDTH, LAYERS, CLASSES, STEPS = 480, 384, 7, 9, 12


class GraphConvolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Linear(inputs, outputs, bias=False)

    def forward(self, nodes, adjacency):
        return F.relu(adjacency @ self.weight(nodes), inplace=True)


class GraphNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(GraphConvolution(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, nodes, adjacency):
        for layer in self.layers:
            nodes = layer(nodes, adjacency)
        return self.head(nodes)


class DeadUnitMonitor:
    """Counts the units of each layer that are zero for all nodes."""

    def __init__(self, model, keep_latest):
        self.keep_latest = keep_latest
        self.captured, self.latest = [], []
        for layer in model.layers:
            layer.register_forward_hook(self.capture)

    def capture(self, module, inputs, output):
        self.captured.append(output.detach())

    def report(self):
        dead = [int((output.amax(dim=0) == 0).sum()) for output in self.captured]
        if self.keep_latest:
            self.latest = self.captured
        self.captured = []
        return dead


def random_graph():
    edges = (torch.rand(NODES, NODES) < 8 / NODES).float()
    adjacency = ((edges + edges.T + torch.eye(NODES)) > 0).float()
    scale = adjacency.sum(dim=1).rsqrt()
    return scale[:, None] * adjacency * scale[None, :]


def main():
    torch.set_num_threads(1)
    torch.manual_seed(141)
    adjacency = random_graph()
    model = GraphNetwork()
    monitor = DeadUnitMonitor(model, keep_latest=sys.argv[1] == "flawed")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for step in range(STEPS):
        nodes, labels = torch.randn(NODES, WIDTH), torch.randint(0, CLASSES, (NODES,))
        loss = F.cross_entropy(model(nodes, adjacency), labels)
        dead = monitor.report()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: loss {loss.item():.4f}, dead units {dead}")
        del nodes, labels, loss


if __name__ == "__main__":
    main()
