"""G3, carried out: users' latents from the sums over neighbourhoods that the server opened.

Masks hide every user's latent z_j and show s_i = sum_j A_hat_ij z_j, which the server needs. It
knows A_hat, so these are linear equations, and A_hat is nearly invertible for most graphs: the
least-squares solution of least norm has exactly those z_j for which e_j lies in the row space. What
is solvable is told without the run by `audits.exposure`; this solves it. Bonawitz et al. 2017 open
one sum per round; many overlapping sums are another matter.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import FirstLatents
from securefg.protocol.meanings import GraphSums, NodeRows

SUMS = GraphSums(of=NodeRows("latent"))
SINGULAR = 1e-9


def run(view: View, question: FirstLatents, rng: np.random.Generator) -> Array:
    """The latents of the first round, as far as the sums give them."""
    if view.public.edge_index is None:
        raise CannotAttack("the graph is not known")
    sums = _sums(view).double().numpy()
    released = np.abs(sums).max(1) > 0
    matrix = _adjacency(view.public.edge_index, view.public.num_nodes)
    return solved(matrix, sums, released)[question.ids]


def _sums(view: View) -> Tensor:
    opened = view.sums(SUMS)
    if opened:
        return opened[0].value
    parts = view.readable(SUMS)
    first = [message.value for message in parts if message.round == parts[0].round]
    return torch.cat(first).sum(0)


def _adjacency(edge_index: Tensor, num_nodes: int) -> sparse.csr_array:
    """A_hat, in double precision: rounded, it would look easier to invert than it is."""
    loops = torch.arange(num_nodes)
    row, column = torch.cat([edge_index.cpu(), loops.expand(2, -1)], 1).numpy()
    sizes = np.bincount(row, minlength=num_nodes).astype(np.float64)
    entries = (1 / np.sqrt(sizes[row] * sizes[column]), (row, column))
    return sparse.csr_array(entries, shape=(num_nodes, num_nodes))


def solved(matrix: sparse.csr_array, sums: Array, released: NDArray[np.bool_]) -> Array:
    """The solution of least norm, one connected part of the graph after the other."""
    found = np.zeros_like(sums)
    _, part = connected_components(matrix, directed=False)
    for number in range(int(part.max()) + 1):
        members = np.flatnonzero(part == number)
        rows = members[released[members]]
        if rows.size:
            block = matrix[rows][:, members].toarray()
            found[members] = np.linalg.lstsq(block, sums[rows], rcond=SINGULAR)[0]
    return found


ATTACK = Attack(
    name="linear_exposure",
    summary="users' latents, from the sums over neighbourhoods by least squares",
    source="G3: z_j follows from the sums iff e_j lies in their row space",
    needs=(SUMS,),
    assumes="the graph, and one round's sums",
    adversaries=frozenset({"server"}),
    question=FirstLatents,
    floor=0.05,
    expected="the share that audits.exposure tells: 88 % of Cora's users if no sum is withheld",
    exposes="every user's summary, although only sums of neighbourhoods were opened",
    stopped_by="noise; fewer or larger sums; masks do not, since the sums themselves tell",
    run=run,
    rounds=1,
)
