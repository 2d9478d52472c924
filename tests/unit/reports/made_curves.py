"""Curves made up for tests of their page: all that a sweep can come to, and nothing trained."""

from __future__ import annotations

from securefg.foundation.interval import Interval
from securefg.reports.curve_data import (
    Choice,
    CurveData,
    CurvePoint,
    Leak,
    Limits,
    RunRef,
    Series,
    Timing,
)

ATTACKS = (
    ("similar_links", "server", "AUC over pairs of one client's nodes", "edge", 0.5),
    ("training_labels", "server", "share of training labels guessed", "label of a node", 0.7),
    ("membership_loss", "client:3", "AUC over training and test nodes", "node", 0.5),
    ("row_sizes", "client:1,5", "number of uploads that follow from sums", "upload", 0.0),
    ("membership_loss", "outsider", "AUC over training and test nodes", "node", 0.5),
)
VIOLATION = "measured lower bound 9.1 is above the claimed 4 <b>at 95 %</b>"


def around(value: float, reach: float = 0.03) -> Interval:
    return Interval(value=value, low=value - reach, high=value + reach)


def leaks(strength: float) -> tuple[Leak, ...]:
    """Gains that grow with `strength`, 0 to 1; the last attack never gets anywhere."""
    leak_list = []
    for index, (attack, adversary, metric, unit, prior) in enumerate(ATTACKS):
        gain = strength * (0.45 - 0.1 * index) * (1 - prior) * 2
        common = {"attack": attack, "adversary": adversary, "metric": metric, "unit": unit}
        if index == len(ATTACKS) - 1:
            leak_list.append(Leak(**common, verdict="INCONCLUSIVE", because="no positive control"))
            continue
        verdict = "LEAK" if gain > 0.05 else "NOT_DETECTED"
        leak_list.append(
            Leak(
                **common,
                verdict=verdict,
                because=f"{prior + gain:.3f}, {gain:+.3f} over the prior",
                value=around(prior + gain),
                prior=prior,
                gain=around(gain),
                null=around(0.0, 0.02 + 0.01 * index),
            )
        )
    return tuple(leak_list)


def point(
    series: str, defence: str, epsilon: float | None, number: int, **more: object
) -> CurvePoint:
    strength = 1.0 if epsilon is None else epsilon / (epsilon + 30)
    shown = "" if epsilon is None else f" ε={epsilon:g}"
    accuracy = 0.45 + 0.4 * strength - 0.02 * number % 0.05
    filled: dict[str, object] = {
        "accuracy": around(accuracy, 0.04),
        "accuracies": (accuracy - 0.02, accuracy, accuracy + 0.02),
        "leaks": leaks(strength * (0.6 if defence in ("secagg", "distributed_discrete") else 1.0)),
        "epsilon_claimed": epsilon,
        "epsilon_lower": None if epsilon is None else min(epsilon * 0.9, 40.0),
        "bytes_up": 2_000_000 + 300_000 * number,
        "bytes_down": 60_000_000,
        "runs": tuple(
            RunRef(folder=f"made-s{seed}-{number:02d}", seed=seed, config_hash=f"{number:012x}")
            for seed in range(3)
        ),
    }
    return CurvePoint(
        key=f"{series} · {defence}{shown}",
        series=series,
        defence=defence,
        epsilon=epsilon,
        unit="" if epsilon is None else "row",
        **{**filled, **more},  # type: ignore[arg-type]
    )


def failed_point(series: str, defence: str, epsilon: float, reason: str) -> CurvePoint:
    return CurvePoint(
        key=f"{series} · {defence} ε={epsilon:g}",
        series=series,
        defence=defence,
        epsilon=epsilon,
        unit="row",
        failed=reason,
    )


def made_curve(limits: Limits | None = None) -> tuple[CurveData, Timing]:
    """Two series, four adversaries, a violation, failed points, one series that meets no limit."""
    first, second = "FedGL on Cora", "nFedGNN on <CiteSeer> & co"
    points = [
        point(first, "none", None, 1),
        point(first, "secagg", None, 2),
        *(point(first, "local_gaussian", e, 3 + i) for i, e in enumerate((1.0, 8.0, 64.0))),
        point(first, "distributed_discrete", 4.0, 7, epsilon_lower=9.1, violations=(VIOLATION,)),
        point(first, "distributed_discrete", 64.0, 8, epsilon_lower=0.0),
        failed_point(first, "distributed_discrete", 512.0, "RuntimeError: <out> of memory"),
        point(second, "none", None, 9),
        point(second, "dp_sgd", 8.0, 10),
    ]
    limits = limits if limits is not None else Limits(epsilon=8, leak_gain=0.3)
    data = CurveData(
        schema=2,
        name="curve_made",
        seeds=3,
        limits=limits,
        series=(
            Series(
                name=first,
                method="fedgl",
                dataset="cora",
                clients=6,
                centralised=around(0.9, 0.01),
                alone=around(0.6, 0.01),
            ),
            Series(name=second, method="nfedgnn", dataset="citeseer", clients=3327),
        ),
        points=tuple(points),
        choices=(
            Choice(series=first, point=points[3].key, words="local_gaussian at epsilon 8"),
            Choice(
                series=second,
                point=None,
                words="no setting meets the limits; dp_sgd at epsilon 8 comes nearest: "
                "membership_loss could not be measured",
            ),
        ),
        settings="name: curve_made\nlimits:\n  epsilon: 8\n",
        versions={"securefg": "0.1.0", "python": "3.11"},
    )
    seconds = {p.key: 10.0 + i for i, p in enumerate(points) if not p.failed}
    return data, Timing(seconds=seconds, hardware={"processor": "x86_64", "cores": "2"})


def bare_curve() -> tuple[CurveData, Timing]:
    """One series, one point, one seed, no limits, no attack, no levels."""
    only = point(
        "tiny",
        "none",
        None,
        1,
        leaks=(),
        accuracies=(0.5,),
        accuracy=around(0.5, 0.0),
        bytes_up=None,
        bytes_down=None,
    )
    only = only.model_copy(update={"runs": only.runs[:1]})
    data = CurveData(
        schema=2,
        name="bare",
        seeds=1,
        limits=Limits(),
        series=(Series(name="tiny", method="fedgl", dataset="csbm", clients=2),),
        points=(only,),
        choices=(Choice(series="tiny", point=only.key, words="none"),),
        settings="name: bare\n",
        versions={},
    )
    return data, Timing(seconds={}, hardware={})


def lost_curve() -> tuple[CurveData, Timing]:
    """All points failed."""
    data, timing = bare_curve()
    gone = failed_point("tiny", "local_gaussian", 4.0, "not run yet")
    choice = Choice(series="tiny", point=None, words="no point was run to its end")
    return data.model_copy(update={"points": (gone,), "choices": (choice,)}), timing
