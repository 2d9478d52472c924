"""A client's script in the form of NVIDIA FLARE's GNN example: receive, train, send."""

from __future__ import annotations

import argparse

import nvflare.client as flare
import torch
from model import SAGE, load_graph, score_network
from torch.nn import functional


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, required=True)
    parser.add_argument("--epochs", type=int, default=10)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    flare.init()
    number = int(flare.get_site_name().removeprefix("site-")) - 1
    graph, net = load_graph(number, asked.sites), SAGE()
    while flare.is_running():
        received = flare.receive()
        net.load_state_dict({k: torch.as_tensor(v) for k, v in received.params.items()})
        accuracy = score_network(net, asked.sites)
        optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        for _ in range(asked.epochs):
            optimizer.zero_grad()
            functional.nll_loss(net(graph.x, graph.edge_index), graph.y).backward()
            optimizer.step()
        flare.send(
            flare.FLModel(
                params=net.cpu().state_dict(),
                metrics={"accuracy": accuracy},
                meta={"NUM_STEPS_CURRENT_ROUND": asked.epochs},
            )
        )


if __name__ == "__main__":
    main()
