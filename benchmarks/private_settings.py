"""Every setting beside its best local method, joint training, and its private models.

    SECUREFG_DATA=... python benchmarks/private_settings.py --store FILE [--only TEXT] [--seeds 3]

A finished run is a row of FILE, so the table can be stopped and continued. Private models are runs
through the channel with masks and discrete noise. "Alone" is `best_alone`: the best of six local
methods, chosen by each silo on its own validation nodes. "Joint" is a GCN on the union of all
silos' graphs, without any protection. Differences are paired by seed, with Student's interval.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from stored_runs import Store

from securefg.foundation.interval import interval

ALONE = "method={name: best_alone, links: %d}"
GCN = "method={name: alone}"
TRAINED = ("training={rounds: 100, final_model: best, patience: null}", "centralised=true")
PLAIN = "privacy={}"


@dataclass(frozen=True)
class Setting:
    """Some silos.

    config  of the private model
    others  further private models, by name: what they change in the config
    score   the figure of a row: accuracy at home, of the common model, or AUC of the common model
    """

    config: str
    links: int
    score: str = "home"
    epsilons: tuple[float, ...] = (8, 2, 1)
    seeds: int = 3
    others: tuple[tuple[str, str], ...] = ()
    joint: bool = True


ONE = (("one sum", "method={name: one_sum}"),)
SETTINGS = {
    "Cornell5, 100 random silos, 10 % labels": Setting(
        "private_few_labels_cornell5",
        3,
        seeds=10,
        others=(("two sums", "method={name: two_sums, links: 3}"),),
        joint=False,
    ),
    "Cornell5, 100 random silos": Setting("private_cornell5_100", 3, others=ONE),
    "Cornell5, 58 majors": Setting("private_majors_cornell5", 25, seeds=5, others=ONE),
    "Cornell5, 72 dorms": Setting("private_dorms_cornell5", 38, seeds=5, others=ONE),
    "Twitch, 7 countries": Setting("private_twitch", 20, others=ONE),
    "Tolokers, 4 Louvain silos": Setting("private_tolokers", 100, others=ONE),
    "Cornell5, 4 Louvain silos": Setting("private_cornell5", 100, others=ONE),
    "PubMed, 10 Louvain silos": Setting("private_pubmed", 10, others=ONE),
    "Cora, 10 Louvain silos": Setting("private_cora", 5, others=ONE),
}


def reached(row: dict[str, object], score: str) -> float:
    value = row[score]
    assert isinstance(value, float)
    return value


def told(values: Sequence[float]) -> str:
    return f"{sum(values) / len(values):.3f}"


def above(values: Sequence[float], others: Sequence[float]) -> str:
    """The mean difference, seed by seed, and its 95 % interval."""
    found = interval([a - b for a, b in zip(values, others, strict=True)])
    return f"{found.value:+.3f} ({found.low:+.3f} to {found.high:+.3f})"


def print_setting(name: str, one: Setting, store: Store, seeds: Sequence[int]) -> None:
    def scores(*changes: str, score: str = one.score) -> list[float]:
        rows = (store.figures(one.config, [*changes, f"seed={seed}"]) for seed in seeds)
        return [reached(row, score) for row in rows]

    alone = scores(PLAIN, ALONE % one.links)
    print(f"| {name} | alone | | {told(alone)} | |", flush=True)
    if one.joint:
        joint = scores(PLAIN, GCN, *TRAINED, score="test")
        print(f"| {name} | joint GCN, no protection | | {told(joint)} | |", flush=True)
    main = load_name(one.config)
    for label, change in ((main, ""), *one.others):
        for epsilon in one.epsilons:
            changes = (f"privacy.target_epsilon={epsilon:g}", *([change] if change else []))
            found = scores(*changes)
            cells = f"{epsilon:g} | {told(found)} | {above(found, alone)}"
            print(f"| {name} | {label} | {cells} |", flush=True)


def load_name(config: str) -> str:
    return "one sum" if "few_labels" in config else "two sums"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--only", default="", help="settings with this text in their name")
    parser.add_argument("--seeds", type=int, help="number of seeds, in place of the table's")
    parser.add_argument("--first-seed", type=int, default=400)
    given = parser.parse_args()
    torch.set_num_threads(1)
    store = Store(given.store)
    print("| setting | method | epsilon | reached | above alone |\n|---|---|---|---|---|")
    for name, one in SETTINGS.items():
        if given.only.lower() in name.lower():
            count = given.seeds or one.seeds
            seeds = range(given.first_seed, given.first_seed + count)
            print_setting(name, one, store, seeds)


if __name__ == "__main__":
    main()
