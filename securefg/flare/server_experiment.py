"""The experiment as a deployed server has it: rules, public facts, and what it is entitled to."""

from __future__ import annotations

from pathlib import Path

import torch

from securefg.data.graph import Graph, Split
from securefg.data.partition import Partition
from securefg.data.statistics import statistics
from securefg.flare.coordinator import read_entitled
from securefg.methods.registry import get_method
from securefg.run.assembly import Experiment
from securefg.run.device import choose_device
from securefg.site.job import Job


def without_data(job: Job, entitled: Path) -> Experiment:
    """An experiment with a stand-in for the graph: a node for every client, and nothing on it.

    entitled  the coordinator's own file, where the method entitles the server to more than sizes
    """
    config = job.parsed()
    method = get_method(config.method.name)
    public = read_entitled(entitled, method, job.public(choose_device(config.device)))
    method.releases(config.method, config.training, public)  # what the edges forbid is found here
    sizes = job.sizes
    count = sizes.num_clients
    nothing = torch.zeros(count, dtype=torch.bool)
    graph = Graph(
        name=config.data.name,
        features=torch.zeros(count, 1),
        edge_index=torch.zeros(2, 0, dtype=torch.int64),
        labels=torch.zeros(count, dtype=torch.int64),
        split=Split(nothing, nothing, nothing),
        num_classes=sizes.num_classes,
    )
    partition = Partition.of("at the sites", count, list(torch.split(torch.arange(count), 1)))
    return Experiment(
        config=config,
        method=method,
        union=graph,
        partition=partition,
        statistics=statistics(graph, partition),
        shards=(),
        public=public,
        policy=job.policy(),
        has_truth=False,
    )
