"""AMLSim's accounts and transactions: payments between accounts, fraud is predicted.

Weber et al., "Scalable Graph Learning for Anti-Money Laundering", 2018. An account's feature is the
balance it opened with, in one of sixteen bins: amounts and times belong to transactions, so one
party of a payment would be in the other's features. The file names no bank. torch-geometric
has no loader for it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import torch

from securefg.data.dataset import Dataset, no_split
from securefg.data.graph import sorted_edges
from securefg.data.tables import read_table

BINS: Final = 16
LARGEST: Final = 200.0


def files(name: str) -> tuple[str, ...]:
    return ("AMLSim/raw/nodes.csv", "AMLSim/raw/transactions.csv")


def read(root: Path, name: str) -> Dataset:
    account_file, payment_file = (root / file for file in files(name))
    accounts = read_table(account_file, np.float64, columns=4, delimiter=",", header=True)
    ids, fraud, balances, _ = accounts.values.T
    count = len(accounts)
    accounts.require(ids == np.arange(count), 0, "the accounts 0, 1, 2, ... in order")
    accounts.require((fraud == 0) | (fraud == 1), 1, "isFraud 0 or 1")
    accounts.require(balances >= 0, 2, "a balance from 0")
    payments = read_table(payment_file, np.float64, columns=4, delimiter=",", header=True)
    ends = payments.values[:, :2]
    good = ((ends >= 0) & (ends < count) & (ends == np.floor(ends))).all(1)
    payments.require(good, 0, f"accounts from 0 to {count - 1}")
    bins = np.minimum(balances / LARGEST * BINS, BINS - 1).astype(np.int64)
    none = no_split(count)
    return Dataset(
        features=torch.from_numpy(np.eye(BINS, dtype=np.float32)[bins]),
        edge_index=sorted_edges(torch.from_numpy(ends.astype(np.int64).T.copy()), count),
        labels=torch.from_numpy(fraud.astype(np.int64)),
        train=none,
        val=none,
        test=none,
        directed=True,
    )
