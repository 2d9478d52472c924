"""A payment network of four banks, as tables: `python generate.py OUT`, or from AMLSim's sample.

Customers have an account at one bank, some at two. Most transfers stay within a bank. Money is
laundered in rings that cross banks: fan-in (many pay one), fan-out (one pays many), cycles; of a
hundred customers about seven are in one. Labels are missing for a third of the customers, some of
the seven columns have gaps, and ids are text. Nobody's data: all is drawn from a seed.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

BANKS = ("north", "south", "east", "west")
TABLES = 'nodes: accounts\nedges: transfers\nlabel: fraud\nclasses: ["no", "yes"]\n'
COLUMNS = (
    "customer",
    "age",
    "kind",
    "region",
    "risk",
    "night_share",
    "countries",
    "tenure",
    "fraud",
)
"""An id, seven columns, and the label."""


@dataclass
class Network:
    """Customers by number: their banks and labels; transfers as (from, to, amount, day, kind)."""

    banks: list[tuple[int, ...]]
    fraud: np.ndarray
    transfers: list[tuple[int, int, float, int, str]] = field(default_factory=list)


def draw(customers: int, rings: int, shared: float, rng: np.random.Generator) -> Network:
    """Rings of 5 to 9 customers, a third each of fan-in, fan-out and cycles."""
    first = rng.integers(0, len(BANKS), customers)
    second = (first + rng.integers(1, len(BANKS), customers)) % len(BANKS)
    both = rng.random(customers) < shared
    banks = [
        (int(a), int(b)) if s else (int(a),) for a, b, s in zip(first, second, both, strict=True)
    ]
    net = Network(banks, np.zeros(customers, bool))
    weight = rng.pareto(2.5, customers) + 0.2
    for _ in range(2 * customers):
        payer = int(rng.choice(customers, p=weight / weight.sum()))
        near = np.flatnonzero(first == first[payer]) if rng.random() < 0.8 else np.arange(customers)
        net.transfers.append(_transfer(payer, int(rng.choice(near)), rng, 4.0))
    for ring in range(rings):
        members = rng.choice(customers, int(rng.integers(5, 10)), replace=False).tolist()
        net.fraud[members] = True
        hub, *others = members
        if ring % 3 == 0:
            pairs = [(other, hub) for other in others]
        elif ring % 3 == 1:
            pairs = [(hub, other) for other in others]
        else:
            pairs = list(zip(members, [*others, hub], strict=True))
        for payer, payee in pairs * 2:
            net.transfers.append(_transfer(payer, payee, rng, 6.0))
    return net


def _transfer(
    payer: int, payee: int, rng: np.random.Generator, size: float
) -> tuple[int, int, float, int, str]:
    amount = round(float(rng.lognormal(size, 1.0)), 2)
    return payer, payee, amount, int(rng.integers(1, 366)), str(rng.choice(["wire", "card"]))


def write(net: Network, out: Path, rng: np.random.Generator, unlabelled: float = 0.33) -> None:
    """One folder per bank; a transfer is in the tables of the payer's banks and of the payee's."""
    rows = [_customer(n, fraud, unlabelled, rng) for n, fraud in enumerate(net.fraud)]
    out.mkdir(parents=True)
    (out / "tables.yaml").write_text(TABLES)
    for number, bank in enumerate(BANKS):
        here = [n for n, banks in enumerate(net.banks) if number in banks]
        own = set(here)
        with_us = [t for t in net.transfers if t[0] in own or t[1] in own]
        (out / bank).mkdir()
        _table(out / bank / "accounts.csv", COLUMNS, [rows[n] for n in here])
        named = [(_id(a), _id(b), amount, day, kind) for a, b, amount, day, kind in with_us]
        _table(out / bank / "transfers.csv", ("payer", "payee", "amount", "day", "kind"), named)


def _customer(
    number: int, fraud: bool, unlabelled: float, rng: np.random.Generator
) -> tuple[str, ...]:
    age = (
        "" if rng.random() < 0.1 else str(int(np.clip(rng.normal(38 if fraud else 46, 14), 18, 95)))
    )
    kind = str(rng.choice(["private", "business"], p=[0.6, 0.4] if fraud else [0.8, 0.2]))
    region = "" if rng.random() < 0.05 else str(rng.choice(["Wien", "Graz", "Linz", "Salzburg"]))
    risk = f"{rng.normal(1.2 if fraud else 0.0, 1.0):.3f}"
    label = "" if rng.random() < unlabelled else ("yes" if fraud else "no")
    night = f"{np.clip(rng.normal(0.35 if fraud else 0.2, 0.1), 0, 1):.3f}"
    countries = str(1 + int(rng.poisson(1.5 if fraud else 0.6)))
    tenure = f"{rng.gamma(2.0, 1.5 if fraud else 3.0):.1f}"
    return _id(number), age, kind, region, risk, night, countries, tenure, label


def _id(number: int) -> str:
    return f"AT-{number:06d}"


def _table(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def from_amlsim(root: Path, rng: np.random.Generator) -> Network:
    """AMLSim's sample, whose accounts name no bank: they are dealt to the four by their number."""
    with (root / "AMLSim" / "raw" / "nodes.csv").open() as file:
        _, *nodes = csv.reader(file)
    with (root / "AMLSim" / "raw" / "transactions.csv").open() as file:
        _, *payments = csv.reader(file)
    fraud = np.array([float(row[1]) > 0 for row in nodes])
    net = Network([(n % len(BANKS),) for n in range(len(nodes))], fraud)
    for payer, payee, *_ in payments:
        net.transfers.append(_transfer(int(float(payer)), int(float(payee)), rng, 4.0))
    return net


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--customers", type=int, default=1200)
    parser.add_argument("--rings", type=int, default=12)
    parser.add_argument("--shared", type=float, default=0.08, help="share with two banks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--amlsim", type=Path, help="a data root with AMLSim/raw")
    asked = parser.parse_args(arguments)
    rng = np.random.default_rng(asked.seed)
    if asked.amlsim is not None:
        net = from_amlsim(asked.amlsim, rng)
    else:
        net = draw(asked.customers, asked.rings, asked.shared, rng)
    write(net, asked.out, rng)
    print(
        f"wrote {asked.out}: {len(net.banks)} customers of {len(BANKS)} banks, "
        f"{int(net.fraud.sum())} of them in rings, {len(net.transfers)} transfers"
    )


if __name__ == "__main__":
    main()
