"""The settings of a partition: who holds which nodes."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import Field, field_validator

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed
from securefg.foundation.settings import Settings
from securefg.settings.data import Share

GROUP: Final = "securefg.partitions"
REMAINING: Final = "remaining"
"""The scheme of a release after an erasure."""


class PartitionSettings(Settings):
    """The `partition` part of a config; every scheme has its own.

    disjoint  whether a node is never with two clients; a scheme that does not say so may overlap
    """

    summary: ClassVar[str] = ""
    disjoint: ClassVar[bool] = False

    name: str

    def count_clients(self, num_nodes: int) -> int | None:
        """Return the number of clients for a graph of this size, or None if only the data tell."""
        return getattr(self, "num_clients", None)


class SharesSettings(PartitionSettings):
    """`overlap` of None draws freely; a number is the share of nodes that every client holds."""

    summary: ClassVar[str] = "overlapping random shares (FedGL)"

    name: Literal["shares"] = "shares"
    shares: tuple[Share, ...] = Field(
        (0.3, 0.4, 0.5, 0.5, 0.6, 0.7),
        min_length=1,
        description="share of the nodes that each client samples",
    )
    overlap: float | None = Field(
        None, ge=0, le=1, description="share of the nodes that every client holds"
    )

    def count_clients(self, num_nodes: int) -> int:
        """Return one client for every share."""
        return len(self.shares)


class PublicPrivateSettings(PartitionSettings):
    """The defaults are the paper's: 4 clients, 40 % public at random, 15 % private at each."""

    summary: ClassVar[str] = (
        "public nodes at every client, each other node at one client (PPFL-GNN)"
    )

    name: Literal["public_private"] = "public_private"
    num_clients: int = Field(4, ge=1, description="number of clients")
    public_share: float = Field(
        0.4, ge=0, le=1, description="share of the nodes that all clients hold"
    )
    selection: Literal["random", "top_degree"] = Field(
        "random", description="how public nodes are chosen"
    )


class OneNodeSettings(PartitionSettings):
    """Every node is a client."""

    summary: ClassVar[str] = "every node is a client (GFL-APPNP, nFedGNN)"
    disjoint: ClassVar[bool] = True

    name: Literal["one_node"] = "one_node"

    def count_clients(self, num_nodes: int) -> int:
        """Return one client for every node."""
        return num_nodes


class LouvainSettings(PartitionSettings):
    """`resolution` above 1 favours smaller communities."""

    summary: ClassVar[str] = "Louvain communities packed to balanced sizes (OpenFGL)"
    disjoint: ClassVar[bool] = True

    name: Literal["louvain"] = "louvain"
    num_clients: int = Field(10, ge=1, description="number of clients")
    resolution: float = Field(1.0, gt=0, description="larger values give smaller communities")


class DirichletSettings(PartitionSettings):
    """Drawn again until every client has `min_nodes`."""

    summary: ClassVar[str] = "disjoint clients with label skew, Dirichlet(alpha)"
    disjoint: ClassVar[bool] = True

    name: Literal["dirichlet"] = "dirichlet"
    num_clients: int = Field(10, ge=1, description="number of clients")
    alpha: float = Field(
        0.5, gt=0, description="concentration: smaller values give clients more different classes"
    )
    min_nodes: int = Field(10, ge=1, description="fewest nodes of a client")


class MetisSettings(PartitionSettings):
    """Clients that cut few edges."""

    summary: ClassVar[str] = "disjoint clients that cut few edges (needs securefg[metis])"
    disjoint: ClassVar[bool] = True

    name: Literal["metis"] = "metis"
    num_clients: int = Field(10, ge=1, description="number of clients")


class RandomSettings(PartitionSettings):
    """Clients of equal size."""

    summary: ClassVar[str] = "disjoint clients of equal size, dealt at random"
    disjoint: ClassVar[bool] = True

    name: Literal["random"] = "random"
    num_clients: int = Field(10, ge=1, description="number of clients")


class GivenSettings(PartitionSettings):
    """Clients as the data have them."""

    summary: ClassVar[str] = "as the data come dealt out: twitch by country, folder by clients.csv"

    name: Literal["given"] = "given"


class FeatureGroupSettings(PartitionSettings):
    """A client per value of a category that the features have as columns of zeros and ones."""

    summary: ClassVar[str] = "a client per value of a one-hot category, such as a dorm"
    disjoint: ClassVar[bool] = True

    name: Literal["feature_group"] = "feature_group"
    first: int = Field(ge=0, description="the category's first column among the features")
    count: int = Field(ge=1, description="number of its columns")
    min_nodes: int = Field(30, ge=1, description="values of fewer nodes are with no client")


class RemainingSettings(PartitionSettings):
    """Another partition, drawn as it was, without some nodes or clients (`securefg erase`)."""

    summary: ClassVar[str] = "another partition without nodes or clients that were erased"

    name: Literal["remaining"] = "remaining"
    of: dict[str, Any] = Field(
        {"name": "random"}, description="the partition that they are taken out of, with its keys"
    )
    without_nodes: tuple[int, ...] = Field((), description="ids of the nodes that nobody holds")
    without_clients: tuple[int, ...] = Field(
        (), description="clients that are left out; the others are numbered anew, in their order"
    )

    @field_validator("of")
    @classmethod
    def _read_inner(cls, value: dict[str, Any]) -> dict[str, Any]:
        name = value.get("name")
        if not isinstance(name, str) or name == REMAINING:
            raise ValueError(f"found {name!r} as its name; expected the name of another partition")
        return {"name": name, **partition_settings(name).model_validate(value).model_dump()}

    @property
    def inner(self) -> PartitionSettings:
        """Return the settings of the partition that nodes are taken out of."""
        return partition_settings(self.of["name"]).model_validate(self.of)

    def count_clients(self, num_nodes: int) -> int | None:
        """Return the number of clients that are left."""
        whole = self.inner.count_clients(num_nodes)
        return None if whole is None else whole - len(set(self.without_clients))


SHIPPED: Final[dict[str, type[PartitionSettings]]] = {
    kind.model_fields["name"].default: kind
    for kind in (
        SharesSettings,
        PublicPrivateSettings,
        OneNodeSettings,
        LouvainSettings,
        DirichletSettings,
        MetisSettings,
        RandomSettings,
        GivenSettings,
        FeatureGroupSettings,
        RemainingSettings,
    )
}


def partition_names() -> list[str]:
    """Return all names that a config may use without a module path."""
    return [*SHIPPED, *(name for name in installed(GROUP) if name not in SHIPPED)]


def partition_settings(name: str) -> type[PartitionSettings]:
    """Return the settings of a scheme: a shipped one, an installed one, or any PARTITION."""
    if name in SHIPPED:
        return SHIPPED[name]
    module = find_module("partition.name", name, dict.fromkeys(SHIPPED, ""), GROUP)
    settings = getattr(getattr(module, "PARTITION", None), "settings", None)
    if not (isinstance(settings, type) and issubclass(settings, PartitionSettings)):
        raise ConfigError(
            f"partition.name: found no PARTITION with settings in module {name!r}; expected "
            "PARTITION = Scheme(settings, draw) of securefg.data.partition"
        )
    return settings
