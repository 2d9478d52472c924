"""Was a link between public nodes in the walks or the layers that made the uploaded rows?"""

from __future__ import annotations

import numpy as np

from attacks.base import Array, Attack, View
from attacks.evidence import lean_evidence, pair_shift
from attacks.questions import PublicLinks
from attacks.rows import embedding_rows, noise_of, pair_cosines
from securefg.protocol.meanings import NodeRows

PUBLIC_ROWS = NodeRows(index="public")


def walked_links(view: View, question: PublicLinks, rng: np.random.Generator) -> Array:
    """Score pairs of public nodes by the mean cosine of their rows over all rounds.

    Walks cross a link and layers average over it, so both ends get rows that are alike. Under masks
    the mean of all clients is read. It tells more, since every client has the link.
    """
    rounds = embedding_rows(view, question.client, PUBLIC_ROWS)
    mean: Array = np.mean([pair_cosines(rows, question.ids) for rows in rounds.values()], axis=0)
    width = next(iter(rounds.values())).shape[1]
    return lean_evidence(
        mean, question.prior, pair_shift(noise_of(view, PUBLIC_ROWS), width, len(rounds))
    )


WALKED_LINKS = Attack(
    name="walked_links",
    summary="which public nodes are linked, from the cosine of uploaded rows",
    source="He et al. 2021, attack 0, for rows of public nodes",
    needs=(PUBLIC_ROWS,),
    assumes="uploaded rows of one client, or their sum over clients",
    adversaries=frozenset({"server"}),
    question=PublicLinks,
    floor=0.1,
    expected="AUC 0.99 and more for walks over sparse graphs",
    exposes="that two known persons are connected",
    stopped_by="noise on the rows; masks do not, since the mean tells more",
    run=walked_links,
    rounds=10,
)

ATTACKS = (WALKED_LINKS,)
