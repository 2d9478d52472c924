"""The experiment as a deployed server has it: rules and public facts, and none of the data."""

from __future__ import annotations

import torch

from securefg.data.graph import Graph, Split
from securefg.data.partition import Partition
from securefg.data.statistics import statistics
from securefg.flare.job import Job
from securefg.foundation.errors import ConfigError
from securefg.methods.base import AnyMethod
from securefg.methods.registry import get_method
from securefg.run.assembly import Experiment, choose_device


def without_data(job: Job) -> Experiment:
    """An experiment with a stand-in for the graph: a node for every client, and nothing on it."""
    config = job.parsed()
    method = get_method(config.method.name)
    refuse_what_a_server_is_not_given(method)
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
        public=job.public(choose_device(config.device)),
        policy=job.policy(),
        has_truth=False,
    )


def refuse_what_a_server_is_not_given(method: AnyMethod) -> None:
    """Some methods' servers are entitled to parts of the whole graph; nobody has them to give."""
    if method.server_knows:
        raise ConfigError(
            f"method.name: {method.name}: its server is entitled to {sorted(method.server_knows)} "
            "of the whole graph, which a deployed server is not given; allowed: methods whose "
            "server knows sizes only"
        )
