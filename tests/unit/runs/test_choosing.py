"""What a rule chooses is the same in a plan, in a run and at every party of a federation."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from securefg.foundation.errors import ConfigError
from securefg.methods.two_sums.settings import Settings
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.runs.choosing import settle_config
from securefg.runs.planning import plan, published_sizes
from securefg.settings.config import load_config, parse_config
from securefg.site.job import Job, Sizes
from tests.unit.methods.test_two_sums import PRIVATE, tree

CONFIGS = Path(__file__).parents[3] / "configs"


def by_rule(name: str, *overrides: str) -> tuple[float, str]:
    given = load_config(CONFIGS / f"{name}.yaml", overrides)
    method = settle_config(given, published_sizes(given)).method
    assert isinstance(method, Settings)
    return method.divisor, method.chosen["method.scale"]


def test_epsilon_alone_moves_the_divisor():
    assert by_rule("private_cornell5")[0] == 12.5
    divisor, why = by_rule("private_cornell5", "privacy.target_epsilon=0.5")
    assert divisor == pytest.approx(100 / 3)
    assert "less than 10" in why
    assert by_rule("private_cornell5", "privacy={}")[1] == (
        "12.5: links / 8, since no noise is added"
    )


def test_where_the_number_of_training_nodes_is_not_told_the_careful_divisor_is_taken():
    divisor, why = by_rule("private_cora", "data.name=acm", "data.split.kind=public")
    assert divisor == pytest.approx(5 / 3)
    assert "does not say how many nodes train" in why


def test_what_is_set_is_taken_and_not_called_chosen(tmp_path: Path):
    found = prepare(parse_config(tree(tmp_path, privacy=PRIVATE), ["method.scale=7"])).config.method
    assert isinstance(found, Settings)
    assert (found.divisor, found.chosen) == (7, {})


@pytest.mark.parametrize(("epsilon", "divisor"), [(200, 1.0), (4, 8 / 3)])
def test_a_run_takes_what_its_plan_told_and_its_summary_says_why(
    tmp_path: Path, epsilon: float, divisor: float
):
    given = parse_config(tree(tmp_path, privacy={**PRIVATE, "target_epsilon": epsilon}))
    settled_config = settle_config(given, published_sizes(given))
    assert settled_config.method.divisor == pytest.approx(divisor)  # type: ignore[attr-defined]
    outcome = runner.start(given)
    assert outcome.summary is not None
    assert outcome.summary.chosen == settled_config.method.chosen
    assert outcome.summary.config_hash == given.hash == settled_config.hash
    assert outcome.folder.config() == given
    again = prepare(outcome.folder.config())
    assert again.config.method.chosen == settled_config.method.chosen
    # The noise of the run is that of the plan.
    (rule,) = [r for name, r in again.policy.rules.items() if name == "Products.products"]
    planned = plan(settled_config, published_sizes(given)).releases[-1]
    assert rule.stddev(again.shards[0].graph.labels.new_zeros(planned.dim).shape) == (
        pytest.approx(planned.noise / 2)  # of four clients
    )


def test_every_party_of_a_federation_chooses_the_same(tmp_path: Path):
    given = parse_config(tree(tmp_path, privacy=PRIVATE))
    experiment = prepare(given)
    job = Job(
        "r", 1, "server", given.model_dump(mode="json"), Sizes.of(experiment.public), {"a": {}}
    )
    assert job.parsed().method.chosen == experiment.config.method.chosen
    assert job.policy().rules == experiment.policy.rules
    carried = pickle.loads(pickle.dumps(experiment.config))  # noqa: S301  (to a host's process)
    assert carried.method.divisor == experiment.config.method.divisor  # type: ignore[attr-defined]


def test_nothing_is_summed_with_a_divisor_that_nobody_chose():
    with pytest.raises(ConfigError, match="not chosen by the rule yet"):
        Settings(links=5).divisor  # noqa: B018
