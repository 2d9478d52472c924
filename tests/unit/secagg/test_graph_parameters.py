"""(k, t): one smooth rule over all sizes, which adversarial drop-outs do not break."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from securefg.foundation.errors import ConfigError
from securefg.secagg.graph import (
    LEAST_DEGREE,
    GraphParameters,
    MaskGraph,
    choose,
    fewest,
    only_one_opens,
)
from securefg.settings.secagg import Threat


@pytest.mark.parametrize(
    ("num_clients", "threat", "degree", "threshold"),
    [
        (10, Threat(), 9, 7),
        (32, Threat(), 31, 22),
        (33, Threat(), 32, 23),
        (34, Threat(), 32, 22),
        (100, Threat(), 36, 24),
        (1000, Threat(), 136, 100),
        (10_000, Threat(), 172, 126),
        (100, Threat(0.05, 0.34), 80, 46),
        (1000, Threat(0.05, 0.05), 98, 78),
    ],
)
def test_parameters_are_as_written_down(
    num_clients: int, threat: Threat, degree: int, threshold: int
) -> None:
    assert choose(num_clients, threat) == GraphParameters(num_clients, degree, threshold)


def test_up_to_33_clients_mask_with_all_others() -> None:
    assert all(choose(n, Threat()).complete for n in range(3, LEAST_DEGREE + 2))


@pytest.mark.parametrize("threat", [Threat(), Threat(0.05, 0.2), Threat(0.2, 0.1)])
def test_neither_the_degree_nor_the_threshold_falls_off_at_any_size(threat: Threat) -> None:
    found = [choose(n, threat) for n in range(6, 130)]
    for one, more in pairwise(found):
        assert more.degree >= one.degree - 2
        assert more.threshold >= one.threshold - 3
        assert more.threshold / (more.degree + 1) > 0.5


def test_the_degree_grows_as_the_logarithm() -> None:
    degrees = [choose(10**power, Threat(0.1, 0.1)).degree for power in (3, 4, 5)]
    assert degrees == sorted(degrees)
    assert degrees[-1] < 1.6 * degrees[0]


@pytest.mark.parametrize("num_clients", [5, 20, 32, 100, 1000])
@pytest.mark.parametrize("threat", [Threat(), Threat(0.2, 0.2), Threat(0.0, 0.1)])
def test_no_two_stories_find_enough_listeners(num_clients: int, threat: Threat) -> None:
    found = choose(num_clients, threat)
    holders = num_clients if found.complete else found.degree
    corrupt = threat.num_corrupt(num_clients) * holders // num_clients
    assert 2 * found.threshold > holders + corrupt
    assert found.threshold <= num_clients - threat.num_dropped(num_clients)


def test_colluders_are_counted_among_all_clients_and_not_among_those_asked() -> None:
    """100 clients, 10 of them colluders, and the server asks 12: all of the ten may be there."""
    alone = choose(12, Threat(0.1, 0.0))
    picked = choose(12, Threat(0.1, 0.0, population=100))
    assert picked.threshold == 12 > alone.threshold
    assert Threat(0.1, 0.0, population=100).least_cohort(5) == 12


@pytest.mark.parametrize("seed", range(3))
def test_whoever_is_silenced_the_honest_who_answer_stay_one_ring(seed: int) -> None:
    """The adversary sees the graph and silences whom it likes: all around a victim first. Clients
    that lack t answering neighbours do not answer; of the rest, no part is cut off."""
    rng = np.random.default_rng(seed)
    threat = Threat(0.05, 0.1)
    parameters = choose(200, threat)
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
        choose(2, Threat())


@pytest.mark.parametrize(("corrupt", "dropout"), [(-0.1, 0), (1.0, 0), (0.33, 0.33), (0.1, -1)])
def test_a_threat_that_no_threshold_withstands_is_refused(corrupt: float, dropout: float) -> None:
    with pytest.raises(ConfigError, match="wanted fractions"):
        Threat(corrupt, dropout)


def test_a_small_cohort_without_room_for_a_threshold_is_refused() -> None:
    with pytest.raises(ConfigError, match="lower corrupt or dropout"):
        choose(3, Threat(0.5, 0.2, population=6))


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
            graph, corrupt = choose(cohort, threat), threat.num_corrupt(cohort)
            agreed = graph.threshold - corrupt
            if not graph.complete:
                seeds = max(fewest(graph, threat), least) - corrupt
                agreed = -(-seeds * graph.threshold // graph.degree) - corrupt
            assert agreed + least > n
    assert allowed


def test_a_picked_cohort_or_many_drop_outs_leave_enough_for_two() -> None:
    assert only_one_opens(100, Threat())
    assert not only_one_opens(50, Threat(population=100))
    assert not only_one_opens(40, Threat(0.0, 0.4))
