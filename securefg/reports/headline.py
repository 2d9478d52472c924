"""The head of the page: what came out, what it cost, and the privacy verdict for every unit."""

from __future__ import annotations

from dataclasses import dataclass

from securefg.foundation.units import (
    bytes_text,
    number,
    percent,
    plural,
    seconds_text,
)
from securefg.reports.results import Results
from securefg.reports.verdicts import Verdict, list_verdicts


@dataclass(frozen=True)
class Tile:
    """A figure of the head, with its name and a note."""

    name: str
    value: str
    note: str


@dataclass(frozen=True)
class Headline:
    """A head of a page. `classes` has the scores of every class."""

    title: str
    method: str
    dataset: str
    about: str
    accuracy: str
    definition: str
    tiles: tuple[Tile, ...]
    verdicts: tuple[Verdict, ...]
    notices: tuple[tuple[str, str], ...]
    classes: tuple[tuple[str, str, str, str, str], ...] = ()


def make_headline(results: Results) -> Headline:
    """Sum up a finished run for the head of its page."""
    summary = results.summary
    return Headline(
        title=summary.name,
        method=summary.method,
        dataset=summary.dataset,
        about=results.method.summary,
        accuracy=percent(summary.test_accuracy),
        definition=_score_definition(results),
        tiles=_make_tiles(results),
        verdicts=list_verdicts(results),
        notices=_list_notices(results),
        classes=class_lines(results),
    )


def _score_definition(results: Results) -> str:
    if all(one.aborted for one in results.rounds):
        return "No round was finished, so there is no model to score."
    kept = _monitored_words(results)
    best = f"at round {results.summary.best_round:,}, the best by validation {kept}"
    if results.method.make_evaluator is None:
        return (
            f"Every party's own model on its own test nodes, {best}; pooled, so that "
            "a node which two parties hold counts twice."
        )
    return (
        f"The global model {best}, on the test nodes of the union graph: "
        "the graph that all clients hold together."
    )


def _monitored_words(results: Results) -> str:
    """Return the validation score by which the kept model was chosen, in words."""
    monitor = results.summary.monitor or results.config.training.monitor
    return "accuracy" if monitor == "either" else monitor.removeprefix("val_").replace("_", " ")


def _class_tiles(results: Results) -> list[Tile]:
    """Return scores of the test nodes that a rare class does not hide in, and the majority's
    accuracy."""
    test_scores = results.summary.test_scores
    if test_scores is None:
        return []
    names = {
        "Balanced accuracy": test_scores.balanced_accuracy,
        "Macro F1": test_scores.macro_f1,
        "ROC AUC": test_scores.roc_auc,
        "Average precision": test_scores.average_precision,
    }
    tiles = [
        Tile(name, percent(value), "test nodes")
        for name, value in names.items()
        if value is not None
    ]
    note = "accuracy of always naming the most frequent class"
    if test_scores.majority is None:
        return tiles
    return [*tiles, Tile("Majority class", percent(test_scores.majority), note)]


def class_lines(results: Results) -> tuple[tuple[str, str, str, str, str], ...]:
    """Return per class: test nodes, recall, precision, F1."""
    found = results.summary.test_scores
    classes = enumerate(found.per_class) if found else ()
    return tuple(
        (str(k), number(one.count), percent(one.recall), percent(one.precision), percent(one.f1))
        for k, one in classes
    )


def _make_tiles(results: Results) -> tuple[Tile, ...]:
    summary, up, down = results.summary, results.summary.bytes.up, results.summary.bytes.down
    planned = results.config.training.rounds
    tiles = [
        Tile("Validation accuracy", percent(summary.val_accuracy), f"round {summary.best_round:,}"),
        Tile("Rounds", number(summary.rounds), f"of {planned:,}; {_stop_words(results)}"),
        Tile("Clients", number(results.partition.num_clients), _drop_words(summary.dropped)),
        Tile("Sent up", bytes_text(up.total), f"{bytes_text(up.envelope)} of it envelope"),
        Tile("Sent down", bytes_text(down.total), f"{bytes_text(down.envelope)} of it envelope"),
        Tile("Time", seconds_text(summary.seconds), f"on {summary.device}, {summary.engine}"),
    ]
    if summary.local_test_accuracy and summary.local_test_accuracy.pooled is not None:
        note = f"mean of clients {percent(summary.local_test_accuracy.mean_of_clients)}"
        pooled = percent(summary.local_test_accuracy.pooled)
        tiles.insert(1, Tile("On clients' own test nodes", pooled, note))
    return (*tiles[:1], *_class_tiles(results), *tiles[1:])


def _stop_words(results: Results) -> str:
    if results.summary.stopped == "early stopping":
        patience = results.config.training.patience
        return f"early stopping: {patience} rounds without a better validation score"
    return results.summary.stopped


def _drop_words(dropped: int) -> str:
    return f"{plural(dropped, 'drop-out')}" if dropped else "no drop-outs"


def _list_notices(results: Results) -> tuple[tuple[str, str], ...]:
    """Return (title, text) of what a reader must not miss."""
    notices = []
    if not results.summary.noise_protects:
        notices.append(
            (
                "Seeded noise does not protect",
                "privacy.noise_rng is seeded: whoever knows the seed can subtract the noise. "
                "Use this run to reproduce or to test, never as a private release.",
            )
        )
    scores = results.summary.test_scores
    majority = scores.majority if scores else None
    if majority is not None and (results.summary.test_accuracy or 0.0) <= majority + 1e-9:
        notices.append(
            (
                "No better than naming one class",
                f"Always naming the most frequent class reaches {percent(majority)} of the "
                "test nodes. Read the balanced accuracy and the figures by class.",
            )
        )
    if results.summary.attempts > 1:
        notices.append(
            (f"This run took {results.summary.attempts} attempts", _resumed_words(results))
        )
    if results.traffic.damage:
        notices.append(("The transcript is not whole", results.traffic.damage))
    return tuple(notices)


def _resumed_words(results: Results) -> str:
    after = " and ".join(number(last) for last in results.resumed_after)
    again = (
        "Noise was drawn afresh, so rounds that were lost and repeated are on the books twice."
        if any(b.mechanism.noise_multiplier for b in results.booked)
        and results.config.privacy.noise_rng == "system"
        else "A repeated round sent the same bytes again and is on the books once."
    )
    return f"It was taken up again after round {after}. {again}"
