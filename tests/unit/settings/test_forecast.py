"""The guess at a run's time: it grows with the work and is silent where nothing is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.cli.configs import list_configs
from securefg.settings.config import load_config
from securefg.settings.forecast import forecast_from_config, round_duration
from securefg.settings.shipped import config_names


def test_forecast_grows_with_rounds_and_clients() -> None:
    short_forecast = forecast_from_config(load_config(Path("quickstart")))
    longer = forecast_from_config(load_config(Path("quickstart"), ["training.rounds=6000"]))
    assert short_forecast is not None
    assert longer is not None
    assert short_forecast < 60 < longer


def test_forecast_of_clients_that_only_data_count_is_unknown() -> None:
    given = load_config(Path("quickstart"), ["partition={name: given}"])
    assert forecast_from_config(given) is None


@pytest.mark.parametrize(
    ("seconds", "words"), [(2, "10 s"), (44, "40 s"), (55, "1 min"), (700, "12 min"), (9e3, "2 h")]
)
def test_round_duration_has_no_false_precision(seconds: float, words: str) -> None:
    assert round_duration(seconds) == words


def test_list_configs_has_every_config_once_below_a_group() -> None:
    lines = list_configs()
    titles = [line[0] for line in lines if not any(line[1:])]
    assert titles[:2] == ["start here", "curves"]
    named = [line for line in lines if any(line[1:])]
    assert sorted(line[0] for line in named) == config_names()
    needed = {name: data for name, data, _, _ in named}
    assert needed["quickstart"] == "none"
    assert needed["fedgl_cora"] == "cora"
