"""The combinations of method, private field and defence, each as a small config."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NODES, CLIENTS, NOISE = 16, 4, 2.0
CSBM = {
    "num_nodes": NODES,
    "degree": 6,
    "graph_signal": 2,
    "mu": 2,
    "num_features": 8,
    "train_share": 0.4,
}
CENTRAL = {"task": "dnc", **CSBM}
SAMPLES = {"task": "sc", **CSBM, "num_nodes": 12, "degree": 6, "samples_per_node": 24}
ROUNDS = {"rounds": 2, "local_epochs": 1, "patience": None, "final_model": "last"}
ONE_ROUND = {**ROUNDS, "rounds": 1}
NEIGHBOURHOOD = {"upload": "neighbourhood_sums", "smoothness": 0, "missing": "zero"}

RANDOM = {"name": "random", "num_clients": CLIENTS}
SHARES = {"name": "shares", "shares": [0.5] * CLIENTS}
ONE_NODE = {"name": "one_node"}
PUBLIC = {"name": "public_private", "num_clients": CLIENTS}


@dataclass(frozen=True)
class Form:
    """A form of a method: its settings, how nodes are dealt, and its private fields."""

    method: dict[str, Any]
    partition: dict[str, Any]
    fields: tuple[str, ...]
    training: dict[str, Any]
    csbm: dict[str, Any]
    malicious: bool


def _form(
    name: str,
    partition: dict[str, Any],
    *fields: str,
    training: dict[str, Any] | None = None,
    csbm: dict[str, Any] | None = None,
    malicious: bool = True,
    **settings: Any,
) -> Form:
    method = {"name": name, **settings}
    return Form(method, partition, fields, training or ROUNDS, csbm or CENTRAL, malicious)


FORMS = {
    "alone": _form("alone", RANDOM),
    "best_alone": _form("best_alone", RANDOM),
    "fedavg": _form("fedavg", RANDOM, "Update.weights", "Update.num_nodes"),
    "fedavg, equal weights": _form("fedavg", RANDOM, "Update.weights", weighting="clients"),
    "fedavg, rows alone": _form(
        "fedavg", RANDOM, "Update.weights", network="MLP", weighting="clients", optimizer="sgd"
    ),
    "fedgl": _form(
        "fedgl",
        SHARES,
        *("Update.weights", "Update.num_nodes", "Update.predictions"),
        *("Update.embeddings", "Update.holds"),
    ),
    "fedgl, equal weights": _form(
        "fedgl",
        SHARES,
        *("Update.weights", "Update.predictions", "Update.embeddings", "Update.holds"),
        weighting="clients",
    ),
    "fedmlp": _form("fedmlp", ONE_NODE, "Update.weights", csbm=SAMPLES),
    "gfl_appnp": _form(
        "gfl_appnp",
        ONE_NODE,
        *("Representation.hidden", "Representation.jacobian", "Update.weights"),
        malicious=False,
    ),
    "gfl_appnp, sums at recipients": _form(
        "gfl_appnp",
        ONE_NODE,
        *("Parts.parts", "Update.weights"),
        malicious=False,
        jacobian="none",
        sums="recipients",
    ),
    "label_propagation": _form("label_propagation", ONE_NODE),
    "mlps": _form("mlps", ONE_NODE, csbm=SAMPLES),
    "nfedgnn": _form("nfedgnn", ONE_NODE, "Latents.latent"),
    "nfedgnn, neighbourhood sums": _form(
        "nfedgnn", ONE_NODE, "Parts.parts", malicious=False, **NEIGHBOURHOOD
    ),
    "nfedgnn, averaged weights": _form(
        "nfedgnn",
        ONE_NODE,
        "Latents.latent",
        "Learnt.weights",
        malicious=False,
        average=True,
        smoothness=0,
    ),
    "noisy_counts": _form(
        "noisy_counts",
        RANDOM,
        *("ClassSums.sums", "LabelCounts.counts", "Products.products"),
        training=ONE_ROUND,
    ),
    "one_sum": _form("one_sum", RANDOM, "ClassSums.sums", training=ONE_ROUND),
    "own_sums": _form("own_sums", RANDOM),
    "ppfl_deepwalk": _form("ppfl_deepwalk", PUBLIC, "Rows.rows", scoring="split"),
    "ppfl_deepwalk, by degree": _form(
        "ppfl_deepwalk", PUBLIC, "Rows.rows", "Rows.weights", scoring="split", aggregation="degree"
    ),
    "ppfl_deepwalk, reference": _form(
        "ppfl_deepwalk",
        PUBLIC,
        "RotatedRows.rows",
        malicious=False,
        scoring="split",
        alignment="reference",
        start="shared",
    ),
    "ppfl_gat": _form("ppfl_gat", PUBLIC, "Rows.rows"),
    "ppfl_gat, by degree": _form(
        "ppfl_gat", PUBLIC, "Rows.rows", "Rows.weights", aggregation="degree"
    ),
    "ppfl_gat, reference": _form(
        "ppfl_gat",
        PUBLIC,
        "RotatedRows.rows",
        malicious=False,
        alignment="reference",
        start="shared",
    ),
    "ppfl_gat, reference by degree": _form(
        "ppfl_gat",
        PUBLIC,
        *("RotatedRows.rows", "RotatedRows.weights"),
        malicious=False,
        alignment="reference",
        start="shared",
        aggregation="degree",
    ),
    "ppfl_deepwalk, reference by degree": _form(
        "ppfl_deepwalk",
        PUBLIC,
        *("RotatedRows.rows", "RotatedRows.weights"),
        malicious=False,
        scoring="split",
        alignment="reference",
        start="shared",
        aggregation="degree",
    ),
    "pseudo_sums": _form("pseudo_sums", ONE_NODE, "ClassSums.sums", training=ONE_ROUND),
    "two_sums": _form(
        "two_sums", RANDOM, "ClassSums.sums", "Products.products", training=ONE_ROUND, narrow=1
    ),
}
SESSION = {"dropout": 0, "corrupt": 0}
COMMITTEE = {"form": "committee", "dropout": 0, "corrupt": 0}
MASKED = {"masks": SESSION, "committee": COMMITTEE}
DEFENCES = (
    "plain",
    "masks",
    "committee",
    "local_gaussian",
    "local_gaussian, masks",
    "local_gaussian, committee",
    "distributed_discrete, masks",
    "distributed_discrete, committee",
    "dp_sgd",
)
"""A defence of one field, and a form of masks for all that can be masked."""


@dataclass(frozen=True)
class Combination:
    """A form of a method, a private field (or None, where nothing private is sent), a defence."""

    form: str
    field: str | None
    defence: str

    def tree(self, root: Path) -> dict[str, Any]:
        """Return the config."""
        form = FORMS[self.form]
        training = dict(form.training)
        privacy: dict[str, Any] = {}
        noise, _, masks = self.defence.partition(", ")
        if noise in MASKED:
            noise, masks = "plain", noise
        if noise == "dp_sgd":
            training |= {
                "weight_decay": 0,
                "dp_sgd": {
                    "noise_multiplier": NOISE,
                    "sampling": 0.5,
                    "num_samples": 10 if form.csbm is SAMPLES else NODES,
                },
            }
        elif noise != "plain":
            rule = {"mechanism": noise, "noise_multiplier": NOISE}
            privacy = {"field_rules": {self.field: rule}} if self.field else rule
        if masks:
            privacy["secure_aggregation"] = {**MASKED[masks], "malicious": form.malicious}
        return {
            "method": form.method,
            "data": {"name": "csbm", "csbm": form.csbm},
            "partition": form.partition,
            "training": training,
            "privacy": privacy,
            "output": {"root": str(root)},
        }


def combinations() -> Iterator[Combination]:
    """Yield all combinations."""
    for name, form in FORMS.items():
        for field in form.fields or (None,):
            for defence in DEFENCES:
                yield Combination(name, field, defence)


def one_field_each() -> Iterator[Combination]:
    """Yield a combination for every form and defence. Defences take turns among the fields."""
    for name, form in FORMS.items():
        fields = form.fields or (None,)
        for number, defence in enumerate(DEFENCES):
            yield Combination(name, fields[number % len(fields)], defence)
