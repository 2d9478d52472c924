"""A site's own floor holds, whatever the server asks; the reason is told and nothing leaves."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
import yaml

from securefg.foundation.errors import BudgetExceeded, ConfigError, PrivacyError, RunFailed
from securefg.privacy.ledger import Mechanism, Release
from securefg.privacy.policy import Policy
from securefg.privacy.releases import PlannedRelease
from securefg.protocol.codec import Clients
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.settings.config import RunConfig
from securefg.site.books import Booked, SiteBooks, open_books
from securefg.site.packets import Begin
from securefg.site.policy import (
    Budget,
    JobRefused,
    SitePolicy,
    load_policy,
    planned_profile,
)
from securefg.site.run import SiteRun
from securefg.site.taking_up import TakingUp
from tests.small import config
from tests.unit.flare.federation_world import World

NOISE = "privacy={mechanism: local_gaussian, noise_multiplier: 2}"
PLAIN_FEDGL = "method={name: fedgl, pseudo_labels: false, pseudo_graph: false, weighting: equal}"
MASKED = "privacy.secure_aggregation={}"


@pytest.mark.parametrize(
    ("policy", "overrides", "reason"),
    [
        ("methods: [gfl_appnp]", (), "method fedgl; allowed here: gfl_appnp"),
        ("masking: required", (), "Update.weights would leave without masks"),
        ("least_noise: 1.0", (), "Update.weights has no noise; wanted 1"),
        ("least_noise: 3.0", (NOISE, PLAIN_FEDGL), "noise multiplier 2; wanted 3"),
        ("noise: system", (NOISE, PLAIN_FEDGL, "privacy.noise_rng=seeded"), "seeded"),
        ("budget_per_month: {epsilon: 8}", (), "epsilon per client would be inf"),
        ("budget_per_month: {epsilon: 1}", (NOISE, PLAIN_FEDGL), "past the site's budget of 1"),
        ("budget_total: {epsilon: 1}", (NOISE, PLAIN_FEDGL), "the total epsilon per client"),
        ("max_rounds: 3", (), "4 rounds; allowed here: 3"),
        ("max_clip_l2: 10", (NOISE, PLAIN_FEDGL, "privacy.clip_l2=1e9"), "is clipped at 1e"),
        ("per: [message]", (NOISE, PLAIN_FEDGL, "privacy.clip_per=row"), "noise per row"),
        ("units: [client]", (NOISE, PLAIN_FEDGL, "privacy.unit=row"), "epsilon is per row"),
        (
            "adjacency: [replace_one]",
            (NOISE, PLAIN_FEDGL, "privacy.adjacency=zero_out"),
            "the relation zero_out",
        ),
        ("noise: system", (PLAIN_FEDGL, MASKED, "privacy.noise_rng=seeded"), "seeded"),
        (
            "masking_mode: malicious",
            (PLAIN_FEDGL, "privacy.secure_aggregation={malicious: false}"),
            "masking trusts the server",
        ),
        (
            "masking_keys: hybrid",
            (PLAIN_FEDGL, "privacy.secure_aggregation={keys: classical}"),
            "keys: found classical; expected hybrid",
        ),
        ("least_cohort: 9", (PLAIN_FEDGL, MASKED), "sums of 3 clients are opened; wanted 9"),
        ("max_local_epochs: 1", (), r"local_epochs: found 2; expected at most 1"),
        (
            "least_participation: 1.0",
            ("training.participation=0.7",),
            r"participation: found 0\.7; expected at least 1",
        ),
        (
            "least_corrupt: 0.05",
            (PLAIN_FEDGL, "privacy.secure_aggregation={corrupt: 0.01}"),
            r"corrupt: found 0\.01; expected at least 0\.05",
        ),
        (
            "max_dropout: 0.3",
            (PLAIN_FEDGL, "partition.shares=[.5,.5,.5,.5,.5,.5]", MASKED),
            r"dropout: found 0\.333 of a cohort; expected at most 0\.3",
        ),
        (
            "max_dropout: 0.1",
            (
                PLAIN_FEDGL,
                "partition.shares=[.5,.5,.5,.5,.5]",
                "privacy.secure_aggregation={dropout: 0.2}",
            ),
            r"dropout: found 0\.2 of a cohort; expected at most 0\.1",
        ),
        (
            "least_holders: 2",
            (PLAIN_FEDGL, "privacy.secure_aggregation={min_holders: 1}"),
            r"min_holders: found 1; expected at least 2",
        ),
    ],
)
def test_a_job_under_the_floor_is_refused_with_the_reason(
    policy: str, overrides: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    open_books(tmp_path)
    floor = SitePolicy.everything_goes().model_dump(mode="json") | yaml.safe_load(policy)
    site, settled_run = SitePolicy.model_validate(floor), settled(config(tmp_path, *overrides))
    organisations = {"a": 1, "b": 1, "c": 1}

    def check() -> None:
        site.check(*settled_run, organisations)
        SiteBooks(tmp_path).check(site, planned_profile(*settled_run[1:]))

    with pytest.raises(PrivacyError, match=reason):
        check()


@pytest.mark.parametrize(
    ("organisations", "fewest"),
    [
        ({"a": 2, "b": 2}, 2),
        ({"a": 3, "b": 1}, 1),
        ({"a": 1, "b": 1, "c": 2}, 2),
        ({"a": 4}, 1),
    ],
)
def test_floor_counts_organisations_instead_of_clients(
    organisations: dict[str, int], fewest: int, tmp_path: Path
) -> None:
    """Four clients, of which three make a sum: two sites with two each are no cohort of three."""
    floor = SitePolicy.everything_goes().model_copy(update={"least_cohort": 3})
    shares = "partition.shares=[.5,.5,.5,.5]"
    found = settled(config(tmp_path, PLAIN_FEDGL, MASKED, shares))
    with pytest.raises(JobRefused, match=rf"found sums over 3 clients of {fewest} organisations"):
        floor.check(*found, organisations)
    floor.check(*found, dict.fromkeys("abcd", 1))


def test_site_beside_one_other_refuses_a_cohort_of_three(tmp_path: Path) -> None:
    shares = "partition.shares=[.5,.5,.5,.5]"
    world = World(tmp_path, config(tmp_path, PLAIN_FEDGL, MASKED, shares, "training.rounds=1"))
    hosts = {name: own for site in world.assignment.values() for name, own in site.items()}
    pairs = [dict(list(hosts.items())[:2]), dict(list(hosts.items())[2:])]
    world.policy("site-1", "least_cohort: 3")
    job = world.job(sites=dict(zip(("site-1", "site-2"), pairs, strict=True)))
    kit = world.site_kit("site-1")
    taking_up = TakingUp(kit, job, SiteBooks(kit.home))
    with pytest.raises(JobRefused, match="of 2 organisations; expected at least 3 organisations"):
        taking_up.take_up(Begin(digest=job.digest, attempt=1, after_round=0))


def settled(chosen: RunConfig) -> tuple[RunConfig, Policy, list[PlannedRelease]]:
    """What a site makes of a config: its rules and what would leave under them."""
    found = prepare(chosen)
    planned = found.method.releases(chosen.method, chosen.training, found.public)
    return chosen, found.policy, planned


def test_a_refusal_is_told_and_nothing_leaves(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path))
    world.policy("site-2", "least_noise: 1.0")
    with pytest.raises(RunFailed, match=r"site-2 refuses: .*Update.weights has no noise"):
        world.run()
    for site in world.assignment:
        assert world.left(site) == []
        assert not list(world.kits.home(site).rglob("messages.jsonl"))
    told = (world.kits.home("site-2") / "refusals.jsonl").read_text()
    assert "Update.weights has no noise" in told


@pytest.mark.parametrize(
    ("policy", "overrides"),
    [
        ("methods: [fedgl]", ()),
        ("masking: required", (PLAIN_FEDGL, MASKED)),
        ("least_noise: 2\nbudget_per_month: {epsilon: 30}", (NOISE, PLAIN_FEDGL)),
    ],
)
def test_a_job_above_the_floor_runs(
    policy: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    world = World(tmp_path, config(tmp_path, *overrides, "training.rounds=1"))
    world.policy("site-2", policy)
    assert world.run().summary().rounds == 1


def test_a_server_cannot_run_another_job_than_the_one_deployed(tmp_path: Path) -> None:
    """The site checks the job that it was given; a server with a laxer one does not get in."""
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    server = world.start(world.job())
    other = world.job(run="another")
    world.sites = {site: SiteRun(world.site_kit(site), other, "job") for site in world.sites}
    _, error = server.execute()
    assert "runs another job than the one that was deployed here" in str(error)


def test_a_replayed_job_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    job = world.job()
    world.run(job)
    before = world.left("site-1")
    # The server forgets that the run has finished, and plays the same submission again.
    (world.kits.server / "securefg_runs" / job.run / "summary.json").unlink()
    with pytest.raises(RunFailed, match=r"submission 1 of .* was replayed: .*--after 1`; to begin"):
        world.run(job, job_id="job again")
    assert world.left("site-1") == before


def test_scores_stay_at_a_site_that_does_not_tell_them(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    world.policy("site-1", "scores: false")
    local = world.run(world.job(has_truth=False)).summary().local_test_accuracy
    assert local is not None
    assert sorted(local.by_client or {}) == ["1", "2"]


def test_a_site_that_tells_scores_keeps_the_rows_behind_them(tmp_path: Path) -> None:
    """PPFL-GNN's alignment compares clients' embeddings: in one process the experiment may, but no
    site sends its rows un-noised and un-booked to a server."""
    settings = ("partition={name: public_private}", "training.rounds=2", "data.split.kind=folds")
    chosen = config(tmp_path, *settings, method="ppfl_deepwalk")
    here = runner.start(chosen).folder
    assert "alignment_p1" in here.metrics()[-1]["extra"]
    folder = World(tmp_path, chosen).run()
    assert folder.summary().local_test_accuracy.by_client
    assert "alignment_p1" not in folder.metrics()[-1]["extra"]


def test_where_no_site_tells_scores_the_last_model_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=3", "training.patience=1"))
    for site in world.assignment:
        world.policy(site, "scores: false")
    summary = world.run(world.job(has_truth=False)).summary()
    assert (summary.rounds, summary.best_round) == (3, 3)
    assert summary.local_test_accuracy is None


def test_a_months_releases_of_all_runs_count_together(tmp_path: Path) -> None:
    now = datetime.datetime(2026, 11, 30, tzinfo=datetime.UTC)
    open_books(tmp_path)
    books = SiteBooks(tmp_path, lambda: now)
    noised = Mechanism("Update.weights", "local_gaussian", noise_multiplier=5.0)
    for run, client in (("first", 0), ("second", 1)):
        release = Release(noised, Clients(((client, client + 1),)), 1, 1)
        books.book(run, 2, [Booked("host", "kind", 1, 1, [release] * 50)])
    spent = books.spent("client", 1e-5).epsilon
    assert spent == pytest.approx(9.99726, abs=2e-3)  # sigma 5, 100 releases
    limit = SitePolicy(budget_per_month=Budget(epsilon=11), budget_total=None)
    books.check(limit, {noised: 1})
    limit = SitePolicy(budget_per_month=Budget(epsilon=10), budget_total=None)
    with pytest.raises(BudgetExceeded, match=r"past the site's budget of 10$"):
        books.check(limit, {noised: 1})
    next_month = SiteBooks(tmp_path, lambda: now + datetime.timedelta(days=1))
    assert next_month.spent("client", 1e-5).epsilon == spent  # a month is any 31 days
    later = SiteBooks(tmp_path, lambda: now + datetime.timedelta(days=32))
    assert later.spent("client", 1e-5).epsilon == 0
    assert later.spent("client", 1e-5, None).epsilon == spent


def test_a_site_whose_budget_is_used_up_in_the_middle_drops_out_before_its_reply(
    tmp_path: Path,
) -> None:
    """Another job books at the same site while this one runs; the others go on."""
    world = World(tmp_path, config(tmp_path, NOISE, PLAIN_FEDGL))
    world.policy("site-2", "budget_per_month: {epsilon: 12}")
    books = SiteBooks(world.kits.home("site-2"))

    def spend(site: str, packet: object, deliver: object) -> object:
        if len(world.left("site-2")) == 2:
            line = json.loads(world.left("site-2")[-1])["release"]
            more = [Release.from_json(line)] * 20
            books.book("another run", 3, [Booked("host", "kind", 1, 1, more)])
        return deliver(site, packet)  # type: ignore[operator]

    world.between = spend  # type: ignore[assignment]
    folder = world.run()
    assert folder.summary().rounds == 4
    own = [line for line in world.left("site-2") if json.loads(line)["run"] != "another run"]
    assert len(own) == 2
    ended = json.loads((folder.path / "private" / "outcome.json").read_text())
    assert "its own refusals.jsonl says why" in ended["complaints"]["site-2"]
    assert "past the site's budget of 12" in world.noted("site-2")[-1]["reason"]


def test_where_every_sites_budget_is_used_up_the_run_ends(tmp_path: Path) -> None:
    """A site does not tell its budget; the run can go on where the month is over."""
    world = World(tmp_path, config(tmp_path, NOISE, PLAIN_FEDGL))
    for site in world.assignment:
        world.policy(site, "budget_total: {epsilon: 12}")
    books = [SiteBooks(world.kits.home(site)) for site in world.assignment]

    def spend(site: str, packet: object, deliver: object) -> object:
        if len(world.left("site-3")) == 2:
            line = json.loads(world.left("site-2")[-1])["release"]
            for one in books:
                more = [Release.from_json(json.loads(json.dumps(line)))] * 20
                one.book("another run", 3, [Booked("host", "kind", 1, 1, more)])
        return deliver(site, packet)  # type: ignore[operator]

    world.between = spend  # type: ignore[assignment]
    with pytest.raises(RunFailed, match="round 3: every client dropped out"):
        world.run()
    for site in world.assignment:
        assert "past the site's budget of 12" in world.noted(site)[-1]["reason"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("masking: sometimes", "masking"),
        ("masks: required", "masks"),
        ("", "expected the keys of a policy"),
        ("- a", "expected the keys of a policy"),
        ("{", "no policy"),
        ("budget_total: {epsilon: .inf}", "epsilon"),
        ("least_noise: no", "least_noise: found false; expected a value that is not"),
        (
            "budget_total: false",
            "budget_total: found false; expected a value that is not",
        ),
        (
            "budget_total: {epsilon: true}",
            "epsilon: found true; expected a value that is not",
        ),
        ("budget_total: {epsilon: 8, delta: 0.9}", "delta"),
        ("scores: 'yes'", "scores: .* expected true or false"),
        ("least_noise: .nan", "least_noise"),
        ("least_noise: -1", "least_noise"),
        ("max_rounds: 2\nmax_rounds: 9", "twice; expected it once"),
        ("max_rounds: " + "9" * 50, "50 characters"),
        ("!!python/object/apply:os.system [id]", "the tag"),
    ],
)
def test_a_policy_that_cannot_be_read_is_not_taken_for_none(
    text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "site_policy.yaml").write_text(text)
    with pytest.raises(ConfigError, match=reason):
        load_policy(tmp_path / "site_policy.yaml")
    with pytest.raises(ConfigError, match="no policy of this site"):
        load_policy(tmp_path / "missing.yaml")


def test_a_site_without_a_policy_takes_part_in_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "training.rounds=1"))
    (world.kits.home("site-2") / "site_policy.yaml").unlink()
    with pytest.raises(RunFailed, match=r"site-2 refuses: .*no policy of this site"):
        world.run()


def test_the_floor_that_a_kit_comes_with_is_high(tmp_path: Path) -> None:
    """A plain run, and one with noise alone, are below it; a private one is not."""
    strict = SitePolicy(methods=("fedgl",))
    noise = "mechanism: distributed_discrete, noise_multiplier: 4"
    private = f"privacy={{{noise}, secure_aggregation: {{malicious: true}}}}"
    for overrides, allowed in (
        ((), False),
        ((NOISE, PLAIN_FEDGL), False),
        ((private, PLAIN_FEDGL), True),
    ):
        try:
            strict.check(*settled(config(tmp_path, *overrides)), {"a": 1, "b": 1, "c": 1})
        except JobRefused:
            assert not allowed
        else:
            assert allowed
