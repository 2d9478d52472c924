"""(k, t): one smooth rule over all sizes, which adversarial drop-outs do not break."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest

from securefg.foundation.errors import ConfigError
from securefg.secagg.graph import (
    LEAST_DEGREE,
    GraphParameters,
    MaskGraph,
    abort_bound,
    choose_parameters,
    fewest_clients,
    only_one_opens,
)
from securefg.secagg.hypergeometric import chance_of_more, estimate_most_marked, most_marked
from securefg.settings.secagg import Threat


@pytest.mark.parametrize(
    ("num_clients", "threat", "degree", "threshold"),
    [
        (10, Threat(), 9, 7),
        (32, Threat(), 31, 22),
        (33, Threat(), 32, 23),
        (34, Threat(), 32, 22),
        (100, Threat(), 46, 29),
        (100, Threat(0.05, 0.34), 90, 51),
        (300, Threat(0.05, 0.3), 230, 131),
        (1000, Threat(), 184, 128),
        (10_000, Threat(), 244, 169),
        (1000, Threat(0.05, 0.05), 134, 99),
    ],
)
def test_parameters_are_as_written_down(
    num_clients: int, threat: Threat, degree: int, threshold: int
) -> None:
    assert choose_parameters(num_clients, threat) == GraphParameters(num_clients, degree, threshold)


def test_up_to_33_clients_mask_with_all_others() -> None:
    assert all(choose_parameters(n, Threat()).complete for n in range(3, LEAST_DEGREE + 2))


@pytest.mark.parametrize("threat", [Threat(), Threat(0.05, 0.2), Threat(0.2, 0.1)])
def test_neither_the_degree_nor_the_threshold_falls_off_at_any_size(threat: Threat) -> None:
    found = [choose_parameters(n, threat) for n in range(6, 130)]
    for one, more in pairwise(found):
        assert more.degree >= one.degree - 2
        assert more.threshold >= one.threshold - 3
        assert more.threshold / (more.degree + 1) > 0.5


def test_the_degree_grows_as_the_logarithm() -> None:
    degrees = [choose_parameters(10**power, Threat(0.1, 0.1)).degree for power in (3, 4, 5)]
    assert degrees == sorted(degrees)
    assert degrees[2] - degrees[1] < degrees[1] - degrees[0]
    assert degrees[-1] < 1.7 * degrees[0]


@pytest.mark.parametrize("num_clients", [5, 20, 32, 100, 1000])
@pytest.mark.parametrize("threat", [Threat(), Threat(0.2, 0.2), Threat(0.0, 0.1)])
def test_no_two_stories_find_enough_listeners(num_clients: int, threat: Threat) -> None:
    graph_parameters = choose_parameters(num_clients, threat)
    holders = num_clients if graph_parameters.complete else graph_parameters.degree
    corrupt = threat.num_corrupt(num_clients) * holders // num_clients
    assert 2 * graph_parameters.threshold > holders + corrupt
    assert graph_parameters.threshold <= num_clients - threat.num_dropped(num_clients)


def test_colluders_are_counted_among_all_clients_and_not_among_those_asked() -> None:
    """100 clients, 10 of them colluders, and the server asks 12: all of the ten may be there."""
    alone = choose_parameters(12, Threat(0.1, 0.0))
    picked = choose_parameters(12, Threat(0.1, 0.0, population=100))
    assert picked.threshold == 12 > alone.threshold
    assert Threat(0.1, 0.0, population=100).least_cohort(5) == 12


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_silenced_the_honest_who_answer_stay_one_ring(seed: int) -> None:
    """The adversary sees the graph and silences whom it likes: all around a victim first. Clients
    that lack t answering neighbours do not answer; of the rest, no part is cut off."""
    rng = np.random.default_rng(seed)
    threat = Threat(0.05, 0.1)
    parameters = choose_parameters(200, threat)
    graph = MaskGraph.drawn(parameters, rng.bytes(32))
    corrupt = set(rng.choice(200, threat.num_corrupt(200), replace=False).tolist())
    victim = int(rng.integers(200))
    place = int(graph.place[victim])
    around = [
        int(graph.order[(place + side * step) % 200]) for step in range(1, 101) for side in (1, -1)
    ]
    silenced = [c for c in around if c not in corrupt][: threat.num_dropped(200)]
    answering = set(range(200)) - set(silenced)
    while True:
        enough = {
            c
            for c in answering
            if len(answering & set(graph.neighbours(c))) >= parameters.threshold or c in corrupt
        }
        if enough == answering:
            break
        answering = enough
    honest = answering - corrupt
    if victim not in honest:
        return  # it was left without listeners and answered nothing
    reached, edge = {victim}, {victim}
    while edge:
        edge = {n for c in edge for n in graph.neighbours(c)} & honest - reached
        reached |= edge
    assert reached == honest


def test_a_cohort_of_two_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 clients, wanted >= 3"):
        choose_parameters(2, Threat())


@pytest.mark.parametrize(("corrupt", "dropout"), [(-0.1, 0), (1.0, 0), (0.33, 0.33), (0.1, -1)])
def test_a_threat_that_no_threshold_withstands_is_refused(corrupt: float, dropout: float) -> None:
    with pytest.raises(ConfigError, match=r"found corrupt .*; expected fractions"):
        Threat(corrupt, dropout)


def test_a_small_cohort_without_room_for_a_threshold_is_refused() -> None:
    with pytest.raises(ConfigError, match="lower corrupt or dropout"):
        choose_parameters(3, Threat(0.5, 0.2, population=6))


@pytest.mark.parametrize(
    "threat", [Threat(), Threat(0.05, 0.2), Threat(0.0, 0.4), Threat(0.2, 0.1)]
)
def test_where_one_session_opens_too_few_are_left_for_another(threat: Threat) -> None:
    """Counted with the graph that every cohort gets: who must have agreed, and who must be asked
    again."""
    allowed = 0
    for n in range(6, 80):
        if not only_one_opens(n, threat):
            continue
        allowed += 1
        least = threat.least_cohort(n)
        for cohort in range(least, n + 1):
            graph, corrupt = choose_parameters(cohort, threat), threat.num_corrupt(cohort)
            agreed = graph.threshold - corrupt
            if not graph.complete:
                seeds = max(fewest_clients(graph, threat), least) - corrupt
                agreed = -(-seeds * graph.threshold // graph.degree) - corrupt
            assert agreed + least > n
    assert allowed


def test_a_picked_cohort_or_many_drop_outs_leave_enough_for_two() -> None:
    assert only_one_opens(100, Threat())
    assert not only_one_opens(50, Threat(population=100))
    assert not only_one_opens(40, Threat(0.0, 0.4))


COMBINED = [Threat(), Threat(0.05, 0.1), Threat(0.05, 0.3), Threat(0.1, 0.1)]


@pytest.mark.parametrize("num_clients", [5, 20, 34, 50, 100, 300, 1000])
@pytest.mark.parametrize("threat", COMBINED)
def test_silent_colluders_on_top_of_dropouts_keep_the_abort_bound(
    num_clients: int, threat: Threat
) -> None:
    """Colluders may upload and then keep their shares: they count beside the drop-outs."""
    assert abort_bound(choose_parameters(num_clients, threat), threat) <= Fraction(1, 2**20)


def test_abort_bound_of_parameters_for_dropouts_alone_is_large() -> None:
    """With (186, 109), which was chosen for drop-outs alone, silent colluders end many rounds."""
    before, threat = GraphParameters(300, 186, 109), Threat(0.05, 0.3)
    alone, both = (float(abort_bound(before, threat, silent=s)) for s in (False, True))
    assert np.log2([alone, both]) == pytest.approx([-20.5, -1.7], abs=0.05)


def test_abort_bound_with_a_third_of_colluders_is_one() -> None:
    """No threshold is safe and leaves room: two stories need 2 t > n + c, silence t <= n - c."""
    threat = Threat(0.1, 0.0, population=100)
    assert abort_bound(choose_parameters(12, threat), threat) == 1
    assert abort_bound(choose_parameters(12, threat), threat, silent=False) == 0


@pytest.mark.parametrize("seed", range(3))
def test_drawn_graphs_with_silent_colluders_leave_enough_holders(seed: int) -> None:
    rng, threat = np.random.default_rng(seed), Threat(0.05, 0.3)
    parameters = choose_parameters(300, threat)
    away = threat.num_dropped(300) + threat.num_corrupt(300)
    for _ in range(20):
        graph = MaskGraph.drawn(parameters, rng.bytes(32))
        answering = set(rng.choice(300, 300 - away, replace=False).tolist())
        fewest_left = min(len(answering & set(graph.holders(c))) for c in range(300))
        assert fewest_left >= parameters.threshold


@pytest.mark.parametrize(
    ("total", "marked", "drawn"), [(9, 3, 4), (30, 12, 10), (99, 0, 40), (99, 99, 40), (50, 45, 20)]
)
def test_exact_tail_is_the_sum_over_all_counts(total: int, marked: int, drawn: int) -> None:
    counted = {
        j: Fraction(comb(marked, j) * comb(total - marked, drawn - j), comb(total, drawn))
        for j in range(min(marked, drawn) + 1)
        if drawn - j <= total - marked
    }
    assert sum(counted.values()) == 1
    for most in range(drawn + 1):
        chance = sum((p for j, p in counted.items() if j > most), Fraction(0))
        assert chance_of_more(total, marked, drawn, most) == chance
        found = most_marked(total, marked, drawn, chance)
        assert chance_of_more(total, marked, drawn, found) <= chance
        assert found == 0 or chance_of_more(total, marked, drawn, found - 1) > chance


@pytest.mark.parametrize(("total", "marked", "drawn"), [(99, 17, 46), (999, 152, 184)])
def test_estimated_tail_agrees_with_the_exact_one(total: int, marked: int, drawn: int) -> None:
    for bits in (10, 20, 40, 81):
        rare = Fraction(1, 2**bits * total)
        found = estimate_most_marked(total, marked, drawn, rare)
        assert found == most_marked(total, marked, drawn, rare)
