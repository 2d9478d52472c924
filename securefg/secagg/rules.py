"""A client's demands on a session: its members, their number, its purpose, its survivors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from securefg.secagg.errors import Refused
from securefg.secagg.graph import fewest_clients, only_one_opens
from securefg.secagg.hybrid import CIPHERTEXT_BYTES
from securefg.secagg.links import OFFER_BYTES, box_partners
from securefg.secagg.messages import Deliver
from securefg.secagg.session import BOX_BYTES, DIGEST_BYTES, Session
from securefg.settings.secagg import SecureAggregationSettings, Threat


@dataclass(frozen=True)
class Rules:
    """A client's demands, from settings and plan. Every check raises what it refuses.

    population       how many clients have an identity
    least_survivors  how many clients the noise of each kind of message was planned for
    cohorts          how many clients are to be asked for each kind of message
    rounds           in how many rounds each kind may be asked for; others are not limited
    """

    settings: SecureAggregationSettings
    population: int
    least_survivors: Mapping[str, int]
    cohorts: Mapping[str, int]
    rounds: Mapping[str, int]

    @property
    def threat(self) -> Threat:
        """The colluders and drop-outs that the settings reckon with among all clients."""
        return self.settings.threat_among(self.population)

    def one_opens(self, purpose: str) -> bool:
        """Whether two sums of one message cannot both be opened, whoever restarts in between."""
        planned = self.cohorts.get(purpose, self.population)
        return self.settings.malicious and only_one_opens(planned, self.threat)

    def least_cohort(self, purpose: str) -> int:
        """What was planned for this message, all but those that may fall silent; and never so few
        that the colluders among all clients would leave one honest client alone."""
        planned = self.cohorts.get(purpose, 0)
        return max(self.settings.min_clients, self.threat.least_cohort(planned))

    def largest_cohort(self, purpose: str) -> int:
        """Return how many clients may be asked for this message: those planned, or everybody."""
        return self.cohorts.get(purpose) or self.population

    def check_cohort(self, purpose: str, size: int) -> None:
        """Raise where fewer clients are in the session than this message needs, or more than were
        planned."""
        least, most = self.least_cohort(purpose), self.largest_cohort(purpose)
        if size < least:
            raise Refused(f"a cohort of {size}, under {least}")
        if size > most:
            raise Refused(f"a cohort of {size}, over the {most} that were planned")

    def check_list(self, purpose: str, clients: list[int]) -> None:
        """Raise unless a list for a committee names as many clients as the plan has, in order."""
        if len(set(clients)) != len(clients) or clients != sorted(clients):
            raise Refused("the list names a client twice or out of order")
        least, most = self.least_planned(purpose), self.largest_cohort(purpose)
        if len(clients) < least:
            raise Refused(f"a list of {len(clients)} clients, under {least}")
        if len(clients) > most:
            raise Refused(f"a list of {len(clients)} clients, over the {most} that were planned")

    def check_population(self, purpose: str) -> None:
        """Raise where fewer clients have an identity than a sum of this message needs."""
        least = self.least_planned(purpose)
        if self.population < least:
            raise Refused(f"{self.population} clients have an identity, under {least} of a sum")

    def check_roster(self, session: Session, clients: tuple[int, ...], numbers: list[int]) -> None:
        """Raise unless the roster is the session's first, in order, and of known clients."""
        if session.id or not session.pairs:
            raise Refused("a second roster in one session")
        if len(set(clients)) != len(clients) or list(clients) != sorted(clients):
            raise Refused("the roster names a client twice or out of order")
        if not set(numbers) <= set(clients):
            raise Refused("the roster leaves out a client that it was sent to")
        if not all(0 <= c < self.population for c in clients):
            raise Refused("the roster names a client that nobody knows")
        self.check_cohort(session.purpose, len(clients))

    def check_sharers(self, session: Session, sharers: tuple[int, ...], numbers: list[int]) -> None:
        """Raise unless enough clients of the session shared keys, before any masked reply."""
        if not session.id or session.answered:
            raise Refused("shares were delivered before the roster, or after the masked reply")
        if not set(sharers) <= set(session.clients) or not set(numbers) <= set(sharers):
            raise Refused("the sharers are not of this session, or leave out the receiver")
        if session.sharers and not set(sharers) < set(session.sharers):
            raise Refused("shares were delivered twice, and not to leave somebody out")
        if len(set(sharers)) != len(sharers):
            raise Refused("a sharer is named twice")
        near = session.fewest_around(sharers, numbers)
        few = len(sharers) < self.least_cohort(session.purpose)
        if few or near < session.graph.parameters.threshold:
            raise Refused(f"only {near} clients shared their keys")

    def check_delivery(self, session: Session, request: Deliver, numbers: list[int]) -> None:
        """Raise unless every client gets a whole box and two whole digests from every holder, and
        whole ciphertexts where links are made of them."""
        graph, seats, place = session.graph, session.seats, session.places[numbers[0]]
        holders = len(graph.holders(place))
        sizes = {"boxes": (holders, BOX_BYTES), "share_digests": (holders, DIGEST_BYTES)}
        if session.is_first and seats.suite == "hybrid":
            partners = len(box_partners(graph, place, seats.with_pads))
            sizes["box_ciphertexts"] = (partners, CIPHERTEXT_BYTES)
            sizes["mask_ciphertexts"] = (graph.num_ahead, OFFER_BYTES)
        for name, size in sizes.items():
            rows: Tensor | None = getattr(request, name)
            expected = (len(numbers), *size)
            if rows is None or tuple(rows.shape) != expected or rows.dtype is not torch.uint8:
                found = "nothing" if rows is None else f"{list(rows.shape)} of {rows.dtype}"
                raise Refused(
                    f"{request.kind}.{name}: found {found}; expected {list(expected)} of "
                    "torch.uint8, a row per client and holder"
                )

    def check_purpose(self, session: Session, numbers: list[int], purpose: str, round: int) -> None:
        """Raise unless the session masks this message of these clients in this round."""
        if len(set(numbers)) != len(numbers) or not (
            set(numbers) <= set(session.sharers) & session.parties.keys()
        ):
            raise Refused("asked to mask for a client twice, or for one outside the session")
        if purpose != session.purpose or round != session.round:
            raise Refused(f"this session masks {session.purpose}, not {purpose}")

    def least_in_sum(self, session: Session) -> int:
        """Return how many clients must be in an opened sum."""
        near = fewest_clients(session.graph.parameters, self.threat)
        return max(near, self.least_planned(session.purpose))

    def least_planned(self, purpose: str) -> int:
        """Return how many clients a sum must have for its noise and its planned cohort."""
        noisy = self.least_survivors.get(purpose, 0)
        return max(self.settings.min_clients, noisy, self.least_cohort(purpose))

    def check_signers(self, session: Session, signers: list[int]) -> None:
        """Raise unless as many signed the survivors as must be in the sum.

        A name among the survivors proves no upload, since the server may know the masks of a client
        that opened its key. In a sparse graph no key is ever opened, and the threshold suffices.
        """
        least = self.least_in_sum(session)
        if session.graph.parameters.complete and len(signers) < least:
            raise Refused(f"{len(signers)} signed the survivors, under the {least} of a sum")

    def check_survivors(
        self, session: Session, survivors: tuple[int, ...], numbers: list[int]
    ) -> None:
        """Raise unless enough sharers survived, each named once, these clients among them."""
        if not session.answered:
            raise Refused("asked about survivors before the masked reply")
        if len(set(survivors)) != len(survivors) or not set(survivors) <= set(session.sharers):
            raise Refused("the survivors name a client twice, or one that shared no keys")
        if not set(numbers) <= set(survivors):
            raise Refused("a client that replied is not among the survivors")
        least = self.least_in_sum(session)
        if len(survivors) < least:
            raise Refused(f"{len(survivors)} survivors, under the {least} that are needed")
