"""A client's script as in NVIDIA FLARE's hello-pt: receive, train in PyTorch, send."""

from __future__ import annotations

import argparse

import nvflare.client as flare
import torch
from model import SimpleNetwork, load_part, score_network
from torch import nn


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sites", type=int, required=True)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    flare.init()
    number = int(flare.get_site_name().removeprefix("site-")) - 1
    images, labels = load_part(number, asked.sites)
    net, loss = SimpleNetwork(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    while flare.is_running():
        received = flare.receive()
        net.load_state_dict({k: torch.as_tensor(v) for k, v in received.params.items()})
        accuracy = score_network(net, asked.sites)
        steps = 0
        for _ in range(asked.epochs):
            for rows in torch.randperm(len(labels)).split(asked.batch_size):
                optimizer.zero_grad()
                loss(net(images[rows]), labels[rows]).backward()
                optimizer.step()
                steps += 1
        flare.send(
            flare.FLModel(
                params=net.cpu().state_dict(),
                metrics={"accuracy": accuracy},
                meta={"NUM_STEPS_CURRENT_ROUND": steps},
            )
        )


if __name__ == "__main__":
    main()
