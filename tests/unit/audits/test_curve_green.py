"""A curve is green only where all that was asked for was measured: whole pages, no training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from audits.curves.collect import _leaks
from audits.curves.plan import Asked
from audits.curves.recommend import choose
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve.data import CurveData, CurvePoint, Leak, Limits, Series, Timing
from securefg.reports.curve.page import render_curve
from securefg.run.findings import Finding, Verdict
from securefg.run.summary import ClaimedEpsilon

SERIES = Series(name="s", method="m", dataset="d", clients=3, alone_accuracies=(0.3, 0.31, 0.29))
ATTACKS = ("membership_loss", "similar_links")
CLAIM = ClaimedEpsilon(
    epsilon=63.5,
    delta=1e-5,
    private=True,
    because=(),
    relation="removed or added",
    holders=18,
    num_units=600,
    not_covered=("validation labels, by which the kept round is chosen",),
)


def found_by(attacks: Sequence[str], seeds: int) -> list[list[Finding]]:
    """Audits of so many seeds by these attacks, none of which gains."""
    gain = Interval(value=0.0, low=-0.01, high=0.01)
    return [
        [
            Finding(
                adversary="server",
                attack=name,
                method="m",
                metric="AUC",
                unit="node",
                verdict=Verdict.NOT_DETECTED,
                because="no gain",
                value=gain,
                prior=gain,
                gain=gain,
                null=gain,
                null_at_chance=True,
            )
            for name in attacks
        ]
        for _ in range(seeds)
    ]


def point(leaks: tuple[Leak, ...], seeds: int = 3) -> CurvePoint:
    reached = tuple(0.7 + 0.01 * k for k in range(seeds))
    return CurvePoint(
        key="p",
        series="s",
        defence="local_gaussian",
        epsilon=4,
        unit="client",
        accuracy=interval(reached),
        accuracies=reached,
        no_skill=(0.2,) * seeds,
        leaks=leaks,
        claims={"node": CLAIM},
    )


def page(points: list[CurvePoint], series: Series = SERIES) -> str:
    limits = Limits(epsilon=8, leak_gain=0.05)
    data = CurveData(
        schema=1,
        name="made",
        seeds=3,
        limits=limits,
        series=(series,),
        points=tuple(points),
        choices=(choose(series, points, limits, "securefg curve own.yaml"),),
        settings="",
        versions={},
    )
    return render_curve(data, Timing(seconds={}, hardware={}))


def is_green(text: str) -> bool:
    return 'class="card met"' in text


def asked_and_found(attacks: Sequence[str], seeds: int = 3) -> tuple[Leak, ...]:
    return _leaks(found_by(attacks, seeds), Asked(ATTACKS, ("server",)))


def test_measured_whole_it_is_green_and_tells_the_nodes_claim() -> None:
    text = page([point(asked_and_found(ATTACKS))])
    assert is_green(text)
    assert "63.5 at delta 1e-5" in text
    assert "over up to 18 clients that hold it, 600 nodes in all" in text
    assert "validation labels, by which the kept round is chosen" in text


@pytest.mark.parametrize("gone", ATTACKS)
def test_an_attack_removed_turns_the_page_not_green(gone: str) -> None:
    text = page([point(asked_and_found([name for name in ATTACKS if name != gone]))])
    assert not is_green(text)
    assert "it was asked for and has no finding" in text


def test_an_attack_missing_in_one_seed_turns_the_page_not_green() -> None:
    audits = found_by(ATTACKS, 3)
    audits[1] = audits[1][:1]
    assert not is_green(page([point(_leaks(audits, Asked(ATTACKS, ("server",))))]))


def test_a_method_removed_turns_the_page_not_green() -> None:
    """Its runs fail, and so do those of training alone: nothing is left to recommend."""
    lost = CurvePoint(key="p", series="s", defence="local_gaussian", epsilon=4, failed="no method")
    assert not is_green(page([lost]))
    lonely = SERIES.model_copy(update={"alone_accuracies": ()})
    assert not is_green(page([point(asked_and_found(ATTACKS))], lonely))


@pytest.mark.parametrize("seeds", [1, 2])
def test_few_seeds_are_never_green(seeds: int) -> None:
    text = page([point(asked_and_found(ATTACKS, seeds), seeds)])
    assert not is_green(text)
    assert "--seeds 3" in text


def test_the_price_is_an_interval_paired_by_seed() -> None:
    plain = point(asked_and_found(ATTACKS)).model_copy(
        update={"key": "n", "defence": "none", "epsilon": None, "accuracies": (0.8, 0.81, 0.83)}
    )
    text = page([plain, point(asked_and_found(ATTACKS))])
    assert is_green(text)
    assert "(95%, paired by seed)" in text
    found = interval([-10.0, -10.0, -11.0])
    assert f"{found.low:+.1f} to {found.high:+.1f}" in text
