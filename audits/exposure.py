"""Linear exposure (G3): whose contributions follow from the sums that a party was sent, by algebra.

It needs no training, no guess and no private value: who was added to what is enough. Contribution j
is recoverable iff e_j lies in the row space of the sums' weights (`securefg.secagg.exposure`). The
norm of the pseudo-inverse's row says by how much noise on the sums would be amplified.

sums to recipients   clients are sent sums over the graph: what coalitions of any size solve for
sums that are opened the server opens sums over neighbourhoods: whose rows follow
masked sums          what drop-outs and nodes of a single holder give away, what subset sums tell
                     of a node's holders, and what one client that colludes with the server adds
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from audits.findings.record import Finding, Verdict
from audits.truth import Truth
from securefg.foundation.errors import ConfigError
from securefg.foundation.interval import Interval
from securefg.foundation.streams import numpy_stream
from securefg.models.graph_operators import neighbourhood_sums, operator_matrix
from securefg.protocol.meanings import GraphSums, Jacobian, Meaning
from securefg.protocol.secrets import HOLDER, UPLOAD, cell_code
from securefg.protocol.transcript import read_transcript
from securefg.runs import recovered
from securefg.runs.assembly import hosts_of
from securefg.runs.opened import Opened, read_opened
from securefg.runs.recovered_holders import HolderSums
from securefg.secagg.committee.seating import seat_committee
from securefg.secagg.exposure import Exposure, linear_exposure, num_exposed
from securefg.secagg.keys import load_identities

ATTACK = "linear_exposure"
COALITIONS = 5
SHARES = (0.1, 0.5)
MOST_COALITIONS = 64
"""Of more clients, not every one is tried as the server's helper."""
COALITION_READS = "number of uploads whose masks they know"
HOLDERS = "nodes of which a holder follows"
ROW_SPACE = "row space of the sums' weights, residual under 1e-8"
SUBSETS = "subset sums of the clients' constants, all enumerated"
KNOWN_GRAPH = "the graph is known to the party; its own contributions are subtracted"
KNOWN_CONSTANTS = "the clients' constants are known; nodes with one holder show them"


def audit_exposures(truth: Truth, seed: int) -> list[Finding]:
    """Return a finding for every party that is sent sums."""
    return [
        *_graph_sums(truth, seed),
        *_opened_graph_sums(truth),
        *_masked_sums(truth),
        *_committee_findings(truth),
    ]


# ------------------------------------------------------------------------------ sums to recipients


def _graph_sums(truth: Truth, seed: int) -> Iterator[Finding]:
    """Yield findings about the sums sum_j operator_kj value_j that every client k, or each with
    labels, is sent.

    A coalition knows its own terms and those sums that its members were sent.
    """
    x, total = truth.experiment, truth.experiment.public.num_clients
    for upload in truth.spoken.uploads.values():
        sums = _sums_of(upload, truth.spoken.sent.values())
        if sums is None or x.public.edge_index is None:
            continue
        assert sums.of is not None
        assert sums.by is not None
        recipients = np.arange(total)
        if isinstance(sums.of, Jacobian) and x.public.trainers is not None:
            recipients = x.public.trainers.numpy()  # a slope serves those who train alone
        weights = operator_matrix(sums.by, x.public.edge_index, total)
        everything = linear_exposure(weights)
        for size in sorted({1, *(int(share * len(recipients)) for share in SHARES)} - {0, total}):
            started = time.monotonic()
            name = sums.of.title
            rng = numpy_stream(seed, "coalition", name, size)
            exposures = coalition_exposures(weights, recipients, size, rng)
            yield _make_finding(
                truth,
                started,
                adversary=f"any {size} of {len(recipients)} clients",
                metric=f"share of the others' {name} that follows from the coalition's sums",
                shares=[one.share for one in exposures],
                noisy=_is_noisy(truth, upload),
                details={
                    **_median_amplification(exposures),
                    "share_exposed_by_all_sums": everything.share,
                    "condition_number_of_all_sums": everything.condition_number,
                },
                targets=total - size,
            )


def _sums_of(upload: Meaning, sent: Iterable[Meaning]) -> GraphSums | None:
    """Return the sums that are sent of an upload, or of the value that its parts are parts of."""
    summed = upload.of if isinstance(upload, GraphSums) else upload
    sums = [meaning for meaning in sent if isinstance(meaning, GraphSums)]
    fitting = [s for s in sums if s.of is not None and summed is not None and summed.fits(s.of)]
    return fitting[0] if fitting else None


def coalition_exposures(
    weights: NDArray[np.float64],
    recipients: NDArray[np.int64],
    size: int,
    rng: np.random.Generator,
    draws: int = COALITIONS,
) -> list[Exposure]:
    """Return the exposures of several random coalitions of `size` among those who are sent sums."""
    drawn = [rng.permutation(recipients)[:size] for _ in range(draws)]
    return [linear_exposure(weights[members], members.tolist()) for members in drawn]


# ------------------------------------------------------------------------- sums that a server opens


def _opened_graph_sums(truth: Truth) -> Iterator[Finding]:
    """Yield findings about sums over the graph whose parts clients upload and which the server
    opens."""
    x = truth.experiment
    for (kind, field), upload in truth.spoken.uploads.items():
        scope = x.method.message(kind).declarations[field].scope
        if not isinstance(upload, GraphSums) or scope != "sum" or x.public.edge_index is None:
            continue
        assert upload.by is not None
        assert upload.of is not None
        started, what = time.monotonic(), f"{upload.of.title} that follows from sums over the graph"
        try:
            matrix = neighbourhood_sums(x.public.edge_index, x.public.num_nodes, upload.by.least)
            sum_exposure = linear_exposure(matrix)
        except ConfigError as error:  # too large to be solved here; a server may have more memory
            yield unsolved_finding(truth, f"share of the {what}", str(error))
            continue
        yield _make_finding(
            truth,
            started,
            adversary="server",
            metric=f"share of the {what}",
            shares=[sum_exposure.share],
            noisy=_is_noisy(truth, upload),
            details=_median_amplification([sum_exposure])
            | {"condition_number": sum_exposure.condition_number},
            targets=x.public.num_nodes,
        )


def unsolved_finding(truth: Truth, metric: str, why: str) -> Finding:
    """Return an INCONCLUSIVE finding for a system that is too large to be solved."""
    return Finding(
        adversary="server",
        attack=ATTACK,
        method=truth.method_name,
        metric=metric,
        unit="contribution",
        verdict=Verdict.INCONCLUSIVE,
        because=f"not solved: {why}",
        cells=_cell_codes("server", metric),
    )


def _cell_codes(adversary: str, metric: str) -> tuple[str, ...]:
    secret = HOLDER if HOLDERS in metric else UPLOAD
    return (cell_code(secret.code, "server" if adversary.startswith("server") else "client"),)


# ------------------------------------------------------------------------------------ masked sums


def _masked_sums(truth: Truth) -> Iterator[Finding]:
    """Yield what the run's own sessions gave away, drop-outs included, and then with one client's
    help."""
    settings = truth.config.privacy.secure_aggregation
    if settings is None:
        return
    records = read_transcript(truth.folder.transcript)
    holders = HolderSums(truth.experiment)
    opened = read_opened(truth.experiment.method, records, holders.read)
    masked = truth.experiment.policy.masked
    noisy = all(_has_noise(truth, name) for name in masked)
    planned = truth.experiment.method.planned(
        truth.config.method, truth.config.training, truth.experiment.public
    )
    by_node = any(release.declaration.rows and release.name in masked for release in planned)
    if truth.experiment.method.exposed_uploads is not None:
        return  # the method's sums are no plain ones, and are told of by themselves
    started, smallest = time.monotonic(), min((len(one.clients) for one in opened), default=0)
    uploads, rows = recovered.count_exposures(truth.experiment, opened)
    counts = {"uploads that follow": uploads}
    if by_node:
        counts["rows of nodes that follow"] = rows
    shown = holders.num_exposed(opened)
    if by_node or shown:
        counts[HOLDERS] = shown
    for unit, count in counts.items():
        if count is None:
            why = "too many sums or subset sums, or no record tells which rows were in them"
            yield unsolved_finding(truth, f"number of {unit} from all masked sums", why)
            continue
        yield _make_finding(
            truth,
            started,
            adversary="server",
            metric=f"number of {unit} from all masked sums of the run",
            shares=[float(count)],
            noisy=noisy,
            details={"sessions": float(len(opened)), "smallest_cohort": float(smallest)},
            targets=truth.experiment.public.num_nodes if unit == HOLDERS else len(opened),
            estimator=SUBSETS if unit == HOLDERS else ROW_SPACE,
            assumption=KNOWN_CONSTANTS if unit == HOLDERS else KNOWN_GRAPH,
        )
    if uploads is not None and truth.experiment.partition.num_clients <= MOST_COALITIONS:
        yield from _with_one_client(truth, opened, by_node, noisy)


def _with_one_client(
    truth: Truth, opened: list[Opened], by_node: bool, noisy: bool
) -> Iterator[Finding]:
    """Yield findings about a client that colludes with the server and subtracts its own part from
    every sum of the run."""
    started, x = time.monotonic(), truth.experiment
    holders = recovered.row_holders(x)
    uploads, shares = [], []
    for client in range(x.partition.num_clients):
        found = recovered.find_exposed(x, opened, [client])
        uploads.append(float(num_exposed(t for t in found if t.part is None)))
        parts = {term.part: term.count for term in found if term.part is not None}
        held = sum(count for pattern, count in holders.items() if pattern - {client})
        shown = sum(parts.values())
        shares.append(shown / held if held else 0.0)
    settings = truth.config.privacy.secure_aggregation
    assert settings is not None
    told = {"share of the others' nodes whose rows follow from the sums": shares} if by_node else {}
    told["number of the others' uploads that follow from all masked sums of the run"] = uploads
    for metric, values in told.items():
        yield _make_finding(
            truth,
            started,
            adversary="server and any one client",
            metric=metric,
            shares=values,
            noisy=noisy,
            details={"min_holders": float(settings.min_holders)} if values is shares else {},
            targets=x.public.num_nodes if values is shares else len(opened),
        )


def _committee_findings(truth: Truth) -> Iterator[Finding]:
    """Which uploads the server reads with as many members of the committee as may collude."""
    settings, x = truth.config.privacy.secure_aggregation, truth.experiment
    if settings is None or settings.form != "committee":
        return
    started = time.monotonic()
    files = {truth.folder.identities / f"{n}.keys": own for n, own in hosts_of(x).items()}
    if not all(path.is_file() for path in files):
        yield unsolved_finding(truth, COALITION_READS, "the keys of the run are not here")
        return
    known = {n: one for path, own in files.items() for n, one in load_identities(path, own).items()}
    committee = seat_committee(settings, [known[n].public for n in sorted(known)])
    coalitions = combinations(committee.members, committee.colluding)
    uploads = float(x.partition.num_clients)
    yield _make_finding(
        truth,
        started,
        adversary=f"server and any {committee.colluding} members of the committee",
        metric=COALITION_READS,
        shares=[
            uploads * committee.is_read_by(some) for some in islice(coalitions, MOST_COALITIONS)
        ],
        noisy=False,
        details={"members": len(committee.members), "groups": committee.num_groups},
        targets=x.partition.num_clients,
        estimator="the seeds that each member is sealed, and the lists that it signs",
        assumption=committee.in_words(),
    )


# --------------------------------------------------------------------------------------- findings


def _is_noisy(truth: Truth, upload: Meaning) -> bool:
    """Return whether every field of that meaning leaves with noise, the policy's or the method's
    own."""
    if isinstance(upload, Jacobian) and upload.noise:
        return True
    places = [place for place, meaning in truth.spoken.uploads.items() if meaning == upload]
    names = [f"{truth.experiment.method.message(kind).__name__}.{name}" for kind, name in places]
    return all(_has_noise(truth, name) for name in names)


def _has_noise(truth: Truth, field: str) -> bool:
    rule = truth.experiment.policy.rules.get(field)
    return rule is not None and not rule.is_bare


def _median_amplification(found: Sequence[Exposure]) -> dict[str, float]:
    """Return the median amplification of noise over all that is exposed, or nothing if nothing
    is."""
    every = np.concatenate([one.amplification[one.exposed] for one in found])
    return {"noise_amplification": float(np.median(every))} if every.size else {}


def _make_finding(
    truth: Truth,
    started: float,
    adversary: str,
    metric: str,
    shares: Sequence[float],
    noisy: bool,
    details: dict[str, float],
    targets: int,
    estimator: str = ROW_SPACE,
    assumption: str = KNOWN_GRAPH,
) -> Finding:
    """Return a finding with the mean over coalitions, from the least to the most exposed."""
    value = Interval(value=float(np.mean(shares)), low=min(shares), high=max(shares))
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
        estimator=estimator,
        targets=targets,
        details={name: x for name, x in details.items() if np.isfinite(x)},
        assumptions=(assumption,),
        cells=_cell_codes(adversary, metric),
        seconds=round(time.monotonic() - started, 3),
    )
