"""Measure every method and baseline, plain, masked and noised, and write docs/research/matrix.md.

    python benchmarks/matrix.py measure RUNS [--method NAME] [--anew]    runs, audits, stored rows
    python benchmarks/matrix.py page                                     the page from the rows

A row of benchmarks/matrix_rows.json is one run: its config's hash and the findings of its attacks.
`measure` goes on where it stopped, and leaves out rows of the same config. The graphs are
synthetic, and the runs are short, since attacks need few rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attacks import attack_names, get_attack
from audits.findings.record import Finding
from audits.games import is_of_recordings
from audits.plan import Plan
from audits.run import audit
from securefg.foundation.errors import SecurefgError
from securefg.protocol.secrets import HOLDER, IDENTITY, LABEL, LINK, MEMBER, RECORD, UPLOAD, Secret
from securefg.runs import runner
from securefg.settings.config import load_config
from securefg.sweep.cache import find_run

HERE = Path(__file__).parent
STORE = HERE / "matrix_rows.json"
PAGE_FILE = HERE.parent / "docs" / "research" / "matrix.md"
COMMAND = "`python benchmarks/matrix.py page`"
SEEDS = (0, 1, 2)
LONGEST_REASON = 150

QUESTIONS: dict[str, tuple[Secret, ...]] = {
    "Membership": (MEMBER,),
    "Inversion": (RECORD, IDENTITY, UPLOAD),
    "Links": (LINK,),
    "Labels": (LABEL,),
    "Holders": (HOLDER,),
}
ASKED = {
    "Membership": "Was a node's label, or a sample, trained on?",
    "Inversion": "What does a record or a single upload say, or which listed record is whose?",
    "Links": "Who is connected to whom?",
    "Labels": "Which label does a node have on record?",
    "Holders": "Which client holds a node?",
}
OF_ONE_NODE = {"gradient_labels": "Labels"}
"""Attacks on what a client is like that tell of a node, where a client is one node."""
ADVERSARIES = {
    "server": "the server",
    "client": "another client",
    "outsider": "recipient of the release",
}


@dataclass(frozen=True)
class Case:
    """A line of the page: a method under a defence, as a config and what is set in it."""

    method: str
    defence: str
    config: str
    settings: tuple[str, ...]


SHORT = ("training.patience=null", "output.transcript_every=1")
FIVE = (*SHORT, "training.rounds=5")
NOISE = "privacy={mechanism: local_gaussian, target_epsilon: 8, unit: %s, clip_l2: 1.0}"
BY_ROW, BY_CLIENT, BARE = NOISE % "row", NOISE % "client", "privacy={}"
MASKED = "privacy={secure_aggregation: {}}"
OPEN_MASKED = "privacy={secure_aggregation: {malicious: false}}"
GRAPH = "data={name: csbm, csbm: {task: dnc, num_nodes: 600, degree: 10, graph_signal: 2, mu: 6}"
SMALL, FOLDS = f"{GRAPH}}}", f"{GRAPH}, split: {{kind: folds}}}}"
PLAIN, MASKS, ROW_NOISE = "plain", "masked", "noised, epsilon 8 per row"
CLIENT_NOISE, NODE_NOISE = "noised, epsilon 8 per client", "noised, epsilon 8 per node"


def _three(
    method: str, config: str, common: Sequence[str], *defences: tuple[str, Sequence[str]]
) -> list[Case]:
    return [Case(method, name, config, (*common, *own)) for name, own in defences]


FEDGL = (*SHORT, "training.rounds=12", "method.weighting=clients")
NO_PSEUDO = (*FEDGL, "method.pseudo_labels=false", "method.pseudo_graph=false")
FEDAVG = (*FIVE, "method.weighting=clients")
SAMPLES = (*SHORT, "training.rounds=20")
DP_SGD = "training.dp_sgd={noise_multiplier: 8, clip_l2: 1.0, sampling: 0.5, num_samples: 10}"
PUBLIC = (*FIVE, FOLDS)
TOGETHER = ("method.alignment=reference", "method.start=shared")
GAT = (*SHORT, FOLDS, "training.rounds=10", "training.local_epochs=10")
SUMS = ("output.transcript_every=1", SMALL)
ALONE = (*SHORT, SMALL, "training.rounds=20")
USERS = (*FIVE, "method.average=false", "method.smoothness=1")
AVERAGED = (*FIVE, "method.average=true")
CASES = (
    *_three(
        "FedGL",
        "quickstart",
        FEDGL,
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (ROW_NOISE, (BY_ROW,)),
    ),
    *_three(
        "GFL-APPNP, nodes (DNC)",
        "gfl_dnc_private",
        (*FIVE, "method.jacobian=full"),
        (PLAIN, (BARE,)),
        (MASKS, ("method.upload=model", OPEN_MASKED)),
        (CLIENT_NOISE, ()),
    ),
    *_three(
        "GFL-APPNP, samples (SC)",
        "gfl_sc",
        SAMPLES,
        (PLAIN, ()),
        (MASKS, (OPEN_MASKED,)),
        (CLIENT_NOISE, ("method.upload=update", BY_CLIENT)),
    ),
    *_three(
        "nFedGNN",
        "nfedgnn_cnfgnn",
        USERS,
        (PLAIN, ()),
        (
            MASKS,
            (
                "method.upload=neighbourhood_sums",
                "method.smoothness=0",
                "method.missing=zero",
                OPEN_MASKED,
            ),
        ),
        (CLIENT_NOISE, (BY_CLIENT,)),
    ),
    *_three(
        "PPFL-GNN, DeepWalk",
        "ppfl_deepwalk_citeseer_private",
        PUBLIC,
        (PLAIN, (BARE,)),
        (MASKS, (*TOGETHER, OPEN_MASKED)),
        (ROW_NOISE, ()),
    ),
    *_three(
        "PPFL-GNN, GAT",
        "ppfl_gat_cora",
        GAT,
        (PLAIN, ()),
        (MASKS, (*TOGETHER, OPEN_MASKED)),
        (ROW_NOISE, (BY_ROW,)),
    ),
    *_three(
        "FedGL without pseudo labels and graph (Federated)",
        "quickstart",
        NO_PSEUDO,
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (CLIENT_NOISE, ("method.upload=update", BY_CLIENT)),
    ),
    *_three(
        "FedAvg of GraphSAGE",
        "fedavg_graphsage_csbm",
        FEDAVG,
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (CLIENT_NOISE, ("method.upload=update", BY_CLIENT)),
    ),
    *_three(
        "FedMLP, samples (SC)",
        "fedmlp_sc",
        SAMPLES,
        (PLAIN, ()),
        (MASKS, (OPEN_MASKED,)),
        ("noised, DP-SGD, z 8", ("method.upload=update", "method.batch_size=null", DP_SGD)),
    ),
    *_three(
        "CNFGNN",
        "nfedgnn_cnfgnn",
        AVERAGED,
        (PLAIN, ()),
        (MASKS, (OPEN_MASKED,)),
        (CLIENT_NOISE, (BY_CLIENT,)),
    ),
    *_three(
        "two_sums",
        "private_cora",
        SUMS,
        (PLAIN, (BARE,)),
        (MASKS, (MASKED,)),
        (NODE_NOISE, ()),
    ),
    *_three(
        "every client alone (Local)",
        "quickstart",
        (*SHORT, "method={name: alone}", "training.rounds=12"),
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (ROW_NOISE, (BY_ROW,)),
    ),
    *_three(
        "one party with the whole graph (Centralized)",
        "gcn_dnc",
        ("training.rounds=20",),
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (ROW_NOISE, (BY_ROW,)),
    ),
    *_three(
        "MLPs, every client alone",
        "mlps_sc",
        ("training.rounds=20",),
        (PLAIN, ()),
        (MASKS, (MASKED,)),
        (CLIENT_NOISE, (BY_CLIENT,)),
    ),
)
Row = dict[str, Any]

# ---------------------------------------------------------------------------------- measurement


def key_of(case: Case, seed: int) -> str:
    """Return the key of a row."""
    return f"{case.method}; {case.defence}; seed {seed}"


def attacks_asked() -> tuple[str, ...]:
    """Return the attacks of the page's questions, but those on other frameworks' recordings."""
    asked = {secret for secrets in QUESTIONS.values() for secret in secrets}
    questions = {name: get_attack(name).question for name in attack_names()}
    return tuple(
        name
        for name, question in questions.items()
        if (name in OF_ONE_NODE or question.secret in asked) and not is_of_recordings(question)
    )


def question_of(attack: str) -> str:
    """Return the page's question that an attack answers."""
    secret = get_attack(attack).question.secret
    if attack in OF_ONE_NODE:
        return OF_ONE_NODE[attack]
    return next(name for name, secrets in QUESTIONS.items() if secret in secrets)


def measure(case: Case, seed: int, root: Path, anew: bool, kept: Row | None) -> Row | None:
    """Return the row of a run, or None if the stored row has this config and every attack."""
    settings = (*case.settings, f"seed={seed}", f"output.root={root}")
    try:
        config = load_config(HERE.parent / "configs" / f"{case.config}.yaml", settings)
        kept_findings = (
            kept["found"] if kept and not anew and kept.get("config") == config.hash else []
        )
        left = tuple(sorted(set(attacks_asked()) - {one["attack"] for one in kept_findings}))
        if not left:
            return None
        run = find_run(root, config.hash)
        if run is None or not run.finished:
            run = runner.start(config, fresh=True).folder
    except SecurefgError as error:
        return {"refused": " ".join(str(error).split())}
    result = audit(run.path, Plan(only=left), controls=root / "controls")
    kept_findings = kept_findings + [
        told(finding) for finding in result.findings if finding.attack in left
    ]
    return {"config": config.hash, "found": sorted(kept_findings, key=json.dumps)}


def told(finding: Finding) -> Row:
    """Return what the page tells of a finding."""
    about: Row = {"attack": finding.attack, "adversary": finding.adversary.partition(":")[0]}
    if finding.gain is None or finding.value is None or finding.prior is None:
        return about | {"reason": "" if finding.unmet else finding.because}
    gain = finding.gain
    figures = {"value": finding.value.value, "prior": finding.prior.value}
    rounded = {name: round(value, 4) for name, value in figures.items()}
    interval = [round(gain.value, 4), round(gain.low, 4), round(gain.high, 4)]
    return about | rounded | {"gain": interval, "verdict": finding.verdict.value}


def measure_all(root: Path, store: Path, method: str, seeds: Iterable[int], anew: bool) -> None:
    """Measure rows one after the other, and store each."""
    for seed in seeds:
        for case in CASES:
            if not case.method.startswith(method):
                continue
            began, key = time.process_time(), key_of(case, seed)
            row = measure(case, seed, root, anew, load_rows(store).get(key))
            if row is not None:
                store_row(store, key, row)
                print(f"{key}: {time.process_time() - began:.0f} CPU s", flush=True)


def load_rows(store: Path = STORE) -> dict[str, Row]:
    """Return the stored rows by key."""
    found: dict[str, Row] = json.loads(store.read_text()) if store.is_file() else {}
    return found


def store_row(store: Path, key: str, row: Row) -> None:
    """Write the rows with this row among them."""
    rows = load_rows(store) | {key: row}
    beside = store.with_suffix(".part")
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(rows[k])}" for k in sorted(rows))
    beside.write_text(f"{{\n{lines}\n}}\n")
    os.replace(beside, store)


# ----------------------------------------------------------------------------------------- page


def cell(case: Case, question: str, adversary: str, rows: dict[str, Row], notes: list[str]) -> str:
    """Return the strongest attack's gain, or why there is none."""
    cell_rows = [rows[key] for seed in SEEDS if (key := key_of(case, seed)) in rows]
    if not cell_rows:
        return noted("the run was not measured", notes)
    if refused := [row["refused"] for row in cell_rows if "refused" in row]:
        return noted(f"refused before the start: {refused[0]}", notes)
    by_attack: dict[str, list[Row]] = {}
    reasons: list[Row] = []
    for cell_finding in (found for row in cell_rows for found in row["found"]):
        if question_of(cell_finding["attack"]) != question:
            continue
        if "gain" in cell_finding and cell_finding["adversary"] == adversary:
            by_attack.setdefault(cell_finding["attack"], []).append(cell_finding)
        elif "reason" in cell_finding and cell_finding["adversary"] in (adversary, "-"):
            reasons.append(cell_finding)
    if by_attack:
        return measured_cell(by_attack)
    if adversary == "client" and is_measured(cell_rows, question, "outsider"):
        return "as a recipient of the release"
    return silent_cell(question, adversary, reasons, notes)


def is_measured(rows: list[Row], question: str, adversary: str) -> bool:
    """Return whether any row has a figure of this adversary."""
    found = (one for row in rows for one in row["found"] if one["adversary"] == adversary)
    return any("gain" in one and question_of(one["attack"]) == question for one in found)


def measured_cell(by_attack: dict[str, list[Row]]) -> str:
    """Return the attack with the largest mean gain: its mean, the ends of all seeds' intervals."""
    means = {name: _mean([f["gain"][0] for f in found]) for name, found in by_attack.items()}
    best = max(means, key=lambda name: (means[name], name))
    found = by_attack[best]
    low, high = min(f["gain"][1] for f in found), max(f["gain"][2] for f in found)
    reached, prior = _mean([f["value"] for f in found]), _mean([f["prior"] for f in found])
    verdicts = {f["verdict"] for f in found}
    verdict = verdicts.pop() if len(verdicts) == 1 else "differs"
    words = verdict.lower().replace("_", " ")
    return (
        f"{means[best]:+.3f} [{low:+.3f}, {high:+.3f}], {reached:.3f} for {prior:.3f}, "
        f"{words} (`{best}`)"
    )


def silent_cell(question: str, adversary: str, reasons: list[Row], notes: list[str]) -> str:
    """Return that nothing is visible, or why what is visible was not attacked."""
    able = {
        name
        for name in attacks_asked()
        if question_of(name) == question and adversary in get_attack(name).adversaries
    }
    if not able:
        return noted(f"no known attack reads {question.lower()} from this place", notes)
    tried = [f["reason"] for f in reasons if f["attack"] in able and f["reason"]]
    if tried:
        return noted(min(tried), notes)
    return "not visible"


def noted(reason: str, notes: list[str]) -> str:
    """Return the number of a note with this reason."""
    short = reason if len(reason) <= LONGEST_REASON else f"{reason[:LONGEST_REASON].rstrip()} …"
    if short not in notes:
        notes.append(short)
    return f"note {notes.index(short) + 1}"


def seeds_in_words(least: int, most: int) -> str:
    """Return how many seeds the lines have, in words."""
    if least == most:
        return f"Every line has {most} seeds" if most > 1 else "Every line has one seed"
    return f"A line has {least} to {most} seeds"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def page(rows: dict[str, Row]) -> Iterator[str]:
    """Yield the lines of the page."""
    seeds = max((sum(key_of(case, s) in rows for s in SEEDS) for case in CASES), default=0)
    least = min((sum(key_of(case, s) in rows for s in SEEDS) for case in CASES), default=0)
    yield from (
        "# Every method against every question",
        "",
        "*For everybody who asks what a method shows to whom, with and without a defence.*",
        "",
        f"{COMMAND} writes this page from `benchmarks/matrix_rows.json`, and",
        "`python benchmarks/matrix.py measure RUNS` measures the rows and resumes after a stop.",
        f"{seeds_in_words(least, seeds)}. The graphs are synthetic and small, and the",
        "runs are short. Masked is secure aggregation of everything of which the server needs a",
        "sum.",
        "",
        "A cell has the strongest of all shipped attacks: the mean gain over the prior, the lowest",
        "and the highest end of any seed's 95 % interval, then the metric reached for the prior's,",
        "the verdict, and the attack. The best of several attacks is a little too high where none",
        "of them finds anything. *Not visible* says that the adversary's view holds nothing that",
        "any of these attacks reads. Another client is a recipient of the release too, so its",
        "column is at least as bad as the last. Notes are below the tables.",
        "",
        "More about single attacks: [all attacks](../reference/attacks.md),",
        "[measured attacks](attacks_measured.md), [membership](membership.md).",
    )
    notes: list[str] = []
    for question, asked in ASKED.items():
        yield from ("", f"## {question}", "", asked, "")
        yield f"| method | defence | {' | '.join(ADVERSARIES.values())} |"
        yield f"|---|---|{'---|' * len(ADVERSARIES)}"
        for case in CASES:
            cells = (cell(case, question, kind, rows, notes) for kind in ADVERSARIES)
            yield f"| {case.method} | {case.defence} | {' | '.join(cells)} |"
    yield from ("", "## Notes", "")
    yield from (f"{number}. {note}" for number, note in enumerate(notes, 1))
    yield from ("", "Next: [measured attacks](attacks_measured.md)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("page", help="write the page from the stored rows")
    runs = commands.add_parser("measure", help="run and audit, and store the rows")
    runs.add_argument("runs", type=Path, help="where the runs are kept")
    runs.add_argument("--method", default="", help="only methods whose name starts so")
    runs.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    runs.add_argument("--rows", type=Path, default=STORE, help="the file to write")
    runs.add_argument("--anew", action="store_true", help="measure stored rows again")
    given = parser.parse_args()
    if given.command == "page":
        PAGE_FILE.write_text("\n".join(page(load_rows())) + "\n")
    else:
        measure_all(given.runs, given.rows, given.method, given.seeds, given.anew)


if __name__ == "__main__":
    main()
