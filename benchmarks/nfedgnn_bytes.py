"""What 200 rounds of nFedGNN and of CNFGNN upload, from the size of the real messages.

    python benchmarks/nfedgnn_bytes.py

One user's messages are made and encoded; payloads of users and rounds add up, so nothing has to
run. Figures in MiB; the paper's (its table 1) beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from securefg.methods.nfedgnn.messages import Latents, Learnt
from securefg.methods.nfedgnn.settings import Settings
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope
from securefg.protocol.messages import Message

ROUNDS = 200


@dataclass(frozen=True)
class Published:
    """A dataset's nodes and features, and the paper's MiB for nFedGNN and CNFGNN, as GCN."""

    num_nodes: int
    num_features: int
    latents: float
    with_weights: float


DATASETS = {
    "Cora": Published(2708, 1433, 34.06, 4.74e4),
    "CiteSeer": Published(3327, 3703, 40.61, 1.50e5),
    "PubMed": Published(19717, 500, 240.69, 1.21e5),
    "Chameleon": Published(2277, 2325, 27.80, 6.47e4),
    "Squirrel": Published(5201, 2089, 63.49, 1.33e5),
    "Wiki-CS": Published(11701, 300, 142.83, 4.31e4),
}


def uplink_mib(settings: Settings, num_nodes: int, num_features: int) -> float:
    """Payload of all uploads of all users over all rounds."""
    replies: list[Message] = [Latents(latent=torch.zeros(1, settings.width))]
    if settings.average:
        weights = torch.zeros(1, num_features, settings.width)
        replies.append(Learnt(number=1, weights=weights))
    return ROUNDS * num_nodes * sum(map(payload, replies)) / 2**20


def payload(message: Message) -> int:
    body = codec.encode(message)
    envelope = Envelope(1, 1, 1, "host-0", "server", message.kind, Clients(((0, 1),)), body)
    return codec.size_of(codec.frame(envelope)).payload


def main() -> None:
    print("dataset     GCN (paper)         GAT      CNFGNN GCN (paper)     CNFGNN GAT")
    for name, of in DATASETS.items():
        sizes = (of.num_nodes, of.num_features)
        gcn, gat, cnf, cnf_gat = (
            uplink_mib(Settings(network=network, average=average), *sizes)
            for average in (False, True)
            for network in ("gcn", "gat")
        )
        print(
            f"{name:10} {gcn:7.2f} ({of.latents:6.2f})  {gat:8.2f}  "
            f"{cnf:9.3g} ({of.with_weights:.3g})  {cnf_gat:9.3g}"
        )


if __name__ == "__main__":
    main()
