"""The run-wide solver agrees with exact elimination, and finds what drop-outs gave away."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from securefg.secagg.exposure import Term, exposed_terms


def brute_force(sums: list[dict[Term, float]], colluders: set[int]) -> set[Term]:
    """Exact elimination over the rationals: a term follows iff a reduced row is it alone."""
    terms = sorted({t for one in sums for t in one if t.client not in colluders}, key=repr)
    rows = [[Fraction(one.get(t, 0)) for t in terms] for one in sums]
    pivots, top = [], 0
    for column in range(len(terms)):
        found = next((r for r in range(top, len(rows)) if rows[r][column]), None)
        if found is None:
            continue
        rows[top], rows[found] = rows[found], rows[top]
        lead = rows[top][column]
        rows[top] = [x / lead for x in rows[top]]
        for r in range(len(rows)):
            if r != top and rows[r][column]:
                factor = rows[r][column]
                rows[r] = [a - factor * b for a, b in zip(rows[r], rows[top], strict=True)]
        pivots.append(column)
        top += 1
    return {
        terms[column] for row, column in enumerate(pivots) if sum(1 for x in rows[row] if x) == 1
    }


COHORTS = st.lists(
    st.tuples(st.integers(1, 3), st.sets(st.integers(0, 4), min_size=1)), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(COHORTS, st.sets(st.integers(0, 4), max_size=2))
def test_the_solver_agrees_with_exact_elimination(
    cohorts: list[tuple[int, set[int]]], colluders: set[int]
) -> None:
    sums: list[dict[Term, float]] = []
    for round, members in cohorts:
        sums.append({Term(c, "update", round): 1.0 for c in members})
        sums.append({Term(c, "size", None): 1.0 for c in members})
        sums.append({Term(c, "weighted", round): float(c + 1) for c in members})
    assert exposed_terms(sums, colluders) == brute_force(sums, colluders)


def test_a_round_asked_twice_gives_the_difference() -> None:
    sums = [{Term(c, "u", 1): 1.0 for c in range(1, 6)}, {Term(c, "u", 1): 1.0 for c in range(6)}]
    assert exposed_terms(sums) == {Term(0, "u", 1)}


def test_other_rounds_are_other_unknowns_and_sizes_are_not() -> None:
    """One client is away in one round: its size follows, its update does not."""
    sums = []
    for round, members in ((1, range(6)), (2, range(1, 6))):
        sums.append({Term(c, "update", round): 1.0 for c in members})
        sums.append({Term(c, "size", None): 1.0 for c in members})
    assert exposed_terms(sums) == {Term(0, "size", None)}


def test_changing_cohorts_give_all_sizes() -> None:
    """Participation 0.8 of six: every fifth is away in turn."""
    sums = [{Term(c, "size", None): 1.0 for c in range(6) if c != away} for away in range(6)]
    assert {term.client for term in exposed_terms(sums)} == set(range(6))


def test_colluders_subtract_their_own() -> None:
    sums = [{Term(c, "u", 1): 1.0 for c in range(3)}]
    assert exposed_terms(sums) == set()
    assert exposed_terms(sums, {1, 2}) == {Term(0, "u", 1)}
