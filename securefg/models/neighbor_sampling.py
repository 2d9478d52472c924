"""Neighbours drawn from the rows of a sparse matrix: unbiased rows of it, and small subgraphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from securefg.models.sparse import SparseMatrix, pointers


@dataclass(frozen=True)
class Drawn:
    """Entries of some rows: their places in the matrix, the rows' numbers among those asked for,
    and degree / number drawn."""

    places: Tensor
    rows: Tensor
    factors: Tensor


def draw(starts: Tensor, rows: Tensor, fan_out: int, stream: torch.Generator) -> Drawn:
    """At most `fan_out` entries of every row; all of them where there are no more.

    A row's entries are cut into `fan_out` equal stretches, and one is drawn from each, so every
    entry is expected fan_out / degree times, and no row costs more than `fan_out`.
    """
    first = starts[rows].long()
    degrees = starts[rows + 1].long() - first
    counts = degrees.clamp_max(fan_out)
    own = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    rank = torch.arange(len(own), device=rows.device) - (counts.cumsum(0) - counts)[own]
    stretch = degrees[own].double() / counts[own]
    jitter = torch.rand(len(own), generator=stream, device=stream.device, dtype=torch.float64)
    within = ((rank + jitter) * stretch).long().minimum(degrees[own] - 1)
    places = first[own] + torch.where(stretch > 1, within, rank)
    return Drawn(places, own, stretch.float())


def sampled_rows(
    terms: Sequence[SparseMatrix], rows: Tensor, fan_out: int, stream: torch.Generator
) -> tuple[SparseMatrix, Tensor]:
    """Rows of a sum of matrices, each sampled with its expectation kept; the columns that are left,
    and their numbers: E[sampled @ H[columns]] = (sum of terms @ H)[rows]."""
    drawn = [draw(term.rows, rows, fan_out, stream) for term in terms]
    parts = list(zip(terms, drawn, strict=True))
    row = torch.cat([d.rows for d in drawn])
    column = torch.cat([term.columns[d.places].long() for term, d in parts])
    values = torch.cat([term.values[d.places] * d.factors for term, d in parts])
    columns, local = torch.unique(column, return_inverse=True)
    shape = (len(rows), len(columns))
    return SparseMatrix.from_entries(row, local, values, shape), columns


@dataclass(frozen=True)
class Incoming:
    """The edges of a graph by their target: those into node i come from
    sources[starts[i] : starts[i + 1]]."""

    starts: Tensor
    sources: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int) -> Incoming:
        order = torch.argsort(edge_index[1], stable=True)
        return cls(pointers(edge_index[1], num_nodes), edge_index[0][order])

    def around(
        self, nodes: Tensor, fan_out: Sequence[int], stream: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """A subgraph: `nodes`, then those drawn hop by hop, and the drawn edges among them."""
        local = torch.full((len(self.starts) - 1,), -1, device=nodes.device)
        local[nodes] = torch.arange(len(nodes), device=nodes.device)
        known, frontier, edges = nodes, nodes, []
        for count in fan_out:
            drawn = draw(self.starts, frontier, count, stream)
            source, target = self.sources[drawn.places], frontier[drawn.rows]
            frontier = torch.unique(source[local[source] < 0])
            local[frontier] = torch.arange(len(frontier), device=nodes.device) + len(known)
            known = torch.cat([known, frontier])
            edges.append(local[source] * len(local) + local[target])
        pairs = torch.unique(torch.cat(edges))
        return known, torch.stack([pairs // len(local), pairs % len(local)])


def batches(count: int, size: int, stream: torch.Generator) -> Iterator[Tensor]:
    """The numbers 0 to count - 1 in random order, `size` at a time."""
    order = torch.randperm(count, generator=stream, device=stream.device)
    return iter(torch.split(order, size))
