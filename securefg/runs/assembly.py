"""From a config to a federation that can run: data, partition, hosts, policy, engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from securefg.data.canaries import Canaries, draw_canaries, with_canaries
from securefg.data.datasets import load
from securefg.data.graph import Graph
from securefg.data.partition import Partition, most_holders
from securefg.data.partitions import draw_partition, leave_out_users
from securefg.data.shard import Shard, save_shards, shards, union_graph
from securefg.data.splits import check_split, with_label_noise
from securefg.data.statistics import PartitionStatistics, statistics
from securefg.engines.admission import RequestPlan
from securefg.engines.hosting import HostSpec, build_endpoint
from securefg.engines.inprocess import InProcess
from securefg.engines.processes import Processes
from securefg.federation.engine import Engine
from securefg.federation.roles import PublicInfo
from securefg.foundation.files import make_private_folder
from securefg.foundation.streams import derive_seed, numpy_stream
from securefg.methods.base import AnyMethod, asked_at_once, population_of
from securefg.methods.registry import get_method
from securefg.privacy.policy import Policy, make_policy
from securefg.protocol.codec import Clients
from securefg.runs.choosing import settle_config
from securefg.runs.device import choose_device
from securefg.runs.folder import RunFolder
from securefg.runs.rare_classes import choose_for_rare_classes
from securefg.secagg.forms import Secure, enrol_members
from securefg.secagg.keys import make_identities
from securefg.settings.config import RunConfig
from securefg.settings.partition import REMAINING, PartitionSettings


@dataclass(frozen=True)
class Setup:
    """A set of a run's settled rules and of the public facts of its data. A deployed server has no
    more."""

    config: RunConfig
    method: AnyMethod
    public: PublicInfo
    policy: Policy


@dataclass(frozen=True)
class Experiment(Setup):
    """A setup with the data dealt out. Nothing runs yet.

    has_truth  False where only a part of the data is here, as at one site of a deployed run
    canaries   what the run carries for its audit; their coins are for audits alone
    """

    union: Graph
    partition: Partition
    statistics: PartitionStatistics
    shards: Sequence[Shard]
    has_truth: bool = True
    canaries: Canaries | None = None


def with_truth(setup: Setup) -> Experiment | None:
    """Return the experiment where all data of the run is here, or None if it is at sites."""
    return setup if isinstance(setup, Experiment) and setup.has_truth else None


def prepare(config: RunConfig) -> Experiment:
    """Load and deal out the data. All input that can be wrong is found wrong here."""
    method, device = get_method(config.method.name), choose_device(config.device)
    graph = with_label_noise(
        load(config.data, config.seed),
        config.data.label_noise,
        numpy_stream(config.seed, "label noise"),
    )
    graph, scheme = leave_out_users(graph, config.partition)
    canaries = None
    if config.audit.canaries:
        canaries = draw_canaries(graph, config.audit, config.seed)
        graph = with_canaries(graph, canaries)
    drawn = draw_partition(graph, scheme, config.seed)
    union = union_graph(graph, drawn)
    check_split(union, config.training)
    partition = _merge_clients(drawn) if config.centralised else drawn
    held = union if config.centralised else graph
    node_holders, edge_holders = most_holders(held, partition)
    trainers = _training_clients(graph, partition) if "trainers" in method.server_knows else None
    known = _without_erased(graph, partition, config.partition)
    public = PublicInfo(
        num_nodes=graph.num_nodes,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        num_clients=partition.num_clients,
        seed=derive_seed(config.seed, "server"),
        device=device,
        edge_index=known.edge_index if "graph" in method.server_knows else None,
        known_labels=_training_labels(known) if "labels" in method.server_knows else None,
        trainers=trainers,
        num_trainers=None if trainers is None else len(trainers),
        num_public=0 if partition.public is None else len(partition.public),
        node_holders=node_holders,
        edge_holders=edge_holders,
    )
    config = choose_for_rare_classes(settle_config(config, public), method, union)
    return Experiment(
        config=config,
        method=method,
        union=union,
        partition=partition,
        statistics=statistics(held, partition),
        shards=shards(held, partition),
        public=public,
        policy=make_policy(
            config.privacy,
            method.releases(config.method, config.training, public),
            asked_at_once(partition.num_clients, config.training.participation),
            partition.num_clients,
            replace(population_of(method, public), num_edges=union.num_edges),
        ),
        canaries=canaries,
    )


def enrol_clients(experiment: Experiment, folder: RunFolder) -> Secure | None:
    """Return identities for all clients if the run aggregates securely, or None."""
    settings = experiment.config.privacy.secure_aggregation
    if settings is None:
        return None
    hosts, job = hosts_of(experiment), experiment.config.hash
    roster = make_identities(folder.identities, hosts)
    keys = enrol_members(settings, job, folder.identities, hosts, roster)
    return Secure(settings, job, roster, keys)


def start_engine(
    experiment: Experiment, folder: RunFolder, attempt: int, secure: Secure | None
) -> Engine:
    """Build every host, here or in processes of their own."""
    config, method = experiment.config, experiment.method
    planned = method.releases(config.method, config.training, experiment.public)
    settled_by = (experiment.public, experiment.policy, planned)
    requests = RequestPlan.of(method, config.method, config.training, *settled_by)
    specs = [
        HostSpec(
            name=name,
            clients=clients,
            num_clients=experiment.partition.num_clients,
            config=config,
            policy=experiment.policy,
            device=str(experiment.public.device),
            ledger_path=folder.ledger_path,
            attempt=attempt,
            requests=requests,
            identity_file=folder.identities / f"{name}.keys" if secure else None,
            roster=tuple(secure.identities) if secure else (),
            memory_file=folder.memories / f"{name}.jsonl" if secure else None,
            member_keys=secure.member_keys if secure else (),
        )
        for name, clients in hosts_of(experiment).items()
    ]
    own = [own_shards(experiment, spec.clients) for spec in specs]
    if config.engine.name == "inprocess":
        return InProcess([build_endpoint(s, data) for s, data in zip(specs, own, strict=True)])
    files = _write_shards(folder.shards, specs, own)
    return Processes(specs, files, config.engine.timeout)


def hosts_of(experiment: Experiment) -> dict[str, Clients]:
    """Return one host per client, or a few hosts over ranges of like clients."""
    total = experiment.partition.num_clients
    if not experiment.method.batched:
        return {f"client-{k}": Clients(((k, k + 1),)) for k in range(total)}
    count = min(experiment.config.engine.hosts, total)
    bounds = [total * i // count for i in range(count + 1)]
    return {f"host-{i}": Clients(((bounds[i], bounds[i + 1]),)) for i in range(count)}


def own_shards(experiment: Experiment, clients: Clients) -> Sequence[Shard]:
    """Return what the clients of one host hold."""
    if len(clients.ranges) == 1:
        return experiment.shards[slice(*clients.ranges[0])]
    return tuple(experiment.shards[number] for number in clients.numbers())


def _write_shards(folder: Path, specs: list[HostSpec], own: list[Sequence[Shard]]) -> list[Path]:
    make_private_folder(folder)
    files = [folder / f"{spec.name}.safetensors" for spec in specs]
    for path, data in zip(files, own, strict=True):
        save_shards(path, data)
    return files


def _merge_clients(partition: Partition) -> Partition:
    return Partition.of("merged", partition.num_nodes, [torch.unique(partition.nodes)])


def _without_erased(graph: Graph, partition: Partition, settings: PartitionSettings) -> Graph:
    """Return the graph without links and labels of nodes that nobody holds after an erasure."""
    if settings.name != REMAINING:
        return graph
    is_held = torch.zeros(graph.num_nodes, dtype=torch.bool)
    is_held[partition.nodes] = True
    left = graph.keep_edges(is_held[graph.edge_index].all(0))
    rows = is_held.reshape(-1, *[1] * (graph.labels.dim() - 1))
    return replace(left, labels=torch.where(rows, graph.labels, -1))


def _training_labels(graph: Graph) -> torch.Tensor:
    """Return labels of the training nodes, with -1 for all others."""
    return torch.where(graph.split.train, graph.labels, -1)


def _training_clients(graph: Graph, partition: Partition) -> torch.Tensor:
    """Return the clients that hold training labels, ascending."""
    trains = graph.split.train.reshape(graph.num_nodes, -1).any(1)
    held = [bool(trains[nodes].any()) for nodes in partition.clients]
    return torch.tensor(held).nonzero().flatten()
