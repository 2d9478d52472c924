"""The remedies of an answer: the defences that the leaking attacks themselves name, with the
setting.

An attack says what stops it in clauses (`stopped_by="masks; noise on the rows; fewer rounds"`). A
clause that denies or limits itself ("masks do not", "masks in part") is no remedy. A remedy is
offered for a cell only if it stops every attack that leaks there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from audits.answer.model import Cell, Evidence, Level, Remedy, RunFacts, Twin
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.privacy import GATE_DEFENCE

LIMITED = re.compile(
    r"\b(do not|does not|hardly|neither|in part|still tells|and not the|hide whose|slow it)\b"
)
TWIN_ROUNDS = 20
"""The most rounds of a twin: enough for every attack, and minutes at most."""
EPSILON = 8
"""The epsilon of a first try."""


@dataclass(frozen=True)
class Kind:
    """A kind of remedy that a setting applies: the words by which a clause names it."""

    key: str
    words: str
    named_by: re.Pattern[str]


MASKS = Kind("masks", "secure aggregation: the server gets sums alone", re.compile(r"\bmasks\b"))
NOISE = Kind(
    "noise",
    "noise on what clients send",
    re.compile(r"\bnoise(?! on the (?:edges|answers))\b|\bDP-SGD\b"),
)
ROUNDS = Kind("rounds", "fewer rounds", re.compile(r"\bfewer rounds\b"))
KINDS = (MASKS, NOISE, ROUNDS)


def clauses_of(stopped_by: str) -> list[str]:
    """Return the clauses of an attack's `stopped_by` that name a remedy."""
    parts = [part.strip() for part in stopped_by.split(";")]
    return [part for part in parts if part and not LIMITED.search(part)]


def kinds_named(stopped_by: str) -> list[Kind]:
    """Return the kinds of remedies that the clauses name, each once."""
    return [kind for kind in KINDS if any(map(kind.named_by.search, clauses_of(stopped_by)))]


def other_clauses(stopped_by: str) -> list[str]:
    """Return the clauses that no setting applies."""
    return [
        clause
        for clause in clauses_of(stopped_by)
        if not any(kind.named_by.search(clause) for kind in KINDS)
    ]


def overrides_for(key: str, run: RunFacts) -> list[str]:
    """Return the settings that apply a remedy to a run, as `--set` takes them."""
    if key == ROUNDS.key:
        return [f"training.rounds={max(1, run.rounds // 4)}"]
    if key == MASKS.key:
        return ["privacy.secure_aggregation={}"]
    weights = [] if run.has_equal_weights else ["method.weighting=clients"]
    noise = {"mechanism": GATE_DEFENCE, "target_epsilon": EPSILON, "unit": "node"}
    if run.masks:  # which a whole `privacy` part would take off
        return [*weights, *(f"privacy.{name}={value}" for name, value in noise.items())]
    return [*weights, f"privacy={{{', '.join(f'{k}: {v}' for k, v in noise.items())}}}"]


def twin_config(config: RunConfig, key: str, run: RunFacts, root: Path) -> RunConfig:
    """Return the run's config with the remedy, and with few rounds."""
    rounds = min(config.training.rounds, TWIN_ROUNDS)
    changes = ["training.patience=null", f"training.rounds={rounds}", f"name={key}"]
    tree = config.model_dump(mode="json")
    tree["output"]["root"] = str(root)
    return parse_config(tree, [*changes, *overrides_for(key, run)])


def state_after(level: Level | None) -> str:
    """Return what a twin says of a cell: stopped, still leaks, or not known."""
    if level is None or level.is_unknown or level is Level.NO_ATTACK:
        return "not known"
    return "stopped" if level in (Level.NO_VIEW, Level.NOTHING) else "still leaks"


def setting_text(overrides: Sequence[str]) -> str:
    """Return overrides as they are typed."""
    quoted = [f"'{text}'" if re.search(r"[ {}]", text) else text for text in overrides]
    return " ".join(f"--set {text}" for text in quoted)


def make_remedies(
    leaks: Sequence[Cell], run: RunFacts, twins: Mapping[str, Twin]
) -> tuple[Remedy, ...]:
    """Return the remedies for the leaking cells, those with a setting first.

    twins  by key of a remedy: a shorter run with that remedy
    """
    remedies: list[Remedy] = []
    for kind in KINDS:
        stopped = [cell for cell in leaks if _stops_leaks(kind, cell)]
        if stopped and not _is_on(kind, run):
            setting = setting_text(overrides_for(kind.key, run)) if run.can_run_again else ""
            before = {code for remedy in remedies for code in remedy.codes}
            key = kind.key if run.can_run_again else ""
            remedy = _make_remedy(key, kind.words, setting, stopped, twins.get(kind.key))
            remedies.append(
                remedy.model_copy(update={"is_needed": not set(remedy.codes) <= before})
            )
    return (*remedies, *_without_setting(leaks, remedies, run))


def _is_on(kind: Kind, run: RunFacts) -> bool:
    return (kind is MASKS and bool(run.masks)) or (kind is NOISE and bool(run.noise))


def _leaking_evidence(cell: Cell) -> list[Evidence]:
    return [one for one in cell.evidence if one.level.is_leak]


def _stops_leaks(kind: Kind, cell: Cell) -> bool:
    leaking = _leaking_evidence(cell)
    return bool(leaking) and all(kind in kinds_named(one.stopped_by) for one in leaking)


def _without_setting(leaks: Sequence[Cell], found: Sequence[Remedy], run: RunFacts) -> list[Remedy]:
    """Return the remedies in words for cells that no setting helps: first what helps most cells."""
    helped = {code for remedy in found for code in remedy.codes}
    left = [cell for cell in leaks if cell.code not in helped and cell.best is not None]
    word_remedies = []
    while left:
        by_words: dict[str, list[Cell]] = {}
        for cell in left:
            for words in _words_for(cell, run):
                by_words.setdefault(words, []).append(cell)
        words, cells = max(by_words.items(), key=lambda item: len(item[1]))
        word_remedies.append(_make_remedy("", words, "", cells, None))
        left = [cell for cell in left if cell not in cells]
    return word_remedies


def _words_for(cell: Cell, run: RunFacts) -> list[str]:
    """Return what stops the best attack on a cell, in words. Noise that a run has can be larger."""
    assert cell.best is not None
    if clauses := other_clauses(cell.best.stopped_by):
        return clauses
    more_noise = _is_on(NOISE, run) and _stops_leaks(NOISE, cell)
    return ["a smaller epsilon (privacy.target_epsilon)" if more_noise else "no remedy is known"]


def _make_remedy(
    key: str, words: str, setting: str, cells: Sequence[Cell], twin: Twin | None
) -> Remedy:
    return Remedy(
        key=key,
        words=words,
        setting=setting,
        codes=tuple(cell.code for cell in cells),
        numbers=tuple(sorted(cell.number for cell in cells)),
        twin=twin,
        tried={cell.code: twin.levels.get(cell.code) if twin else None for cell in cells},
    )
