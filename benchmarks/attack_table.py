"""What every attack reaches on every method, plain, masked and noised, over seeds: one table.

    python benchmarks/attack_table.py made RUNS --json new.json            small synthetic graphs
    python benchmarks/attack_table.py cora RUNS --json new.json            FedGL on Cora
    python benchmarks/attack_table.py classes RUNS --json new.json > page.md
    python benchmarks/attack_table.py made RUNS --json new.json --beside old.json > table.md

Runs are made once and kept in RUNS; findings go to the JSON file. An older checkout's attacks are
measured on copies of the same runs by the same script (PYTHONPATH), and put beside the new ones.
No data about people is used: synthetic graphs, and citations.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attacks import attack_names
from audits.plan import Plan
from audits.run import audit
from securefg.runs import runner
from securefg.settings.config import load_config
from securefg.sweep.cache import find_run

SEEDS = (0, 1, 2)
SHORT = ("training.patience=null", "output.transcript_every=1")
FEDGL = (*SHORT, "training.rounds=12", "method.weighting=clients")
BY_ROW = "privacy={mechanism: local_gaussian, target_epsilon: 8, unit: row, clip_l2: 1.0}"
BY_CLIENT = BY_ROW.replace("unit: row", "unit: client")
MASKED = "privacy={secure_aggregation: {}}"
OPEN_MASKED = "privacy={secure_aggregation: {malicious: false}}"
Case = tuple[str, str, str, tuple[str, ...]]
"""Method, defence, configuration, and what is set in it."""

SAGE, GFL, USERS = "fedavg_graphsage_csbm", "gfl_dnc_private", "nfedgnn_masked"
ROUNDS = (*SHORT, "training.rounds=5")
SMALL = "data={name: csbm, csbm: {task: dnc, num_nodes: 600, degree: 10, graph_signal: 2, mu: 6}}"
SUMS = ("output.transcript_every=1", SMALL)
WALKS = "ppfl_deepwalk_citeseer_private"
PUBLIC = (*SHORT, f"{SMALL[:-1]}, split: {{kind: folds}}}}", "training.rounds=5")
CASES: dict[str, list[Case]] = {
    "made": [
        ("FedGL", "plain", "quickstart", FEDGL),
        ("FedGL", "masked", "quickstart", (*FEDGL, MASKED)),
        ("FedGL", "noised, epsilon 8 per row", "quickstart", (*FEDGL, BY_ROW)),
        ("FedAvg, GraphSAGE", "plain", SAGE, ROUNDS),
        ("FedAvg, GraphSAGE", "masked", SAGE, (*ROUNDS, "method.weighting=clients", MASKED)),
        (
            "FedAvg, GraphSAGE",
            "noised, epsilon 8 per client",
            SAGE,
            (*ROUNDS, "method.weighting=clients", "method.upload=update", BY_CLIENT),
        ),
        ("GFL-APPNP", "plain", GFL, (*ROUNDS, "method.jacobian=full", "privacy={}")),
        ("GFL-APPNP", "masked", "gfl_dnc_masked", ROUNDS),
        ("GFL-APPNP", "noised, epsilon 8 per client", GFL, ROUNDS),
        (
            "nFedGNN",
            "plain",
            USERS,
            (*ROUNDS, "privacy={}", "method={name: nfedgnn, smoothness: 100}"),
        ),
        ("nFedGNN", "masked", USERS, ROUNDS),
        (
            "nFedGNN",
            "noised, epsilon 8 per client",
            USERS,
            (*ROUNDS, BY_CLIENT, "method={name: nfedgnn, smoothness: 100}"),
        ),
        ("PPFL-GNN, walks", "plain", WALKS, (*PUBLIC, "privacy={}")),
        ("PPFL-GNN, walks", "masked", "ppfl_deepwalk_citeseer_masked", PUBLIC),
        ("PPFL-GNN, walks", "noised, epsilon 8 per row", WALKS, PUBLIC),
        ("two_sums", "plain", "private_cora", (*SUMS, "privacy={}")),
        ("two_sums", "masked", "private_cora", (*SUMS, MASKED)),
        ("two_sums", "noised, epsilon 8 per node", "private_cora", SUMS),
    ],
    "cora": [
        ("FedGL on Cora", "plain", "fedgl_cora", (*SHORT, "training.rounds=30")),
        ("FedGL on Cora", "noised, epsilon 8 per row", "fedgl_cora_private", SHORT),
    ],
    "walks": [
        ("PPFL-GNN, walks", "plain", WALKS, (*SHORT, "privacy={}")),
        ("PPFL-GNN, walks", "masked", "ppfl_deepwalk_citeseer_masked", SHORT),
        ("PPFL-GNN, walks", "noised, epsilon 8 per row", WALKS, SHORT),
    ],
    "classes": [
        ("quickstart", "plain", "quickstart", ()),
        ("FedAvg", "plain", SAGE, ()),
        ("small silos", "plain", "fedavg_small_silos", ()),
        ("communities of Cora", "plain", "fedgl_cora_louvain", (*SHORT, "training.rounds=5")),
        ("Cora", "plain", "fedgl_cora", (*SHORT, "training.rounds=30")),
    ],
}
Row = dict[str, Any]


def measured(
    cases: list[Case], root: Path, seeds: tuple[int, ...], only: tuple[str, ...]
) -> Iterator[Row]:
    """A row per case, seed and finding with a value."""
    for method, defence, name, settings in cases:
        for seed in seeds:
            folder = made(name, settings, root, seed)
            started = time.process_time()
            result = audit(folder, Plan(only=only))
            print(f"{method}, {defence}, seed {seed}: {time.process_time() - started:.1f} CPU s")
            for finding in result.findings:
                if finding.value is None or finding.prior is None or finding.gain is None:
                    continue
                yield {
                    "case": f"{method}, {defence}",
                    "seed": seed,
                    "attack": finding.attack,
                    "adversary": finding.adversary,
                    "metric": finding.metric,
                    "value": finding.value.value,
                    "prior": finding.prior.value,
                    "gain": [finding.gain.value, finding.gain.low, finding.gain.high],
                    "verdict": finding.verdict.value,
                    "blind": None if finding.blind is None else finding.blind.value,
                }


def made(name: str, settings: tuple[str, ...], root: Path, seed: int) -> Path:
    """The run's folder, without any audit; trained where it is not there."""
    config = load_config(
        Path("configs") / f"{name}.yaml", (*settings, f"seed={seed}", f"output.root={root}")
    )
    run_folder = find_run(root, config.hash)
    if run_folder is None or not run_folder.finished:
        run_folder = runner.start(config, fresh=True).folder
    for part in ("findings.json", "scores.npz", "shadows"):
        path = run_folder.path / "audit" / part
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return run_folder.path


def table(rows: list[Row], old: list[Row]) -> Iterator[str]:
    """Means over seeds; of gains, the lowest and the highest end of any seed's interval."""
    beside = "before | " if old else ""
    yield f"| run | attack, by whom | prior | {beside}now | gain [least, greatest end] | verdicts |"
    yield f"|---|---|---|{'---|' if old else ''}---|---|---|"
    before = _grouped(old)
    for key, cell_rows in _grouped(rows).items():
        then = f"{_mean(before[key], 'value'):.3f}" if key in before else "-"
        gains = [row["gain"] for row in cell_rows]
        spread = f"[{min(g[1] for g in gains):+.3f}, {max(g[2] for g in gains):+.3f}]"
        gain = f"{statistics.fmean(g[0] for g in gains):+.3f} {spread}"
        verdicts = sorted({row["verdict"].lower().replace("_", " ") for row in cell_rows})
        yield (
            f"| {key[0]} | `{key[1]}`, {key[2]} | {_mean(cell_rows, 'prior'):.3f} | "
            f"{f'{then} | ' if old else ''}{_mean(cell_rows, 'value'):.3f} | {gain} | "
            f"{' / '.join(verdicts)} |"
        )


def _grouped(rows: list[Row]) -> dict[tuple[str, str, str], list[Row]]:
    found: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["case"], row["attack"], row["adversary"]), []).append(row)
    return found


def _mean(rows: list[Row], name: str) -> float:
    return statistics.fmean(row[name] for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("cases", choices=sorted(CASES))
    parser.add_argument("runs", type=Path)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--beside", type=Path, help="findings of older attacks on the same runs")
    parser.add_argument("--method", default="", help="only cases whose method starts so")
    parser.add_argument("--only", nargs="+", default=attack_names(), help="only these attacks")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args()
    if not given.json.is_file():
        chosen = [case for case in CASES[given.cases] if case[0].startswith(given.method)]
        rows = list(measured(chosen, given.runs, tuple(given.seeds), tuple(given.only)))
        given.json.write_text(json.dumps(rows, indent=1))
    old = json.loads(given.beside.read_text()) if given.beside else []
    print("\n".join(table(json.loads(given.json.read_text()), old)))


if __name__ == "__main__":
    main()
