"""The exchange of public nodes' embeddings: PPFL-GNN's server, and a client's part in it.

Every client embeds the public nodes in a space of its own. Two ways to a common mean:

pairwise   clients upload their rows; the server rotates everybody's into each client's space and
           returns to each its own mean (the paper's lines 10-18). It needs every single upload.
reference  clients rotate their rows onto the last mean themselves, and rotate the new mean back:
           the server needs only the sum, so secure aggregation applies.

With `aggregation: degree` a row counts by the node's degree at the client, which is private too: a
node that has no edge at a client says nothing there. Degrees above `DEGREE_CAP` count alike. With
`aggregation: mean` every client uploads a row for every public node, and no count is needed.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from securefg.data.shard import Shard
from securefg.federation.evaluation import LocalScore
from securefg.federation.roles import Cohort, PublicInfo, Replies, Server, State, require_replies
from securefg.foundation.errors import ConfigError, ProtocolError
from securefg.methods.base import ReplyTo, participants
from securefg.methods.ppfl.settings import ExchangeSettings
from securefg.models.procrustes import alignment_precision, find_rotation, mean_seen_by, rotate_rows
from securefg.privacy.releases import Disclosure, PlannedRelease
from securefg.protocol.bounds import PAST_ROUND, Bound, PublicSizes, reals, truths
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Holdings, MeanRows, NodeRows, Public
from securefg.protocol.messages import Message, personal, private, public, round_number
from securefg.settings.execution import TrainingSettings

DEGREE_CAP: Final = 16
NEIGHBOURS: Final = (1, 5, 10)
BY_DEGREE: Final = Disclosure(
    setting="method.aggregation: found degree; expected mean",
    when="without noise",
    shows="Sums of degrees show at how many clients a public node has an edge, and the row where "
    "one client alone has one",
    instead="Set method.aggregation=mean, or add noise",
)


# ------------------------------------------------------------------------------------- messages


def _row_per_node(settings: ExchangeSettings, public: PublicSizes) -> Bound:
    return reals((public.num_public, settings.width))


def _truth_per_node(settings: ExchangeSettings, public: PublicSizes) -> Bound:
    return truths((public.num_public,))


def _row_meaning(settings: ExchangeSettings) -> NodeRows:
    return NodeRows(settings.layer, "public", columns=settings.embedding_columns)


class Aligned(Message, kind="public_rows.Aligned"):
    """A request to train on. `rows` are to stand in for the client's own rows of the public
    nodes."""

    number: int = round_number()
    upload: bool = public("whether rows are asked for")
    rows: Tensor | None = personal(
        "mean of all clients' rows, in the client's own space",
        means=lambda s: MeanRows("own", s.embedding_columns),
        bounds=_row_per_node,
    )
    known: Tensor | None = personal(
        "1 where the client uploaded before, so that it has a space",
        means=Public("who took part"),
        bounds=lambda s, p: truths(()),
    )


_SUMMED_BY = "method.alignment: reference and method.start: shared"


class Rows(Message, kind="public_rows.Rows"):
    """A set of rows of the public nodes, and how much each counts."""

    rows: Tensor = private(
        "each", "embedding per public node", means=_row_meaning, rows="node", summed_by=_SUMMED_BY
    )
    weights: Tensor | None = private(
        "each",
        "capped degree per public node",
        means=Holdings(degrees=True),
        rows="node",
        summed_by=_SUMMED_BY,
    )


class Mean(Message, kind="public_rows.Mean"):
    """A request to train on. Every client rotates the mean into its own space itself."""

    number: int = round_number()
    upload: bool = public("whether rows are asked for")
    made: int = public("the round whose uploads the mean is of", bounds=lambda s, p: PAST_ROUND)
    mean: Tensor | None = public(
        "mean of the rotated rows",
        means=lambda s: MeanRows("common", s.embedding_columns),
        bounds=_row_per_node,
    )
    known: Tensor | None = public("nodes in which any client had a say", bounds=_truth_per_node)


class RotatedRows(Message, kind="public_rows.RotatedRows"):
    """A set of rows in the common space, times how much each counts."""

    rows: Tensor = private(
        "sum",
        "rotated embedding per public node, times its weight",
        means=_row_meaning,
        rows="node",
    )
    weights: Tensor | None = private(
        "sum",
        "capped degree per public node",
        means=Holdings(degrees=True),
        rows="node",
        constant=True,
    )


class Trained(Message, kind="public_rows.Trained"):
    """A reply that training is done. Nothing else is said."""

    number: int = round_number()


class Iteration(Message, kind="public_rows.Iteration"):
    """A release of the server. In pairwise alignment every client's result is its own affair."""

    number: int = round_number()
    mean: Tensor | None = public(
        "mean of the rotated rows",
        means=lambda s: MeanRows("common", s.embedding_columns),
        bounds=_row_per_node,
    )


MESSAGES: Final = (
    Aligned,
    Rows,
    Mean,
    RotatedRows,
    Trained,
    Iteration,
)


def list_replies() -> dict[type[Message], ReplyTo]:
    """Return the reply that every request brings: rows if the request asks for them."""
    return {
        Aligned: lambda request: Rows if request.upload else Trained,
        Mean: lambda request: RotatedRows if request.upload else Trained,
    }


def check_request(settings: ExchangeSettings, public: PublicInfo, message: Message) -> None:
    """Raise where a mean comes without the nodes that it is of."""
    if isinstance(message, Aligned) and (message.rows is None) != (message.known is None):
        raise ProtocolError(f"{message.kind}.known: found it with or without rows; expected both")
    if isinstance(message, Mean) and (message.mean is None) != (message.known is None):
        raise ProtocolError(f"{message.kind}.known: found it with or without mean; expected both")


def num_uploads(settings: ExchangeSettings, rounds: int) -> int:
    """Return the number of uploads. Rows are uploaded in all rounds but the last, since nobody
    would use the last."""
    return rounds - 1 if settings.exchange else 0


def planned_rows(
    settings: ExchangeSettings, training: TrainingSettings, info: PublicInfo, width: int
) -> list[PlannedRelease]:
    """Return the rows that leave, and how often at most."""
    if not settings.exchange:
        return []
    nodes, count = info.num_public, num_uploads(settings, training.rounds)
    if not nodes:
        raise ConfigError(
            "partition: it has no public nodes to exchange; allowed: name: public_private with a "
            "public_share above 0 and centralised: false, or method.exchange: false"
        )
    reply = Rows if settings.alignment == "pairwise" else RotatedRows
    by_degree = settings.aggregation == "degree"
    shown = BY_DEGREE if by_degree else None
    # The means of earlier rounds stay in a client's rows: who was told which moves its upload.
    planned = [
        PlannedRelease(reply, "rows", count, nodes * width, nodes, steered=True, discloses=shown)
    ]
    if by_degree:
        planned.append(
            PlannedRelease(reply, "weights", count, nodes, nodes, bound=1.0, discloses=shown)
        )
    return planned


# --------------------------------------------------------------------------------------- client


def rows_of(settings: ExchangeSettings, shard: Shard) -> Tensor:
    """Return the public nodes in whose rows a client has a say: by degree, those with an edge
    there."""
    assert shard.public is not None
    if settings.aggregation == "mean":
        return torch.arange(len(shard.public))
    degrees = torch.bincount(shard.graph.edge_index.flatten(), minlength=shard.graph.num_nodes)
    return degrees[shard.public].nonzero().flatten()


class ClientRows:
    """A client's part: what it uploads of its rows, and what it makes of what comes back.

    degrees  of the public nodes at this client
    start    for reference alignment: what all clients rotate onto before there is a mean
    """

    def __init__(self, settings: ExchangeSettings, degrees: Tensor, start: Tensor) -> None:
        self._settings, self._start, self._dim = settings, start, start.shape[1]
        self._degrees = degrees.clamp_max(DEGREE_CAP).to(start.dtype) / DEGREE_CAP

    def received(self, request: Message, own_rows: Tensor) -> Tensor | None:
        """Return the others' view of the client's rows, in its own space, if one came."""
        if isinstance(request, Aligned):
            if request.rows is None or request.known is None or not bool(request.known[0]):
                return None
            return request.rows[0].to(own_rows)
        assert isinstance(request, Mean)
        if request.mean is None or request.known is None:
            return None
        mean = request.mean.to(own_rows)
        back = find_rotation(own_rows[:, : self._dim], mean[:, : self._dim]).T
        return torch.where(
            request.known.to(own_rows.device)[:, None], rotate_rows(mean, back), own_rows
        )

    def reply(self, request: Message, own_rows: Tensor) -> Message:
        """Return the rows that a request asks for, rotated where the mean is common."""
        assert isinstance(request, Aligned | Mean)
        if not request.upload:
            return Trained(number=request.number)
        weighted = self._settings.aggregation == "degree"
        weights = self._degrees[:, None] if weighted else None
        if isinstance(request, Aligned):
            return Rows(rows=own_rows[None], weights=None if weights is None else weights[None])
        target = self._start if request.mean is None else request.mean.to(own_rows)
        turned = rotate_rows(
            own_rows, find_rotation(own_rows[:, : self._dim], target[:, : self._dim])
        )
        if weights is None:
            return RotatedRows(rows=turned[None], weights=None)
        return RotatedRows(rows=(weights * turned)[None], weights=weights[None])


def alignment_figures(scores: list[LocalScore]) -> dict[str, float]:
    """Return P@k over all ordered pairs of clients: a figure of the experiment, no server computes
    it."""
    rows = [torch.tensor(s.rows) for s in scores if s.rows]
    return {f"alignment_p{k}": p for k, p in alignment_precision(rows, NEIGHBOURS).items()}


# --------------------------------------------------------------------------------------- server


class RowServer(Server):
    """A server of lines 10-18 of the paper's algorithms, for rows of `dim` columns in one or more
    blocks."""

    def __init__(
        self,
        info: PublicInfo,
        settings: ExchangeSettings,
        training: TrainingSettings,
        cohort: Cohort,
        dim: int,
        width: int,
    ) -> None:
        self._info, self._settings, self._training = info, settings, training
        self._cohort, self._dim = cohort, dim
        self._held: State = {}
        if settings.exchange and settings.alignment == "pairwise":
            shape = (info.num_clients, info.num_public)
            self._held = {
                "rows": torch.zeros(*shape, width),
                "weights": torch.zeros(shape),
                "seen": torch.zeros(info.num_clients, dtype=torch.bool),
                "fresh": torch.zeros(info.num_clients, dtype=torch.bool),
            }

    def round(self, number: int) -> Iteration:
        """Send the means there are, and gather rows in all rounds but the last."""
        clients = participants(self._info, self._training, number)
        upload = number <= num_uploads(self._settings, self._training.rounds)
        if self._settings.alignment == "pairwise" or not self._settings.exchange:
            self._note_pairwise(number, upload, clients)
        else:
            self._note_reference(number, upload, clients)
        return Iteration(number=number, mean=self._held.get("mean"))

    # Pairwise: every client gets a mean of its own.

    def _note_pairwise(self, number: int, upload: bool, clients: Clients) -> None:
        rows = known = None
        if self._settings.exchange and bool(self._held["fresh"].any()):
            asked = clients.numbers()
            rows = torch.stack([self._mean_for(client) for client in asked])
            known = self._held["seen"][asked]
        request = Aligned(number=number, upload=upload, rows=rows, known=known)
        if not upload:
            require_replies(self._cohort.ask(request, Trained, clients), number)
            return
        replies = require_replies(self._cohort.ask(request, Rows, clients), number)
        came = torch.tensor(replies.clients.numbers())
        self._held["rows"][came] = replies.each("rows")
        weighted = self._settings.aggregation == "degree"
        self._held["weights"][came] = replies.each("weights")[..., 0] if weighted else 1.0
        self._held["seen"][came] = True
        self._held["fresh"] = torch.zeros_like(self._held["seen"])
        self._held["fresh"][came] = True

    def _mean_for(self, client: int) -> Tensor:
        """Return a client's mean (lines 11-16). A client that dropped out counts as last seen in
        its own mean alone."""
        others = self._held["fresh"].clone()
        others[client] = False
        rows, weights = self._held["rows"], self._held["weights"]
        return mean_seen_by(rows[client], rows[others], weights[others], weights[client], self._dim)

    # Reference: one mean for all, of which the server sees only sums.

    def _note_reference(self, number: int, upload: bool, clients: Clients) -> None:
        request = Mean(
            number=number,
            upload=upload,
            made=int(self._held["made"]) if "made" in self._held else 0,
            mean=self._held.get("mean"),
            known=self._held.get("known"),
        )
        if not upload:
            require_replies(self._cohort.ask(request, Trained, clients), number)
            return
        replies = require_replies(self._cohort.ask(request, RotatedRows, clients), number)
        self._held.update(self._mean_rows(replies), made=torch.tensor(number))

    def _mean_rows(self, replies: Replies[RotatedRows]) -> State:
        rows = replies.sum("rows")
        if self._settings.aggregation == "mean":
            known = torch.ones(len(rows), dtype=torch.bool)
            return {"mean": rows / replies.count, "known": known}
        total = replies.sum("weights")
        # A degree is at least one: less is noise, or nobody.
        known = total > 0.5 / DEGREE_CAP
        mean = torch.where(known, rows / total.clamp_min(0.5 / DEGREE_CAP), 0)
        return {"mean": mean.float(), "known": known[:, 0]}

    def state(self) -> State:
        """Return the clients' rows, or the common mean."""
        return {name: value.clone() for name, value in self._held.items()}

    def restore(self, state: State) -> None:
        """Take up what `state` gave."""
        self._held = dict(state)
