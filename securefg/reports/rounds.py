"""The curves over the rounds: accuracy, loss, epsilon where it is finite, bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from securefg.foundation.units import bytes_text, delta_text, epsilon_text, percent, significant
from securefg.reports.figures.canvas import Figure, LegendEntry
from securefg.reports.figures.charts import LineChart, Series, draw_lines, line_numbers
from securefg.reports.results import Results
from securefg.runs.observing import RoundReport

MAX_POINTS = 400


def curves(results: Results) -> tuple[Figure, ...]:
    """No figure at all where no round was finished."""
    if not results.rounds:
        return ()
    rounds = thinned(results.rounds, results.summary.best_round)
    costs = (_bytes(results, rounds), *_epsilons(results, rounds))
    # An aborted round repeats the scores of the round before, and the first has none to repeat.
    if all(one.aborted for one in results.rounds):
        return costs
    return (_accuracy(results, rounds), _loss(results, rounds), *costs)


def thinned(rounds: Sequence[RoundReport], best: int) -> tuple[RoundReport, ...]:
    """Evenly spaced rounds, at most about `MAX_POINTS`, with the best and the last one."""
    stride = -(-len(rounds) // MAX_POINTS)
    last = len(rounds) - 1
    return tuple(r for i, r in enumerate(rounds) if i % stride == 0 or i == last or r.round == best)


def drops(rounds: Sequence[RoundReport]) -> tuple[tuple[int, int], ...]:
    """(round, clients that dropped out since the round before); the metrics count all so far."""
    first = [(rounds[0].round, rounds[0].dropped)]
    later = [(b.round, b.dropped - a.dropped) for a, b in pairwise(rounds)]
    return tuple((number, count) for number, count in first + later if count > 0)


def _accuracy(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("validation", _scores(results, rounds, "val_accuracy"), 1, dashed=True),
        Series("test", _scores(results, rounds, "test_accuracy"), 2),
    )
    caption = "The test score is shown for the record; only validation chose the round."
    lost = drops(rounds)
    caption += " Crosses mark drop-outs." if lost else ""
    return _figure(results, rounds, "Accuracy", caption, series, _short_percent, lost=lost)


def _loss(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("validation", _scores(results, rounds, "val_loss"), 1, dashed=True),
        Series("training", _scores(results, rounds, "train_loss"), 3),
    )
    return _figure(results, rounds, "Loss", "Mean cross entropy per node.", series, significant)


def _scores(results: Results, rounds: Sequence[RoundReport], name: str) -> tuple[float | None, ...]:
    """Return the score of every round, None before the first round that was not aborted."""
    first = next(one.round for one in results.rounds if not one.aborted)
    return tuple(getattr(one, name) if one.round >= first else None for one in rounds)


def _bytes(results: Results, rounds: Sequence[RoundReport]) -> Figure:
    series = (
        Series("up", tuple(float(r.bytes_up) for r in rounds), 1),
        Series("down", tuple(float(r.bytes_down) for r in rounds), 2, dashed=True),
    )
    caption = "Encoded bytes so far, over all clients, envelopes included."
    return _figure(results, rounds, "Bytes sent", caption, series, bytes_text, from_zero=True)


def _epsilons(results: Results, rounds: Sequence[RoundReport]) -> list[Figure]:
    """A figure per unit, since the units lie orders of magnitude apart."""
    found = []
    for unit, claim in results.summary.epsilon.items():
        values = tuple(r.epsilon.get(unit) for r in rounds)
        if not any(values):
            continue
        series = (Series(f"epsilon per {unit}", values, 4 if unit == "row" else 3),)
        delta = delta_text(results.config.privacy.delta)
        caption = f"Of all releases so far, at delta {delta}: {claim.about(unit)}."
        if claim.not_covered:
            caption += f" Not covered: {'; '.join(claim.not_covered)}."
        if not results.summary.noise_protects:
            caption += " Void here: the noise was seeded."
        name = f"Epsilon per {unit}"
        found.append(_figure(results, rounds, name, caption, series, _epsilon, from_zero=True))
    return found


def _figure(
    results: Results,
    rounds: Sequence[RoundReport],
    name: str,
    caption: str,
    series: tuple[Series, ...],
    text: Callable[[float], str],
    from_zero: bool = False,
    lost: tuple[tuple[int, int], ...] = (),
) -> Figure:
    chart = LineChart(
        label=f"{name} by round. {_ends(rounds, series, text)}",
        rounds=tuple(r.round for r in rounds),
        series=series,
        text=text,
        best=results.summary.best_round,
        drops=lost,
        from_zero=from_zero,
    )
    legend = tuple(LegendEntry(s.name, s.style) for s in series)
    return Figure(name, caption, draw_lines(chart), legend, csv=line_numbers(chart))


def _ends(
    rounds: Sequence[RoundReport], series: Sequence[Series], text: Callable[[float], str]
) -> str:
    """What a screen reader says of the lines."""
    said = []
    for one in series:
        known = [(r.round, v) for r, v in zip(rounds, one.values, strict=True) if v is not None]
        if known:
            (first, low), (last, high) = known[0], known[-1]
            said.append(f"{one.name}: {text(low)} at round {first}, {text(high)} at round {last}.")
    return " ".join(said)


def _short_percent(share: float) -> str:
    return percent(share).replace(".0%", "%")


def _epsilon(value: float) -> str:
    text = epsilon_text(value)
    return text.rstrip("0").rstrip(".") if "." in text else text
