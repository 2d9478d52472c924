"""The experiment as a deployed server has it: rules and public facts, and none of the data."""

from __future__ import annotations

import torch

from securefg.assembly import Experiment, choose_device
from securefg.data.graph import Graph, Split
from securefg.data.partition import Partition
from securefg.data.statistics import statistics
from securefg.deploy.job import Job
from securefg.errors import ConfigError
from securefg.methods import get_method


def without_data(job: Job) -> Experiment:
    """An experiment whose graph has no nodes and whose clients hold none, as far as it knows."""
    config = job.parsed()
    method = get_method(config.method.name)
    if method.server_knows:
        raise ConfigError(
            f"method.name: {method.name}: its server is entitled to {sorted(method.server_knows)} "
            "of the whole graph, which a deployed server is not given; allowed: methods whose "
            "server knows sizes only"
        )
    sizes = job.sizes
    nothing = torch.zeros(0, dtype=torch.bool)
    graph = Graph(
        features=torch.zeros(0, sizes.num_features),
        edge_index=torch.zeros(2, 0, dtype=torch.int64),
        labels=torch.zeros(0, dtype=torch.int64),
        split=Split(nothing, nothing, nothing),
        name=config.data.name,
        num_classes=sizes.num_classes,
        directed=False,
    )
    empty = [torch.zeros(0, dtype=torch.int64)] * sizes.num_clients
    partition = Partition.of("at the sites", 0, empty)
    return Experiment(
        config=config,
        method=method,
        union=graph,
        partition=partition,
        statistics=statistics(graph, partition),
        shards=(),
        public=job.public(choose_device(config.device)),
        policy=job.policy(),
        has_truth=False,
    )
