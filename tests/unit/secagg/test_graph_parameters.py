"""(k, t) agree with the published table and grow as log n."""

from __future__ import annotations

import pytest

from securefg.foundation.errors import ConfigError
from securefg.secagg.graph_parameters import GraphParameters, choose
from securefg.settings.secagg import Threat


@pytest.mark.parametrize(
    ("num_clients", "corrupt", "dropout", "degree", "threshold"),
    [
        (100, 0.2, 0.2, 40, 21),
        (100, 0.33, 0.33, 68, 34),
        (1000, 0.05, 0.05, 30, 17),
        (1000, 0.33, 0.33, 286, 150),
        (10_000, 0.05, 0.05, 34, 20),
        (1_000_000, 0.05, 0.05, 38, 22),
        (100, 0.05, 0.33, 28, 6),
        (100, 0.33, 0.0, 26, 25),
    ],
)
def test_semi_honest_parameters_match_the_table(
    num_clients: int, corrupt: float, dropout: float, degree: int, threshold: int
) -> None:
    found = choose(num_clients, Threat(corrupt, dropout))
    assert found == GraphParameters(num_clients, degree, threshold)


@pytest.mark.parametrize(
    ("num_clients", "corrupt", "dropout", "degree", "threshold"),
    [
        (100, 0.3, 0.3, 92, 62),
        (1000, 0.33, 0.05, 132, 109),
        (1000, 0.05, 0.05, 52, 37),
        (1_000_000, 0.05, 0.05, 74, 52),
    ],
)
def test_malicious_parameters_match_the_table(
    num_clients: int, corrupt: float, dropout: float, degree: int, threshold: int
) -> None:
    found = choose(num_clients, Threat(corrupt, dropout, malicious=True))
    assert found == GraphParameters(num_clients, degree, threshold)


@pytest.mark.parametrize("num_clients", range(3, 33))
def test_up_to_32_clients_mask_with_all_others(num_clients: int) -> None:
    found = choose(num_clients, Threat())
    assert found.complete
    assert num_clients / 2 < found.threshold <= num_clients


def test_33_clients_may_have_fewer_neighbours() -> None:
    assert not choose(33, Threat()).complete


def test_the_degree_grows_as_the_logarithm() -> None:
    degrees = [choose(10**power, Threat(0.1, 0.1)).degree for power in (3, 4, 5, 6)]
    assert degrees == sorted(degrees)
    assert degrees[-1] < 1.5 * degrees[0]


@pytest.mark.parametrize("num_clients", [5, 20, 32])
@pytest.mark.parametrize("corrupt", [0.0, 0.2, 0.4])
def test_the_complete_graph_withstands_what_was_stated(num_clients: int, corrupt: float) -> None:
    threat = Threat(corrupt, 0.2)
    threshold = choose(num_clients, threat).threshold
    assert threat.num_corrupt(num_clients) < threshold
    assert threshold <= num_clients - threat.num_dropped(num_clients)


@pytest.mark.parametrize("num_clients", [5, 20, 32])
def test_a_malicious_server_cannot_open_both_secrets_in_the_complete_graph(
    num_clients: int,
) -> None:
    threat = Threat(0.1, 0.1, malicious=True)
    threshold = choose(num_clients, threat).threshold
    assert 2 * threshold > num_clients + threat.num_corrupt(num_clients)


def test_a_cohort_of_two_is_refused() -> None:
    with pytest.raises(ConfigError, match="2 clients, wanted >= 3"):
        choose(2, Threat())


@pytest.mark.parametrize(
    ("corrupt", "dropout", "malicious"),
    [(-0.1, 0, False), (1.0, 0, False), (0.5, 0.5, False), (0.33, 0.33, True), (0.1, -1, False)],
)
def test_a_threat_that_no_threshold_withstands_is_refused(
    corrupt: float, dropout: float, malicious: bool
) -> None:
    with pytest.raises(ConfigError, match="wanted fractions"):
        Threat(corrupt, dropout, malicious)


def test_a_small_cohort_without_room_for_a_threshold_is_refused() -> None:
    with pytest.raises(ConfigError, match="lower corrupt or dropout"):
        choose(3, Threat(0.0, 0.9))
