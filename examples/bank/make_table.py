"""A made-up table of four banks: accounts with seven columns, payments between them, fraud at 7 %.

    python examples/bank/make_table.py        writes examples/bank/accounts/

Nobody's data: every number is drawn from a seeded generator. Fraudulent accounts pay one another
more often than chance, move money faster and at night, as far as one can tell from a few columns.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ACCOUNTS, BANKS, FRAUD = 1200, 4, 0.07
COLUMNS = ("age", "balance", "inflow", "outflow", "night_share", "countries", "tenure")
HERE = Path(__file__).parent


def main(folder: Path = HERE / "accounts", seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    fraud = (rng.permutation(ACCOUNTS) < round(FRAUD * ACCOUNTS)).astype(int)
    bank = rng.permutation(np.arange(ACCOUNTS) % BANKS)
    folder.mkdir(parents=True, exist_ok=True)
    rows = columns(fraud, rng)
    write(folder / "features.csv", ("node", *COLUMNS), ((i, *map(_short, r)) for i, r in rows))
    write(folder / "labels.csv", ("node", "label"), enumerate(fraud.tolist()))
    write(folder / "edges.csv", ("source", "target"), payments(fraud, bank, rng))
    write(folder / "clients.csv", ("node", "client"), enumerate(bank.tolist()))
    print(f"{ACCOUNTS} accounts, {int(fraud.sum())} fraudulent, {BANKS} banks: {folder}")


def columns(fraud, rng):
    """Standardised, so that no column outweighs the others."""
    shift = np.array([-0.4, 0.2, 1.4, 1.8, 2.0, 1.6, -1.2])
    table = rng.normal(size=(ACCOUNTS, len(COLUMNS))) + fraud[:, None] * shift
    return enumerate((table - table.mean(0)) / table.std(0))


def payments(fraud, bank, rng):
    """Six payments an account, most within its bank; those of fraud seek one another."""
    weight = np.where(fraud[:, None] == fraud[None], 1.0, 0.3)
    weight = weight * np.where(bank[:, None] == bank[None], 1.0, 0.2)
    np.fill_diagonal(weight, 0)
    seen = set()
    for account in range(ACCOUNTS):
        chance = weight[account] / weight[account].sum()
        for other in rng.choice(ACCOUNTS, size=6, replace=False, p=chance).tolist():
            pair = (min(account, other), max(account, other))
            if pair not in seen:
                seen.add(pair)
                yield pair


def _short(value):
    return f"{value:.4f}"


def write(path: Path, head, rows) -> None:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(head)
        out.writerows(rows)


if __name__ == "__main__":
    main()
