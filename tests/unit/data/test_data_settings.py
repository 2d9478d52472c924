from __future__ import annotations

import pytest
from pydantic import ValidationError

from securefg.foundation.errors import ConfigError
from securefg.settings.data import CsbmSettings, DataSettings, SplitSettings
from securefg.settings.datasets import DATASETS, canonical_name


@pytest.mark.parametrize(
    ("given", "name"), [("Cora", "cora"), ("PubMed", "pubmed"), ("Wiki-CS", "wikics")]
)
def test_names_are_spelt_as_the_catalogue_does(given: str, name: str):
    assert DataSettings(name=given).name == name


def test_unknown_dataset_is_told_with_known_ones_and_the_nearest():
    with pytest.raises(ConfigError) as caught:
        DataSettings(name="corra")
    assert str(caught.value).startswith("data.name: found 'corra'; expected cora, citeseer, pubmed")
    assert str(caught.value).endswith("did you mean cora?")


def test_every_name_of_the_catalogue_is_canonical_and_described():
    for name, info in DATASETS.items():
        assert canonical_name(name) == info.name == name
        assert info.description


@pytest.mark.parametrize(
    "given",
    [
        {"name": "cora", "rot": "/"},
        {"name": "cora", "split": {"kind": "fixed"}},
        {"name": "cora", "split": {"labels_per_class": 0}},
        {"name": "cora", "split": {"index": -1}},
        {"name": "folder"},
        {"name": "cora", "folder": "/some/where"},
        {"name": "cora", "csbm": {"task": "dnc"}},
        {"name": "csbm", "csbm": {"task": "xyz"}},
        {"name": "csbm", "csbm": {"graph_signal": 3}},
        {"name": "csbm", "csbm": {"mu": float("inf")}},
        {"name": "csbm", "csbm": {"num_nodes": 10}},
        {"name": "csbm", "csbm": {"samples_per_node": 2}},
        {"name": "csbm", "csbm": {"train_share": 0.5, "val_share": 0.5}},
    ],
)
def test_what_cannot_be_is_refused(given):
    with pytest.raises(ValidationError):
        DataSettings.model_validate(given)


def test_csbm_is_as_in_the_paper_where_nothing_else_is_said():
    sc = CsbmSettings.model_validate({"task": "sc", "degree": 6})
    assert (sc.num_nodes, sc.degree, sc.graph_signal, sc.mu, sc.samples_per_node) == (
        50,
        6,
        2.2,
        0.1,
        120,
    )


def test_csbm_is_filled_in_for_its_name_and_no_other():
    assert DataSettings(name="cSBM").csbm == CsbmSettings.model_validate({})
    assert DataSettings(name="cora").csbm is None


def test_settings_are_frozen_and_survive_a_round_trip():
    settings = DataSettings.model_validate({"name": "csbm", "csbm": {"task": "snc"}})
    assert DataSettings.model_validate(settings.model_dump(mode="json")) == settings
    with pytest.raises(ValidationError):
        SplitSettings().index = 1  # type: ignore[misc]
