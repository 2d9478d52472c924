"""The settings of the data in a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from securefg.foundation.complaints import Expected
from securefg.foundation.settings import Settings, with_new_names
from securefg.settings.datasets import Norm, canonical_name

DatasetName = Annotated[
    str, AfterValidator(canonical_name), Expected("a dataset (`securefg list datasets`)")
]
Share = Annotated[float, Field(gt=0, le=1)]


class SplitSettings(Settings):
    """Which nodes train, validate and test.

    public  the published split; `index` chooses where there are several (Chameleon and Squirrel
            have 10, Wiki-CS has 20)
    random  `labels_per_class`, `num_val` and `num_test` nodes, drawn from the run's seed
    shares  `train_share` and `val_share` of every class, the rest for testing, from the seed
    folds   cross-validation: fold `fold` of `num_folds` tests, a tenth of the others validates; the
            folds are the same in all runs of one seed
    """

    kind: Literal["public", "random", "shares", "folds"] = Field(
        "public", description="how nodes are split"
    )
    index: int = Field(0, ge=0, description="public: which of several published splits")
    labels_per_class: int = Field(20, ge=1, description="random: training labels per class")
    num_val: int = Field(500, ge=0, description="random: number of validation nodes")
    num_test: int = Field(1000, ge=0, description="random: number of test nodes")
    train_share: Share = Field(0.2, description="shares: part of every class that trains")
    val_share: Share = Field(0.4, description="shares: part of every class that validates")
    fold: int = Field(0, ge=0, description="folds: the fold that tests")
    num_folds: int = Field(5, ge=2, description="folds: number of folds")

    @model_validator(mode="after")
    def _fold_exists(self) -> Self:
        if self.fold >= self.num_folds:
            raise ValueError(f"fold: found {self.fold}; expected 0 to {self.num_folds - 1}")
        return self


# The experiments of "Graph Federated Learning with Hidden Representation Sharing", appendix A.2.1.
_PAPER: dict[str, dict[str, float]] = {
    "dnc": {"num_nodes": 200, "degree": 8, "graph_signal": 2, "mu": 1, "samples_per_node": 1},
    "snc": {"num_nodes": 200, "degree": 10, "graph_signal": 2, "mu": 1, "samples_per_node": 40},
    "sc": {
        "num_nodes": 50,
        "degree": 5,
        "graph_signal": 2.2,
        "mu": 0.1,
        "samples_per_node": 120,
        "train_share": 1 / 12,
        "val_share": 1 / 12,
    },
}


class CsbmSettings(Settings):
    """The contextual stochastic block model; what is left out is as the paper has it for `task`.

    dnc  every node has one sample and a label
    snc  every node has several samples that share its label
    sc   every node has several samples, each with a label of its own

    The shares are of the nodes (dnc, snc) or of every node's samples (sc); the rest is for testing.
    `topology_seed` draws the graph and the split, the run's seed draws features and sample labels,
    so repeats with other seeds redraw the features only, as in the paper.
    """

    renamed: ClassVar[Mapping[str, str]] = {"lambda_": "graph_signal"}

    task: Literal["dnc", "snc", "sc"] = Field(
        "dnc", description="which labels and samples nodes have"
    )
    num_nodes: int = Field(ge=4, description="number of nodes")
    degree: float = Field(gt=0, description="mean degree d")
    graph_signal: float = Field(
        ge=0, description="lambda: how far the graph tells the classes apart"
    )
    mu: float = Field(ge=0, description="how far the features tell the classes apart")
    num_features: int = Field(100, ge=1, description="p: number of features")
    samples_per_node: int = Field(ge=1, description="samples of every node")
    train_share: Share = Field(0.1, description="shares: part of every class that trains")
    val_share: Share = Field(0.1, description="shares: part of every class that validates")
    topology_seed: int = Field(0, description="seed of the graph and the split")
    edge_features: int = Field(
        0, ge=0, description="numbers of every edge in 0..1, larger between nodes of class 1"
    )
    edge_sums: bool = Field(
        False,
        description="append their sums over edges, over the square root of their number, to a "
        "node's features (dnc)",
    )

    @model_validator(mode="before")
    @classmethod
    def _as_in_the_paper(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        own = with_new_names(given, cls.renamed)
        return {**_PAPER.get(str(given.get("task", "dnc")), {}), **own}

    @model_validator(mode="after")
    def _check_consistency(self) -> Self:
        if self.graph_signal**2 > self.degree:
            raise ValueError(
                f"graph_signal: found {self.graph_signal}; expected 0 to sqrt(degree), so that "
                "c_out >= 0"
            )
        if self.degree + self.graph_signal * self.degree**0.5 > self.num_nodes:
            raise ValueError(f"degree: found {self.degree}; expected c_in of at most num_nodes")
        if self.train_share + self.val_share >= 1:
            total = f"{self.train_share:g} + {self.val_share:g}"
            raise ValueError(
                f"train_share: found train_share + val_share = {total}; expected a sum below 1, to "
                "leave nodes for testing"
            )
        if self.task == "dnc" and self.samples_per_node != 1:
            raise ValueError(f"samples_per_node: found {self.samples_per_node}; expected 1 for dnc")
        return self


class SubCoraSettings(Settings):
    """Subgraphs of Cora, as in the GFL-APPNP paper's appendix A.2.1, drawn from the run's seed.

    test_from  "near": the nodes nearest to the training set; "anywhere": any nodes of Cora
    """

    num_nodes: int = Field(300, ge=4, description="number of nodes")
    drawn_nodes: int = Field(
        800, ge=1, le=2708, description="nodes of Cora from which the training set is drawn"
    )
    least_train: int = Field(30, ge=1, description="smallest training set")
    most_train: int = Field(50, ge=1, description="largest training set")
    class_spread: float = Field(
        2.5, ge=0, description="largest standard deviation of the training set's class counts"
    )
    test_from: Literal["near", "anywhere"] = "near"

    @model_validator(mode="after")
    def _leaves_test_nodes(self) -> Self:
        if not self.least_train <= self.most_train <= (self.num_nodes - 1) // 2:
            raise ValueError(
                f"most_train: found {self.most_train} with least_train {self.least_train}; "
                f"expected least_train to {(self.num_nodes - 1) // 2}, to leave nodes for testing"
            )
        return self


class DataSettings(Settings):
    """Which dataset, from where, and how it is split.

    root                where the raw files lie; else SECUREFG_DATA; else they are downloaded
    normalize_features  what rows are scaled by; not set: as is usual for the dataset
    csbm, subcora       for these names only, and filled in for them when left out
    projection          project the features to so many dimensions with a public random matrix:
                        fewer parameters, so that noise of one epsilon costs less accuracy
    folder              for the name "folder" only: the folder to read
    label_noise         share of the training labels that are replaced by another class at random;
                        validation and test labels stay true
    """

    name: DatasetName = Field(description="dataset, or `folder`, `csbm`, `subcora`")
    root: Path | None = None
    split: SplitSettings = SplitSettings()
    normalize_features: Norm | None = None
    projection: Annotated[int, Field(ge=1)] | None = None
    csbm: CsbmSettings | None = None
    subcora: SubCoraSettings | None = None
    folder: Path | None = None
    label_noise: Annotated[float, Field(ge=0, le=1)] = 0.0

    @model_validator(mode="before")
    @classmethod
    def _drawn_as_in_the_paper(cls, given: Any) -> Any:
        name = str(given.get("name")).lower() if isinstance(given, dict) else ""
        return {**given, name: given.get(name) or {}} if name in ("csbm", "subcora") else given

    @model_validator(mode="after")
    def _parts_go_with_their_names(self) -> Self:
        parts = (("csbm", self.csbm), ("subcora", self.subcora), ("folder", self.folder))
        for part, value in parts:
            if (self.name == part) != (value is not None):
                found = "nothing" if value is None else "settings"
                raise ValueError(
                    f"{part}: found {found} with name {self.name!r}; "
                    f"expected {part} with `name: {part}`, and only then"
                )
        return self
