"""What a configuration may say about who holds which nodes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from securefg.foundation.settings import Settings
from securefg.settings.data import Share


class SharesSettings(Settings):
    """`overlap` of None draws freely; a number is the share of nodes that every client holds."""

    summary: ClassVar[str] = "overlapping random shares (FedGL)"

    name: Literal["shares"] = "shares"
    shares: Annotated[tuple[Share, ...], Field(min_length=1)] = (0.3, 0.4, 0.5, 0.5, 0.6, 0.7)
    overlap: Annotated[float, Field(ge=0, le=1)] | None = None


class PublicPrivateSettings(Settings):
    """The defaults are the paper's: 4 clients, 40 % public at random, 15 % private at each."""

    summary: ClassVar[str] = (
        "public nodes at every client, each other node at one client (PPFL-GNN)"
    )

    name: Literal["public_private"] = "public_private"
    num_clients: Annotated[int, Field(ge=1)] = 4
    public_share: Annotated[float, Field(ge=0, le=1)] = 0.4
    selection: Literal["random", "top_degree"] = "random"


class OneNodeSettings(Settings):
    summary: ClassVar[str] = "every node is a client (GFL-APPNP, nFedGNN)"

    name: Literal["one_node"] = "one_node"


class LouvainSettings(Settings):
    """`resolution` above 1 favours smaller communities."""

    summary: ClassVar[str] = "Louvain communities packed to balanced sizes (OpenFGL)"

    name: Literal["louvain"] = "louvain"
    num_clients: Annotated[int, Field(ge=1)] = 10
    resolution: Annotated[float, Field(gt=0)] = 1.0


class DirichletSettings(Settings):
    """Drawn again until every client has `min_nodes`."""

    summary: ClassVar[str] = "disjoint clients with label skew, Dirichlet(alpha)"

    name: Literal["dirichlet"] = "dirichlet"
    num_clients: Annotated[int, Field(ge=1)] = 10
    alpha: Annotated[float, Field(gt=0)] = 0.5
    min_nodes: Annotated[int, Field(ge=1)] = 10


class MetisSettings(Settings):
    summary: ClassVar[str] = "disjoint clients that cut few edges (needs securefg[metis])"

    name: Literal["metis"] = "metis"
    num_clients: Annotated[int, Field(ge=1)] = 10


class RandomSettings(Settings):
    summary: ClassVar[str] = "disjoint clients of equal size, dealt at random"

    name: Literal["random"] = "random"
    num_clients: Annotated[int, Field(ge=1)] = 10


class GivenSettings(Settings):
    summary: ClassVar[str] = "as the data come dealt out: twitch by country, folder by clients.csv"

    name: Literal["given"] = "given"


PartitionSettings = Annotated[
    SharesSettings
    | PublicPrivateSettings
    | OneNodeSettings
    | LouvainSettings
    | DirichletSettings
    | MetisSettings
    | RandomSettings
    | GivenSettings,
    Field(discriminator="name"),
]

_ALL: tuple[type[Settings], ...] = (
    SharesSettings,
    PublicPrivateSettings,
    OneNodeSettings,
    LouvainSettings,
    DirichletSettings,
    MetisSettings,
    RandomSettings,
    GivenSettings,
)
PARTITIONS: dict[str, str] = {
    kind.model_fields["name"].default: str(getattr(kind, "summary", "")) for kind in _ALL
}
"""One line about each, by name."""
