"""Every attack of the package fits a run of a shipped config: its needs are met and it applies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attacks import attack_names, get_attack
from attacks.base import AnyAttack
from audits.plan import DEFAULT_ADVERSARY
from audits.rehearsals.throwaway import federate_rounds, new_truth, throwaway_config
from audits.truth import Truth
from securefg.protocol.transcript import Adversary
from securefg.runs.assembly import prepare
from securefg.settings.config import load_config

DRAWN = (
    "data={name: csbm, csbm: {task: dnc, num_nodes: 300, degree: 10, graph_signal: 2, mu: 6}, "
    "split: {kind: folds}}"
)
RUNS = (
    ("quickstart", ()),
    ("quickstart", ("method.embedding=hidden",)),  # as in curve_fedgl_cora.yaml
    ("fedavg_small_silos", ()),
    ("fedmlp_sc", ()),
    ("gfl_dnc", ()),
    ("nfedgnn_cnfgnn", ()),
    ("nfedgnn_cora", (DRAWN,)),
    ("nfedgnn_masked", ()),
    ("ppfl_deepwalk_citeseer", (DRAWN,)),
    ("ppfl_gat_citeseer", (DRAWN,)),
    ("private_made", ()),
    ("private_transfers", ()),
    ("fedavg_transfers", ()),
    ("private_published_cornell5", (DRAWN,)),
    ("private_users_cora", (DRAWN,)),
)


def made(root: Path, stem: str, settings: tuple[str, ...]) -> Truth:
    """One round of a shipped config, on a drawn graph."""
    experiment = prepare(throwaway_config(load_config(Path(f"configs/{stem}.yaml"), settings)))
    return federate_rounds(experiment, new_truth(experiment, root).folder, 1).truth


def is_fitting(truth: Truth, attack: AnyAttack) -> bool:
    if truth.spoken.unmet_need(attack) is not None:
        return False
    places = [Adversary.parse(DEFAULT_ADVERSARY[kind]) for kind in attack.adversaries]
    return any(attack.applies_to(truth.view(place)) is None for place in places)


def fitting(root: Path) -> Iterator[str]:
    for number, (stem, settings) in enumerate(RUNS):
        truth = made(root / str(number), stem, settings)
        yield from (name for name in attack_names() if is_fitting(truth, get_attack(name)))


OF_RECORDINGS = {"batch_labels", "network_confidence", "network_inversion", "network_members"}
"""Attacks on recordings of other frameworks, which `test_foreign_networks` runs."""


def test_attacks_of_the_package_fit_a_shipped_run(tmp_path: Path) -> None:
    assert set(attack_names()) - set(fitting(tmp_path)) == OF_RECORDINGS
