"""Whether every attack's gain falls with epsilon, at the epsilons of the shipped curves.

    python benchmarks/gain_by_epsilon.py RUNS --json gains.json

Small synthetic graphs and few rounds, so that all of it takes minutes; one column per epsilon, from
the loosest to the tightest. A gain that rises by less than both intervals' reach has not risen.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from attack_table import BY_CLIENT, BY_ROW, FEDGL, GFL, ROUNDS, USERS, Case, Row, measured

EPSILONS = {
    "nFedGNN": (32768, 4096, 512, 64, 8),
    "GFL-APPNP": (1_000_000, 32768, 512, 8),
    "FedGL": (350_000_000, 2_000_000, 16000, 512, 8),
}
"""Of configs/curve_nfedgnn_cora.yaml, curve_gfl_subcora.yaml, curve_fedgl_cora.yaml."""
SETTINGS = {
    "nFedGNN": (USERS, (*ROUNDS, BY_CLIENT, "method={name: nfedgnn, smoothness: 100}")),
    "GFL-APPNP": (GFL, (*ROUNDS, "method.jacobian=full", BY_CLIENT)),
    "FedGL": ("quickstart", (*FEDGL, BY_ROW)),
}


def cases(method: str) -> list[Case]:
    name, settings = SETTINGS[method]
    return [
        (method, f"{e}", name, (*settings, f"privacy.target_epsilon={e}")) for e in EPSILONS[method]
    ]


def table(method: str, rows: list[Row]) -> Iterator[str]:
    epsilons = EPSILONS[method]
    yield f"| {method}: attack, by whom | {' | '.join(f'{e:,}' for e in epsilons)} | falls |"
    yield "|---" * (len(epsilons) + 2) + "|"
    for attack, whose in sorted({(row["attack"], row["adversary"]) for row in rows}):
        found = {
            r["case"]: r["gain"] for r in rows if (r["attack"], r["adversary"]) == (attack, whose)
        }
        gains = [found.get(f"{method}, {e}") for e in epsilons]
        told = " | ".join("-" if g is None else f"{g[0]:+.3f}" for g in gains)
        yield f"| `{attack}`, {whose} | {told} | {falls([g for g in gains if g is not None])} |"


def falls(gains: list[list[float]]) -> str:
    """Over every pair of neighbours, from loose to tight."""
    risen = [b for a, b in pairwise(gains) if b[0] > a[0] + 1e-3]
    apart = [b for a, b in pairwise(gains) if b[1] > a[2]]
    return "no" if apart else "within intervals" if risen else "yes"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kept = json.loads(given.json.read_text()) if given.json.is_file() else {}
    for method in EPSILONS:
        if method not in kept:
            kept[method] = list(measured(cases(method), given.runs, (given.seed,)))
            given.json.write_text(json.dumps(kept, indent=1))
        print("\n".join(table(method, kept[method])), flush=True)


if __name__ == "__main__":
    main()
