"""Run every setting's private models, its best local method and joint training. Store the figures.

    SECUREFG_DATA=... python benchmarks/private_settings.py [--only TEXT] [--seeds 3]

A finished run is a row of benchmarks/private_rows.jsonl, so the work can be stopped and continued.
`private_page.py` writes the table of the docs from these rows. Private models are runs through the
channel with masks and discrete noise. "Alone" is the best of several local methods, chosen by each
silo on its own validation nodes. "Joint" is a GCN on the union of all silos' graphs, without any
protection.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from stored_runs import Row, Store

STORE = Path(__file__).parent / "private_rows.jsonl"
FIRST_SEED = 400
LOCAL = ("privacy={}", "method={name: best_alone, links: %d}")
SERVER = (
    "privacy={}",
    "method={name: label_propagation, coordinates: 32}",
    "training.rounds=1",
)
JOINT = (
    "privacy={}",
    "method={name: alone}",
    "training={rounds: 100, final_model: best, patience: null}",
    "centralised=true",
)
ONE_SUM = "method={name: one_sum}"
TWO_SUMS = "method={name: two_sums, links: 3}"
SHARES = "partition={name: shares, shares: [0.3, 0.4, 0.5, 0.5, 0.6, 0.7]}"


@dataclass(frozen=True)
class Model:
    """A private model of a setting.

    score    the figure of a row: "home" is the accuracy of predictions at home, "test" that of the
             common model, "roc_auc" the area under its curve
    changes  what the model changes in the setting's config
    """

    name: str
    score: str = "home"
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Setting:
    """Some silos, with the models that are compared there.

    silos    how the silos came about, in words
    covers   whom epsilon covers, in words
    choices  which nodes were used for which choice, in words
    alone    what the best method without the others changes in the config
    base     what all rows of the setting change in the config
    """

    config: str
    silos: str
    covers: str
    choices: str
    models: tuple[Model, ...]
    alone: tuple[str, ...]
    alone_name: str = "best local method"
    epsilons: tuple[float, ...] = (8, 2, 1)
    seeds: int = 3
    joint: bool = True
    base: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A line of the table: a method at an epsilon, or a level without noise, over seeds."""

    method: str
    epsilon: float | None
    score: str
    changes: tuple[str, ...]


def local(links: int) -> tuple[str, ...]:
    """Return the changes that make every silo train alone."""
    return LOCAL[0], LOCAL[1] % links


SUMS = (Model("two sums"), Model("one sum", changes=(ONE_SUM,)))
BY_SILO = "constants on Johns Hopkins and Amherst"
TESTED = "two sums: weights on test nodes of other splits of this graph"
PERSON = "a person with up to {} links, and its features and label"
USERS = Model("sums by pseudo label", "test")


def users(config: str, choices: str, silos: str) -> Setting:
    """Return a setting of users with one node each."""
    covers = "a user's features; not the graph and the labels, which the server has"
    models, alone = (USERS,), SERVER
    name = "the server alone, from graph and labels"
    return Setting(config, silos, covers, choices, models, alone, name, seeds=5, joint=False)


SETTINGS = {
    "Cora, 140 labels, 2,708 users": users(
        "private_users_cora",
        "weights on test nodes of CiteSeer and PubMed, coordinates on validation nodes",
        "one node each",
    ),
    "CiteSeer, 120 labels, 3,327 users": users(
        "private_users_citeseer", "on validation nodes of three other splits", "one node each"
    ),
    "PubMed, 60 labels, 19,717 users": users(
        "private_users_pubmed", "on validation nodes of three other splits", "one node each"
    ),
    "Cornell5, predictions may be published": Setting(
        "private_published_cornell5",
        "4 Louvain communities",
        PERSON.format(100) + ", in all rows but its own (GAP's convention); predictions too",
        "shares of the budget on test nodes of seed 0 of this graph",
        (Model("noisy counts", "test"),),
        local(100),
        epsilons=(8, 4, 1),
        seeds=5,
        joint=False,
    ),
    "Cornell5, 10 % labels": Setting(
        "private_few_labels_cornell5",
        "100 RANDOM silos",
        "a person with any number of links (one sum), with up to 3 (two sums)",
        BY_SILO,
        (Model("one sum"), Model("two sums", changes=(TWO_SUMS,))),
        local(3),
        seeds=10,
        joint=False,
    ),
    "Cornell5, 75 % labels": Setting(
        "private_cornell5_100", "100 RANDOM silos", PERSON.format(3), TESTED, SUMS, local(3)
    ),
    "Cornell5, majors": Setting(
        "private_majors_cornell5", "58 majors", PERSON.format(25), TESTED, SUMS, local(25), seeds=5
    ),
    "Cornell5, dorms": Setting(
        "private_dorms_cornell5", "72 dorms", PERSON.format(38), TESTED, SUMS, local(38), seeds=5
    ),
    "Cornell5, communities": Setting(
        "private_cornell5", "4 Louvain communities", PERSON.format(100), TESTED, SUMS, local(100)
    ),
    "Twitch": Setting("private_twitch", "7 countries", PERSON.format(20), TESTED, SUMS, local(20)),
    "Tolokers (AUC)": Setting(
        "private_tolokers",
        "4 Louvain communities",
        PERSON.format(100),
        TESTED,
        (Model("two sums", "roc_auc"),),
        local(100),
    ),
    "PubMed, 60 % labels": Setting(
        "private_pubmed", "10 Louvain communities", PERSON.format(10), TESTED, SUMS, local(10)
    ),
    "Cora, 60 % labels": Setting(
        "private_cora", "10 Louvain communities", PERSON.format(5), TESTED, SUMS, local(5)
    ),
    "Cora, 140 labels, FedGL's clients": Setting(
        "private_cora",
        "6 RANDOM shares that overlap",
        "a paper with any number of links, at up to 6 clients",
        BY_SILO,
        (Model("one sum", changes=(ONE_SUM,)),),
        local(5),
        base=(SHARES, "data={name: cora}"),
        seeds=5,
    ),
}


def lines_of(setting: Setting) -> Iterator[Line]:
    """Return the lines of a setting: alone, joint, then every model at every epsilon."""
    score = setting.models[0].score
    yield Line(setting.alone_name, None, score, (*setting.base, *setting.alone))
    if setting.joint:
        joint = "test" if score == "home" else score
        yield Line("joint GCN, no protection", None, joint, (*setting.base, *JOINT))
    for model in setting.models:
        for epsilon in setting.epsilons:
            target = f"privacy.target_epsilon={epsilon:g}"
            changes = (*setting.base, target, *model.changes)
            yield Line(model.name, epsilon, model.score, changes)


def reached(row: Row, score: str) -> float:
    """Return the figure of a row that a line shows."""
    value = row["scores"].get(score) if score in row["scores"] else row[score]
    assert isinstance(value, float)
    return value


def seeds_of(setting: Setting) -> Sequence[int]:
    """Return the seeds of the table."""
    return range(FIRST_SEED, FIRST_SEED + setting.seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--only", default="", help="settings with this text in their name")
    parser.add_argument("--seeds", type=int, help="number of seeds, in place of the table's")
    given = parser.parse_args()
    torch.set_num_threads(1)
    store = Store(given.store)
    for name, setting in SETTINGS.items():
        if given.only.lower() not in name.lower():
            continue
        setting = replace(setting, seeds=given.seeds or setting.seeds)
        for line in lines_of(setting):
            for seed in seeds_of(setting):
                row = store.figures(setting.config, [*line.changes, f"seed={seed}"])
                told = f"{reached(row, line.score):.3f}  {row['cpu']} CPU s"
                print(f"{name}: {line.method}, {line.epsilon}, seed {seed}: {told}", flush=True)


if __name__ == "__main__":
    main()
