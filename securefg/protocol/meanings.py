"""Meanings: the content that an adversary would read in a field, in words that methods and attacks
share.

A method's field says what it means. An attack says which meanings it needs. No attack knows a
method by name. A meaning may depend on the run's settings: then it is a function of them.

    weights: Tensor = private("sum", "trained model", means=Weights("network"))
    embeddings: Tensor = private("sum", "…", rows="node", means=lambda s: NodeRows(s.embedding))

An attribute that a need leaves at None matches any value. `Other` is the honest answer where no
word here fits: the audit then says that no attack understood the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import prod
from typing import Any, Literal

from torch import Tensor

Index = Literal["nodes", "public", "client"]
"""What a row stands for: a node of the global index, a public node, or the client itself."""


@dataclass(frozen=True)
class Meaning:
    """A base of all meanings."""

    def fits(self, need: Meaning) -> bool:
        """Return whether this is what is needed: of its kind, and alike in all that the need
        names."""
        if not isinstance(self, type(need)):
            return False
        named = {f.name: getattr(need, f.name) for f in fields(need)}
        return all(
            getattr(self, name).fits(value)
            if isinstance(value, Meaning) and isinstance(getattr(self, name), Meaning)
            else getattr(self, name) == value
            for name, value in named.items()
            if value is not None
        )

    @property
    def words(self) -> str:
        """Return the meaning for people, such as `node rows (layer hidden)`."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}
        shown = [
            f"{name} {value.words if isinstance(value, Meaning) else value}"
            for name, value in said.items()
            if value is not None
        ]
        return f"{self.title} ({', '.join(shown)})" if shown else self.title

    @property
    def title(self) -> str:
        """Return the meaning's name as words."""
        name = type(self).__name__
        return "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


Means = Meaning | Callable[[Any], Meaning]
"""A meaning, or a function from the method's settings to it."""


@dataclass(frozen=True)
class NodeRows(Meaning):
    """A row of numbers per node: what a network, or walks, made of its features and its links.

    layer    latent (x W, before any neighbour is mixed in), hidden, final, walks
    encoder  the network that made them, by the name it has in `Method.networks`
    columns  how many columns are the embedding, where further ones are something else
    """

    layer: Literal["latent", "hidden", "final", "walks"] | None = None
    index: Index | None = None
    encoder: str | None = None
    columns: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Predictions(Meaning):
    """A set of class probabilities per node, as a client's own model gives them."""

    index: Index | None = None


@dataclass(frozen=True)
class Answers(Meaning):
    """A set of class scores per node, as the released model gives them to everybody who may ask."""


@dataclass(frozen=True)
class Release(Meaning):
    """A meaning of everything that the server releases at the end. Attacks need it, and no field
    declares it."""


@dataclass(frozen=True)
class Weights(Meaning):
    """A network's weights as one flat vector, or what local training changed of them.

    edges  whether the network reads features of edges
    """

    of: str | None = None
    change: bool | None = None
    edges: bool | None = None


@dataclass(frozen=True)
class Gradient(Meaning):
    """A derivative of the loss, by what is named."""

    of: str | None = None


@dataclass(frozen=True)
class Jacobian(Meaning):
    """A derivative of a representation by a first layer of `units` units, compact: [M | m].

    noise  standard deviation of noise that the method itself adds, whatever the policy
    """

    units: int | None = None
    noise: float | None = field(default=None, repr=False)


@dataclass(frozen=True)
class GraphOperator:
    """A matrix by which contributions are multiplied, to those who know the graph. Row k gives the
    weights of the k-th sum.

    kind  appnp: A_tilde without its diagonal; gcn: A_hat without rows of fewer than `least` terms
    """

    kind: Literal["appnp", "gcn"]
    teleport: float = 0.0
    steps: int = 0
    least: int = 1


@dataclass(frozen=True)
class GraphSums(Meaning):
    """A set of sums of contributions over the graph: for client k, sum_j operator_kj value_j."""

    of: Meaning | None = None
    by: GraphOperator | None = field(default=None, repr=False)


@dataclass(frozen=True)
class MeanRows(Meaning):
    """A mean of all clients' rows, in the receiver's own space or in one that all share."""

    space: Literal["own", "common"] | None = None
    columns: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class AddedGraph(Meaning):
    """A part of an operator that the server adds to clients' own, in CSR form."""

    part: Literal["counts", "columns", "values"] | None = None
    scale: float | None = field(default=None, repr=False)
    degree: Literal["count", "weight"] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Size(Meaning):
    """A number of nodes or samples that a client has."""


@dataclass(frozen=True)
class Holdings(Meaning):
    """A list of who holds which node, or has an edge at it. With degrees, it has how many."""

    degrees: bool | None = None


@dataclass(frozen=True)
class Statistic(Meaning):
    """A sum over a client's data: of features, of labels, or of both.

    form  by_class: features summed by class; moments: second moments of what describes a node;
          counts: neighbours' labels, counted at every node
    edges whether a node is described by sums over its edges too
    """

    of: Literal["features", "labels", "both"] | None = None
    form: Literal["by_class", "moments", "counts"] | None = None
    edges: bool | None = None


@dataclass(frozen=True)
class PseudoLabels(Meaning):
    """A class per node, as the server has it from what clients uploaded."""


@dataclass(frozen=True)
class Public(Meaning):
    """A value of no client: a setting, a mask of what may be sent, weights of a public graph."""

    about: str = ""


@dataclass(frozen=True)
class Other(Meaning):
    """A meaning in words, for which no word here fits. No attack understands it, and the audit says
    so."""

    about: str = ""


# ------------------------------------------------------------------------------------- networks


@dataclass(frozen=True)
class Layer:
    """A part of a network's flat vector of weights."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return the number of weights in the layer."""
        return prod(self.shape)


@dataclass(frozen=True)
class Matrix:
    """A layer that multiplies from one side: `transposed` where it is (outputs, inputs)."""

    layer: str
    transposed: bool = False
    bias: str | None = None


@dataclass(frozen=True)
class Layout:
    """A public description of a network whose weights, or rows made by it, are uploaded.

    layers     the flat vector, part after part
    inputs     the matrices that multiply features
    output     the matrix whose columns are classes, where there is one
    form       gcn2: A ReLU(A X W0) W1; mlp2: ReLU(X W0) W1; linear: X W; any: not said
    optimizer  what local training is, where decay alone can be followed
    initial    the first weights, where the public seed gives them
    hidden, dropout   for shadow models of a like size
    """

    layers: tuple[Layer, ...]
    inputs: tuple[Matrix, ...] = ()
    output: Matrix | None = None
    form: Literal["gcn2", "mlp2", "linear", "any"] = "any"
    optimizer: Literal["adam", "sgd"] | None = None
    initial: Callable[[], Tensor] | None = field(default=None, repr=False)
    hidden: int = 16
    dropout: float = 0.5

    @property
    def size(self) -> int:
        """Return the number of weights in all layers."""
        return sum(layer.size for layer in self.layers)

    def part(self, vector: Tensor, matrix: Matrix) -> Tensor:
        """Return the matrix, inputs by outputs, of a flat vector or of every row of a batch of
        them."""
        found = self.layer(vector, matrix.layer)
        return found.mT if matrix.transposed else found

    def layer(self, vector: Tensor, name: str) -> Tensor:
        """Return one layer's weights out of flat vectors, in the layer's shape."""
        start = 0
        for layer in self.layers:
            if layer.name == name:
                part = vector[..., start : start + layer.size]
                return part.reshape(*vector.shape[:-1], *layer.shape)
            start += layer.size
        raise KeyError(name)


Networks = Mapping[str, Layout]
