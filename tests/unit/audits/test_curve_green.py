"""A curve is green only where all that was asked for was measured: whole pages, no training."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from audits.curves.collect import _pool_leaks
from audits.curves.page import render_curve
from audits.curves.plan import Asked
from audits.curves.recommend import choose_point
from audits.findings.record import Finding, Verdict
from securefg.foundation.interval import Interval, interval
from securefg.reports.curve_data import CurveData, CurvePoint, Leak, Limits, Series, Timing
from securefg.runs.summary import ClaimedEpsilon

SERIES = Series(name="s", method="m", dataset="d", clients=3)
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
                positive=Interval(value=0.4, low=0.3, high=0.5),
                floor=0.1,
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
        alone_accuracies=(0.3, 0.31, 0.29)[:seeds],
        made_by=("0.1",),
        default_leaks=(),
        leaks=leaks,
        claims={"node": CLAIM, "client": CLAIM.model_copy(update={"epsilon": 4.0})},
    )


def page(points: list[CurvePoint], series: Series = SERIES) -> str:
    limits = Limits(epsilon=8, leak_gain=0.05)
    data = CurveData(
        schema=2,
        name="made",
        seeds=3,
        limits=limits,
        series=(series,),
        points=tuple(points),
        choices=(choose_point(series, points, limits, "securefg curve own.yaml"),),
        settings="",
        versions={},
    )
    return render_curve(data, Timing(seconds={}, hardware={}))


def is_green(text: str) -> bool:
    return 'class="card met"' in text


def asked_and_found(attacks: Sequence[str], seeds: int = 3) -> tuple[Leak, ...]:
    return _pool_leaks(found_by(attacks, seeds), Asked(ATTACKS, ("server",)))


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
    assert not is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ("server",))))]))


def test_a_method_removed_turns_the_page_not_green() -> None:
    """Its runs fail, and so do those of training alone: nothing is left to recommend."""
    lost = CurvePoint(key="p", series="s", defence="local_gaussian", epsilon=4, failed="no method")
    assert not is_green(page([lost]))
    lonely = point(asked_and_found(ATTACKS)).model_copy(update={"alone_accuracies": ()})
    assert not is_green(page([lonely]))


def test_gain_of_a_weak_measurement_is_called_found_and_not_on_the_front() -> None:
    """A weak attack gains least; the reader who looks for the smallest gain must not find that."""
    unread = Leak(
        attack="unread_field",
        adversary="server",
        metric="-",
        unit="-",
        verdict="INCONCLUSIVE",
        because="no attack reads it",
    )
    whole = point(asked_and_found(ATTACKS)).model_copy(update={"epsilon": 64.0})
    part = whole.model_copy(
        update={"key": "q", "defence": "secagg", "leaks": (*whole.leaks[:1], unread)}
    )
    assert '<td class="n">+0.000, up to' in page([whole])
    assert "On the front: nothing." not in page([whole])
    assert '<td class="n">+0.000 found' in page([part])
    assert "On the front: nothing." in page([part])


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
    found = interval([-10.0, -10.0, -11.0])
    spread = f"{found.low:+.1f} to {found.high:+.1f}".replace("-", "−")
    assert f"({spread} at 95%, paired by seed)" in text


def _with(*findings: Finding) -> tuple[Leak, ...]:
    """All that was asked for holds in three seeds; the last has these findings too."""
    audits = found_by(ATTACKS, 3)
    audits[-1] += findings
    return _pool_leaks(audits, Asked(ATTACKS, ("server",)))


def _promise(attack: str, **changes: object) -> Finding:
    bare = Finding(
        adversary="server",
        attack=attack,
        method="m",
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because="the noise is not of the claimed law",
    )
    return bare.model_copy(update=changes)


@pytest.mark.parametrize(
    "unknown",
    [
        _promise("mechanism_whole", estimator="law"),
        _promise("mechanism_canary", estimator="gdp", because="at most 55 could be shown"),
        _promise("integrity", failed=True, because="it failed: OSError"),
    ],
    ids=lambda finding: finding.attack,
)
def test_a_promise_that_could_not_be_checked_turns_the_page_not_green(unknown: Finding) -> None:
    assert is_green(page([point(_with())]))
    text = page([point(_with(unknown))])
    assert not is_green(text)
    assert unknown.because in text


def test_three_findings_of_one_seed_are_not_three_seeds() -> None:
    """The noise of every field has a finding of its own, under one name."""
    held = _promise("recorded_noise", verdict=Verdict.NOT_DETECTED)
    assert not is_green(page([point(_with(held, held, held))]))


def test_what_none_reads_counts_where_no_adversary_is_named() -> None:
    audits = [[*found, _promise("unread_field")] for found in found_by(ATTACKS, 3)]
    assert not is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ())))]))


def test_promises_alone_are_no_attack() -> None:
    audits = [[_promise("books", verdict=Verdict.NOT_DETECTED)] for _ in range(3)]
    text = page([point(_pool_leaks(audits, Asked((), ("server",))))])
    assert not is_green(text)
    assert "no attack was run" in text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"private": False}, "the epsilon per client is not private"),
        ({"epsilon": None}, "the epsilon per client is not private"),
        ({"epsilon": 5.0}, "the runs came to epsilon 5 per client"),
    ],
)
def test_an_epsilon_that_the_runs_do_not_have_is_not_green(
    changes: dict[str, object], words: str
) -> None:
    """Seeded noise under a promised epsilon, a field sent bare, a round paid for twice."""
    green_point = point(asked_and_found(ATTACKS))
    claim = green_point.claims["client"].model_copy(update=changes)
    text = page([green_point.model_copy(update={"claims": {"client": claim}})])
    assert not is_green(text)
    assert words in text
    assert not is_green(page([green_point.model_copy(update={"claims": {}})]))


@pytest.mark.parametrize(
    ("odd", "low", "high", "wanted", "green"),
    [
        (Verdict.TRACE, 0.001, 0.02, "NOT_DETECTED", True),  # within the limit over the seeds
        (Verdict.INCONCLUSIVE, -0.06, 0.06, "NOT_DETECTED", True),  # too wide alone
        (Verdict.INCONCLUSIVE, -0.30, 0.30, "INCONCLUSIVE", False),  # too wide for all together
        (Verdict.LEAK, 0.06, 0.10, "INCONCLUSIVE", False),  # a leak of one run
    ],
)
def test_pooled_seeds_one_of_them_odd_are_judged_together(
    odd: Verdict, low: float, high: float, wanted: str, green: bool
) -> None:
    audits = found_by(ATTACKS, 3)
    gain = Interval(value=(low + high) / 2, low=low, high=high)
    audits[1][0] = audits[1][0].model_copy(update={"verdict": odd, "gain": gain})
    leaks = _pool_leaks(audits, Asked(ATTACKS, ("server",)))
    assert leaks[0].verdict == wanted
    assert is_green(page([point(leaks)])) is green


def test_page_one_run_with_a_leak_is_not_green() -> None:
    """A default audit of that run reports it, whatever the seeds say together."""
    audits = found_by(ATTACKS, 3)
    gain = Interval(value=0.06, low=0.001, high=0.12)
    audits[1][0] = audits[1][0].model_copy(update={"verdict": Verdict.LEAK, "gain": gain})
    leaks = _pool_leaks(audits, Asked(ATTACKS, ("server",)))
    assert leaks[0].leaking == (1,)
    leak_finding = leaks[0].model_copy(
        update={
            "verdict": "TRACE",
            "sound": True,
            "gain": Interval(value=0.01, low=0.0, high=0.02),
        }
    )
    assert not is_green(page([point((leak_finding, leaks[1]))]))
    assert is_green(page([point((leak_finding.model_copy(update={"leaking": ()}), leaks[1]))]))


def test_page_attack_that_fits_and_was_not_asked_is_not_green() -> None:
    found = point(asked_and_found(ATTACKS))
    assert is_green(page([found]))
    text = page([found.model_copy(update={"default_leaks": None})])
    assert not is_green(text)
    assert "not every attack that fits the runs was run" in text


def test_page_most_exposed_target_above_the_limit_is_not_green() -> None:
    computed = {"basis": "computed", "details": {"most_exposed": 0.04}, "null": None}
    audits = [
        [f.model_copy(update={**computed, "verdict": Verdict.TRACE}) for f in found]
        for found in found_by(ATTACKS, 3)
    ]
    leaks = _pool_leaks(audits, Asked(ATTACKS, ("server",)))
    assert [(leak.verdict, leak.basis, leak.most_exposed) for leak in leaks] == [
        ("TRACE", "computed", 0.04)
    ] * 2
    assert is_green(page([point(leaks)]))
    worse = leaks[0].model_copy(update={"most_exposed": 0.06})
    text = page([point((worse, leaks[1]))])
    assert not is_green(text)
    assert "on the most exposed target" in text


def test_a_null_that_was_not_computed_spoils_no_leak_over_the_seeds() -> None:
    audits = found_by(ATTACKS, 3)
    gain = Interval(value=0.2, low=0.15, high=0.25)
    for findings in audits:
        changed = {"verdict": Verdict.LEAK, "gain": gain, "details": {"null_failed": 1.0}}
        findings[0] = findings[0].model_copy(update=changed)
    leaks = _pool_leaks(audits, Asked(ATTACKS, ("server",)))
    assert leaks[0].verdict == "LEAK"
    assert not is_green(page([point(leaks)]))


@pytest.mark.parametrize(("positive", "green"), [(None, False), (0.02, False), (0.2, True)])
def test_an_attack_under_its_floor_without_a_defence_keeps_no_limit(
    positive: float | None, green: bool
) -> None:
    """A small gain is within the limit: does the attack work at all?"""
    audits = found_by(ATTACKS, 3)
    gain = Interval(value=0.02, low=0.015, high=0.025)
    power = None if positive is None else Interval(value=positive, low=0.01, high=0.3)
    changed = {"verdict": Verdict.TRACE, "gain": gain, "floor": 0.1, "positive": power}
    for findings in audits:
        findings[0] = findings[0].model_copy(update=changed)
    assert is_green(page([point(_pool_leaks(audits, Asked(ATTACKS, ("server",))))])) is green


def test_a_recommendation_says_whose_place_nobody_took() -> None:
    text = page([point(asked_and_found(ATTACKS))])
    assert is_green(text)
    assert "What other clients or whoever gets the model or an eavesdropper can learn" in text
