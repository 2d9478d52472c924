"""What the spine costs: FedGL with messages, ledger and transcript, over the same bare training.

    python benchmarks/spine_overhead.py

Both sides train the same clients on the same rounds with the same server code. The bare side calls
the clients directly and adds up their tensors: nothing is encoded, booked, recorded or stored. The
two take turns, round by round, in one process; CPU time is summed on each side.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import TypeVar

import torch
from limits import Row

from securefg.federation.federation import Federation
from securefg.federation.roles import Cohort, Host, Replies, Site
from securefg.foundation.streams import derive_seed
from securefg.privacy.ledger import Ledger
from securefg.protocol.codec import Clients, Turn
from securefg.protocol.messages import Message
from securefg.protocol.transcript import TranscriptWriter
from securefg.runs.assembly import Experiment, prepare, start_engine
from securefg.runs.folder import RunFolder
from securefg.settings.config import load_config

M = TypeVar("M", bound=Message)


class BareCohort(Cohort):
    """Clients as plain objects in the same process."""

    def __init__(self, hosts: list[Host]) -> None:
        self._hosts, self.num_clients, self.round = hosts, len(hosts), 0

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        numbers = range(self.num_clients) if clients is None else clients.numbers()
        answers = [
            self._hosts[n].handle(request, Turn(self.round, 1, Clients.of([n]))) for n in numbers
        ]
        joined = {
            name: None if getattr(answers[0], name) is None else torch.cat(values)
            for name in reply.declarations
            for values in [[getattr(answer, name) for answer in answers]]
        }
        return Replies(reply(**joined), Clients.of(list(numbers)), ())


def bare_hosts(experiment: Experiment) -> list[Host]:
    config = experiment.config
    return [
        experiment.method.make_host(
            Site(
                shards=(shard,),
                method=config.method,
                training=config.training,
                seed=derive_seed(config.seed, "clients"),
                device=experiment.public.device,
            )
        )
        for shard in experiment.shards
    ]


def measured(path: Path, rounds: int) -> tuple[float, float, bool]:
    """CPU seconds bare and with the spine, and whether both have the same weights."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as root:
        config = load_config(path, [f"output.root={root}"])
        experiment = prepare(config)
        folder = RunFolder.create(config, lambda path: None)
        engine = start_engine(experiment, folder, 1, None)
        full = Federation(
            engine,
            experiment.policy,
            Ledger(experiment.partition.num_clients, folder.ledger_path),
            TranscriptWriter(folder.transcript),
            keep_body=lambda round: round % config.output.transcript_every == 0,
        )
        bare = BareCohort(bare_hosts(experiment))
        settings = (experiment.public, config.method, config.training)
        servers = [experiment.method.make_server(*settings, cohort) for cohort in (bare, full)]
        seconds = [0.0, 0.0]
        for number in range(1, rounds + 1):
            bare.round = number
            full.begin_round(number)
            for side, server in enumerate(servers):
                began = time.process_time()
                server.round(number)
                seconds[side] += time.process_time() - began
        same = all(
            torch.equal(a, b)
            for a, b in zip(servers[0].state().values(), servers[1].state().values(), strict=True)
        )
    return seconds[0], seconds[1], same


def rows() -> list[Row]:
    bare, full, same = measured(Path("configs/fedgl_cora.yaml"), 30)
    if not same:
        raise SystemExit("the two sides have other weights")
    name = "FedGL on Cora: messages, ledger and transcript, CPU over bare training"
    return [Row(name, 1.1, full / bare, "x")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--config", type=Path, default=Path("configs/fedgl_cora.yaml"))
    parser.add_argument("--rounds", type=int, default=30)
    asked = parser.parse_args()
    bare, full, same = measured(asked.config, asked.rounds)
    print(f"bare {bare:.2f} s, with the spine {full:.2f} s CPU, same weights: {same}")
    print(f"ratio {full / bare:.3f}")


if __name__ == "__main__":
    main()
