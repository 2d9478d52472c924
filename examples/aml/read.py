"""AMLGentex's files as tables of banks: `python read.py RAW OUT`.

RAW has accounts.csv, transactions.parquet and patterns.csv, as AMLGentex writes them. OUT gets a
folder per bank with accounts.csv and transfers.csv, and tables.yaml with public ranges, so that the
schema tells nothing of the tables. Every column of an account comes from the account's own
payments: what left it and what came in, between banks' accounts (`bank`) and with the outside
(`world`). Amounts and counts are logarithms, cut to the public range.

    python read.py RAW OUT --split 3      the fourth of the splits by pattern, as a column `split`
    python read.py RAW OUT --learn        without public ranges: `prepare` learns means and scales

A split keeps a pattern's accounts together. An account of several patterns goes with the first
pattern that is drawn.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

PARTS = ("train", "val", "test")
SHARES = (0.6, 0.15, 0.25)
BOUNDS = {
    "count": (0.0, 5.0),
    "sum": (4.0, 12.0),
    "mean": (4.0, 10.0),
    "std": (2.0, 10.0),
    "max": (4.0, 11.0),
    "partners": (0.0, 4.0),
    "days": (0.0, 5.0),
}
"""Public bounds of logarithms: payments of about 50 to 50 000, up to 150 of them in 100 days."""
TRANSFERS = "{amount: {amount: [4, 12]}, time: {day: [0, 25, 50, 75, 100]}}"
OWN = {"age": (0.0, 100.0), "salary": (8.0, 12.0), "balance": (9.0, 13.0)}


def read_accounts(raw: Path) -> pd.DataFrame:
    """Return an account per row: its id, bank, own columns, payments' columns and label."""
    accounts = pd.read_csv(raw / "accounts.csv").set_index("ACCOUNT_ID").sort_index()
    payments = pd.read_parquet(raw / "transactions.parquet")
    table = pd.DataFrame(
        {
            "account": [f"A{number}" for number in accounts.index],
            "bank": accounts["BANK_ID"],
            "age": accounts["AGE"],
            "salary": np.log1p(accounts["SALARY"]),
            "balance": np.log1p(accounts["INIT_BALANCE"]),
        },
        index=accounts.index,
    )
    for name, column in payment_columns(payments, accounts.index).items():
        table[name] = np.log1p(column)
    table["fraud"] = np.where(accounts["IS_SAR"].astype(bool), "yes", "no")
    return table


def payment_columns(payments: pd.DataFrame, accounts: pd.Index) -> dict[str, pd.Series]:
    """Return counts and amounts of every account's payments, by direction and counterpart."""
    payment_sums = {}
    for way, own_column, other in (("out", "nameOrig", "nameDest"), ("in", "nameDest", "nameOrig")):
        with_own = payments[payments[own_column] >= 0]
        outside = with_own[other] < 0
        for kind, chosen in (("bank", with_own[~outside]), ("world", with_own[outside])):
            groups = chosen.groupby(own_column)
            columns = {
                name: getattr(groups["amount"], name)()
                for name in ("count", "sum", "mean", "std", "max")
            }
            columns["days"] = groups["step"].nunique()
            if kind == "bank":
                columns["partners"] = groups[other].nunique()
            for name, column in columns.items():
                payment_sums[f"{kind}_{way}_{name}"] = column.reindex(accounts).fillna(0.0)
    return payment_sums


def draw_split(raw: Path, num_accounts: int, seed: int) -> np.ndarray:
    """Return train, val or test for every account; patterns stay together as far as they can."""
    patterns = pd.read_csv(raw / "patterns.csv")
    stream = np.random.default_rng(seed)
    parts = stream.choice(PARTS, num_accounts, p=SHARES).astype(object)
    names = stream.permutation(patterns["modelID"].unique())
    ends = np.cumsum(np.array(SHARES) * len(names)).round()
    placed = np.zeros(num_accounts, bool)
    for place, name in zip(stream.permutation(len(names)), names, strict=True):
        members = patterns["accountID"][patterns["modelID"] == name].unique()
        free = members[~placed[members]]
        parts[free] = PARTS[int(np.searchsorted(ends, place, side="right"))]
        placed[free] = True
    return parts


def write_banks(
    raw: Path, out: Path, split: int | None = None, links: bool = False, learn: bool = False
) -> None:
    """Write a folder per bank; a transfer is in the tables of both banks that see it."""
    accounts = read_accounts(raw)
    if split is not None:
        accounts["split"] = draw_split(raw, len(accounts), split)
    payments = pd.read_parquet(raw / "transactions.parquet")
    between = payments[(payments["nameOrig"] >= 0) & (payments["nameDest"] >= 0)]
    transfers = pd.DataFrame(
        {
            "payer": "A" + between["nameOrig"].astype(str),
            "payee": "A" + between["nameDest"].astype(str),
            "amount": between["amount"],
            "day": between["step"],
        }
    )
    out.mkdir(parents=True)
    (out / "tables.yaml").write_text(settings_text(accounts, links, learn))
    for bank, own in accounts.groupby("bank"):
        folder = out / str(bank)
        folder.mkdir()
        own.drop(columns="bank").to_csv(folder / "accounts.csv", index=False)
        seen = (between["bankOrig"] == bank) | (between["bankDest"] == bank)
        transfers[seen].to_csv(folder / "transfers.csv", index=False)


def settings_text(accounts: pd.DataFrame, links: bool, learn: bool = False) -> str:
    """Return tables.yaml: names, classes, and a public range for every column.

    links  leave out the columns that were computed from transfers; `prepare` sums over links then
    learn  leave out the ranges; `prepare` learns means and scales, which all banks then know
    """
    own = [name for name in accounts if name not in ("account", "bank", "fraud", "split")]
    summed = [name for name in own if name.startswith("bank_")]
    own = [name for name in own if not links or name not in summed]
    ranges = {name: OWN.get(name) or BOUNDS[name.rsplit("_", 1)[-1]] for name in own}
    lines = [f"  {name}: [{low:g}, {high:g}]" for name, (low, high) in ranges.items()]
    head = ["nodes: accounts", "edges: transfers", "label: fraud", 'classes: ["no", "yes"]']
    head += [f"{'ignore' if links else 'from_edges'}: [{', '.join(summed)}]"]
    head += [f"transfers: {TRANSFERS}"] * links
    return "\n".join([*head, *([] if learn else ["range:", *lines]), ""])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--split", type=int, help="number of a split by pattern")
    parser.add_argument("--links", action="store_true", help="let `prepare` sum over links")
    parser.add_argument("--learn", action="store_true", help="write no public ranges")
    asked = parser.parse_args(arguments)
    write_banks(asked.raw, asked.out, asked.split, asked.links, asked.learn)
    print(f"wrote {asked.out}")


if __name__ == "__main__":
    main()
