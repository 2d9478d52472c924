"""Linear exposure (G3): whose contributions follow from the sums that a party was sent, by algebra.

No training, no guess and no private value: who was added to what is enough. Contribution j is
recoverable iff e_j lies in the row space of the sums' weights (`securefg.secagg.exposure`); the
norm of the pseudo-inverse's row says by how much noise on the sums would be amplified.

GFL-APPNP      clients are sent sums over the graph: what coalitions of several sizes solve for
nFedGNN        the server opens sums over neighbourhoods: whose latents follow
masked sums    what drop-outs and nodes of a single holder give away, and what one client that
               colludes with the server adds
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from audits.findings import Figure, Finding, Verdict
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.streams import numpy_stream
from securefg.models.appnp import propagation_matrix
from securefg.secagg.exposure import Exposure, linear_exposure, node_exposure
from securefg.secagg.recipient_sums import MIN_CONTRIBUTORS

ATTACK = "linear_exposure"
COALITIONS = 5
SHARES = (0.1, 0.5)


def exposures(truth: Truth, seed: int) -> list[Finding]:
    """A finding for every party that is sent sums."""
    return [
        *_graph_sums(truth, seed),
        *_neighbourhood_sums(truth),
        *_masked_sums(truth),
    ]


# ------------------------------------------------------------------------------------- GFL-APPNP


def _graph_sums(truth: Truth, seed: int) -> Iterator[Finding]:
    """C_k = sum_{j != k} A_tilde_kj h_j to every client, likewise the Jacobians to labelled ones.

    A coalition knows its own terms and those sums that its members were sent.
    """
    x = truth.experiment
    if x.method.name != "gfl_appnp":
        return
    settings, total = truth.config.method, x.public.num_clients
    assert x.public.edge_index is not None
    weights = sent_by_graph(x.public.edge_index, total, settings.teleport, settings.steps)
    everything = linear_exposure(weights)
    assert x.public.trainers is not None
    fields = {"hidden": np.arange(total)}
    if settings.jacobian == "full":
        fields["jacobian"] = x.public.trainers.numpy()
    for name, recipients in fields.items():
        for size in sorted({1, *(int(share * len(recipients)) for share in SHARES)} - {0, total}):
            started = time.monotonic()
            rng = numpy_stream(seed, "coalition", name, size)
            found = coalition_exposures(weights, recipients, size, rng)
            yield _finding(
                truth,
                started,
                adversary=f"any {size} of {len(recipients)} clients",
                metric=f"share of the others' {name} that follows from the coalition's sums",
                shares=[one.share for one in found],
                noisy=_is_noisy(truth, f"Representation.{name}")
                or _is_noisy(truth, "Parts.parts")
                or (name == "jacobian" and settings.jacobian_noise > 0),
                details={
                    **_amplification(found),
                    "share_exposed_by_all_sums": everything.share,
                    "condition_number_of_all_sums": everything.condition_number,
                },
                targets=total - size,
            )


def sent_by_graph(
    edge_index: Tensor, num_nodes: int, teleport: float, steps: int
) -> NDArray[np.float64]:
    """Row k: what every client's value is multiplied by in C_k; nobody is in its own sum."""
    matrix = propagation_matrix(edge_index, num_nodes, teleport, steps).fill_diagonal_(0)
    found: NDArray[np.float64] = matrix.numpy()
    return found


def coalition_exposures(
    weights: NDArray[np.float64],
    recipients: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
    draws: int = COALITIONS,
) -> list[Exposure]:
    """Of several random coalitions of `size` among those who are sent sums."""
    drawn = [rng.permutation(recipients)[:size] for _ in range(draws)]
    return [linear_exposure(weights[members], members.tolist()) for members in drawn]


# --------------------------------------------------------------------------------------- nFedGNN


def _neighbourhood_sums(truth: Truth) -> Iterator[Finding]:
    x = truth.experiment
    if x.method.name != "nfedgnn" or truth.config.method.upload != "neighbourhood_sums":
        return
    started = time.monotonic()
    assert x.public.edge_index is not None
    sums = neighbourhood_sums(x.public.edge_index, x.public.num_nodes, MIN_CONTRIBUTORS)
    try:
        found = linear_exposure(sums)
    except ConfigError:  # too large to be solved here; a server may have a larger machine
        return
    yield _finding(
        truth,
        started,
        adversary="server",
        metric="share of the latents that follows from the sums over neighbourhoods",
        shares=[found.share],
        noisy=_is_noisy(truth, "Parts.parts"),
        details=_amplification([found]) | {"condition_number": found.condition_number},
        targets=x.public.num_nodes,
    )


def neighbourhood_sums(edge_index: Tensor, num_nodes: int, least: int = 1) -> sparse.csr_array:
    """A_hat = D^-1/2 (A + I) D^-1/2 without the rows of fewer than `least` terms."""
    loops = torch.arange(num_nodes)
    row, column = torch.cat([edge_index.cpu(), loops.expand(2, -1)], 1).numpy()
    sizes = np.bincount(row, minlength=num_nodes)
    values = 1 / np.sqrt(sizes[row] * sizes[column].astype(np.float64))
    kept = sizes[row] >= least
    entries = (values[kept], (row[kept], column[kept]))
    return sparse.csr_array(entries, shape=(num_nodes, num_nodes))


# ------------------------------------------------------------------------------------ masked sums


def _masked_sums(truth: Truth) -> Iterator[Finding]:
    """What the run's own sessions gave away, drop-outs included; then with one client's help."""
    recovered = truth.folder.summary().get("recovered_by_algebra")
    settings = truth.config.privacy.secure_aggregation
    if recovered is None or settings is None:
        return
    masked = truth.experiment.policy.masked
    noisy = all(_is_noisy(truth, name) for name in masked)
    planned = truth.experiment.method.planned(
        truth.config.method, truth.config.training, truth.experiment.public
    )
    by_node = any(release.declaration.rows and release.name in masked for release in planned)
    kinds = {"uploads": "contributions"} | ({"rows of nodes": "node_rows"} if by_node else {})
    if truth.experiment.method.exposed_uploads is not None:
        kinds = {}  # the method's sums are no plain ones, and are told of by themselves
    for unit, key in kinds.items():
        count = recovered[f"{key}_recoverable"]
        if count is None:
            continue
        started = time.monotonic()
        yield _finding(
            truth,
            started,
            adversary="server",
            metric=f"number of {unit} that follow from masked sums",
            shares=[float(count)],
            noisy=noisy,
            details={name: float(value) for name, value in recovered.items() if value is not None},
            targets=int(recovered["sessions"]),
        )
    if by_node:
        yield _with_one_client(truth, settings.min_holders, noisy)


def _with_one_client(truth: Truth, min_holders: int, noisy: bool) -> Finding:
    """A client that colludes with the server subtracts its own rows from the sums per node."""
    started = time.monotonic()
    partition = truth.experiment.partition
    holders = [nodes.numpy() for nodes in partition.clients]
    size = truth.experiment.public.num_nodes
    shares = [
        node_exposure(holders, size, [client], min_holders).share
        for client in range(partition.num_clients)
    ]
    return _finding(
        truth,
        started,
        adversary="server and any one client",
        metric="share of the others' nodes whose rows follow from the sums",
        shares=shares,
        noisy=noisy,
        details={"min_holders": float(min_holders)},
        targets=size,
    )


# --------------------------------------------------------------------------------------- findings


def _is_noisy(truth: Truth, field: str) -> bool:
    rule = truth.experiment.policy.rules.get(field)
    return rule is not None and rule.noise_multiplier is not None


def _amplification(found: Sequence[Exposure]) -> dict[str, float]:
    """The median over all that is exposed; nothing where nothing is."""
    every = np.concatenate([one.amplification[one.exposed] for one in found])
    return {"noise_amplification": float(np.median(every))} if every.size else {}


def _finding(
    truth: Truth,
    started: float,
    adversary: str,
    metric: str,
    shares: Sequence[float],
    noisy: bool,
    details: dict[str, float],
    targets: int,
) -> Finding:
    """The mean over coalitions, from the least to the most exposed."""
    value = Figure(value=float(np.mean(shares)), low=min(shares), high=max(shares))
    verdict, because = Verdict.NOT_DETECTED, "nothing follows by algebra alone"
    if value.high > 0 and noisy:
        because = f"{value.value:.3g} follow, with the noise that they left under and no less"
    elif value.high > 0:
        verdict = Verdict.LEAK
        because = f"{value.value:.3g} follow exactly ({value.low:.3g} to {value.high:.3g})"
    return Finding(
        adversary=adversary,
        attack=ATTACK,
        method=truth.experiment.method.name,
        metric=metric,
        unit="contribution",
        verdict=verdict,
        because=because,
        value=value,
        estimator="row space of the sums' weights, residual under 1e-8",
        targets=targets,
        details={name: x for name, x in details.items() if np.isfinite(x)},
        assumptions=("the graph is known to the party; its own contributions are subtracted",),
        seconds=round(time.monotonic() - started, 3),
    )
