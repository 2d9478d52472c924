"""`securefg plan` speaks of public sizes, and reads no data."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.foundation.errors import ConfigError, DataError
from securefg.runs.choosing import settle_config
from securefg.runs.planning import plan, published_sizes
from securefg.settings.config import load_config

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(autouse=True)
def no_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SECUREFG_DATA", str(tmp_path))
    monkeypatch.setenv("SECUREFG_CACHE", str(tmp_path / "cache"))


def planned(name: str, *overrides: str):
    given = load_config(CONFIGS / f"{name}.yaml", overrides)
    info = published_sizes(given)
    return plan(settle_config(given, info), info)


def test_many_labels_are_worth_it_and_few_at_a_small_epsilon_are_not():
    assert planned("private_cornell5_100").worth_it
    assert planned("private_cora").worth_it
    assert not planned("private_cora", "privacy.target_epsilon=1").worth_it


def test_noise_grows_as_epsilon_falls_and_as_more_links_are_covered():
    def noise(*overrides: str) -> float:
        return planned("private_cornell5", "method.scale=10", *overrides).releases[-1].noise

    usual = noise()
    assert noise("privacy.target_epsilon=1") > 3 * usual
    assert noise("method.links=200") > 1.5 * usual
    assert noise("method.graph=false") < 0.5 * usual


def test_the_command_says_whether_it_is_worth_it():
    path = str(CONFIGS / "private_cora.yaml")
    good = CliRunner().invoke(app, ["plan", path])
    assert good.exit_code == 0
    assert "ClassSums.sums" in good.output
    assert "Worth it" in good.output
    assert "By the rule, method.scale is 1: links / 8" in " ".join(good.output.split())
    bad = CliRunner().invoke(app, ["plan", path, "--set", "privacy.target_epsilon=0.5"])
    assert "Not worth it" in bad.output


def test_plan_without_noise_gives_no_advice():
    said = CliRunner().invoke(app, ["plan", str(CONFIGS / "quickstart.yaml")])
    assert said.exit_code == 0
    assert "worth it" not in said.output.lower()
    assert "No upload gets noise before it is sent" in " ".join(said.output.split())
    assert not planned("quickstart").worth_it


def test_plan_with_noise_in_training_does_not_say_no_noise():
    found = planned("fedmlp_sc_dp_sgd")
    assert [release.trained for release in found.releases] == [True]
    assert not found.has_noise


def test_sums_clear_of_noise_are_not_said_to_beat_training_alone():
    """Over Cornell's four silos they do not: .865 both."""
    said = CliRunner().invoke(app, ["plan", str(CONFIGS / "private_cornell5.yaml")])
    words = " ".join(said.output.split())
    assert "Worth it, as far as noise goes" in words
    assert "Each client has about 2,882 training nodes of its own" in words
    assert "training alone may do as well" in words


def test_plan_for_users_counts_all_users_and_agrees_with_its_advice() -> None:
    printed = CliRunner().invoke(app, ["plan", str(CONFIGS / "private_users_cora.yaml")]).output
    assert "15.1" in printed.partition("Recommended")[0]
    assert "Not worth it" not in printed


def recommended(name: str, *words: str) -> str:
    """Return what the command recommends by sizes alone."""
    said = CliRunner().invoke(app, ["plan", str(CONFIGS / f"{name}.yaml"), *words])
    assert said.exit_code == 0, said.output
    _, _, advice = " ".join(said.output.split()).partition("Recommended by sizes alone: ")
    return advice


@pytest.mark.parametrize(
    ("name", "words", "advice"),
    [
        ("private_cornell5_100", (), "two_sums. In it both sums stand 154.3 times above"),
        ("private_few_labels_cornell5", (), "one_sum. In it the sum stands 15.3 times above"),
        ("private_majors_cornell5", ("--clients", "58"), "two_sums."),
        ("private_cornell5", (), "nothing to gain here, every client has about 2,882 training"),
        ("private_published_cornell5", (), "noisy_counts. In it predictions follow"),
        ("private_users_cora", (), "pseudo_sums. In it every user has one node"),
        ("private_users_citeseer", (), "pseudo_sums. In it every user has one node"),
        ("private_users_pubmed", (), "pseudo_sums. In it every user has one node"),
        ("private_transfers", (), "nothing to gain here, no method"),  # others cover no transfer
        ("private_cora", ("--set", "privacy.target_epsilon=1"), "one_sum."),
        ("private_cora", ("--set", "privacy.target_epsilon=.3"), "nothing to gain here, no method"),
        ("fedavg_csbm", (), ""),
    ],
)
def test_recommended_method_follows_from_public_sizes(
    name: str, words: tuple[str, ...], advice: str
) -> None:
    found = recommended(name, *words)
    assert found.startswith(advice)
    assert bool(found) == bool(advice)


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("data={name: chameleon, split: {kind: public}}", "how many nodes train"),
        ("data={name: subcora}", "published sizes"),
    ],
)
def test_what_cannot_be_planned_says_why(override: str, words: str):
    with pytest.raises(ConfigError, match=words):
        planned("private_cora", override)


def explained(name: str, *overrides: str) -> str:
    options = [word for override in overrides for word in ("--set", override)]
    found = CliRunner().invoke(app, ["explain", str(CONFIGS / f"{name}.yaml"), *options])
    assert found.exit_code == 0, found.output
    return " ".join(found.output.split())


def test_a_clients_epsilon_is_told_per_node_over_all_its_holders():
    printed_text = explained(
        "fedavg_csbm",
        "privacy={mechanism: local_gaussian, target_epsilon: 4, adjacency: zero_out}",
    )
    assert (
        "epsilon per client 4.00 at delta 1e-5: one client zeroed out, 60 clients in all"
        in printed_text
    )
    assert (
        "epsilon per node 63.5 at delta 1e-5: one node removed, added or changed, over"
        in printed_text
    )
    assert "up to 18 clients that hold it, 600 nodes in all" in printed_text
    assert "not covered validation labels, by which the kept round is chosen" in printed_text
    kept = explained("fedavg_csbm", "training.final_model=last")
    assert "not covered validation labels" not in kept
    assert "not covered answers for nodes, which are shown to others" in kept


def test_what_the_server_is_given_makes_a_node_infinite_before_the_run():
    said = explained("gfl_dnc_private", "training.rounds=2")
    assert "epsilon per node infinite: sent or given without noise: all edges" in said


@pytest.mark.parametrize("name", ["curve_all", "curve_fedgl_cora", "curve_ppfl_citeseer"])
def test_shipped_curves_speak_of_nodes_where_clients_share_them(name: str):
    import yaml

    for sweep in yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())["sweeps"]:
        shared = sweep["config"].startswith(("fedgl", "ppfl"))
        noisy = [d for d in sweep["defences"] if d["name"] == "local_gaussian"]
        assert {d["privacy"]["unit"] for d in noisy} == {"node" if shared else "client"}


SIZES = ["--nodes", "7650", "--features", "30", "--classes", "2", "--train", "4500"]
BY_HAND = [*SIZES, "--clients", "10", "--holders", "1", "--links", "8"]


@pytest.fixture
def own_config(tmp_path: Path) -> Path:
    """A config of the user's own folder of 60 nodes at 3 clients, of which half train."""
    import numpy as np

    folder = tmp_path / "prepared"
    folder.mkdir()
    np.savez(folder / "features.npz", x=np.random.default_rng(0).random((60, 4)))
    np.savez(folder / "labels.npz", y=np.arange(60) % 2)
    np.savez(folder / "edges.npz", edge_index=np.stack([np.arange(59), np.arange(1, 60)]))
    lines = ["node,client", *(f"{n},{n % 3}" for n in range(60)), "0,1"]
    (folder / "clients.csv").write_text("\n".join(lines))
    parts = ["node,split", *(f"{n},{'train' if n < 30 else 'val'}" for n in range(60))]
    (folder / "split.csv").write_text("\n".join(parts))
    path = tmp_path / "own.yaml"
    path.write_text(
        "method: {name: two_sums, links: 5}\ndata: {name: folder, folder: prepared}\n"
        "partition: {name: given}\ntraining: {rounds: 1, patience: null, final_model: last}\n"
        "privacy: {mechanism: local_gaussian, unit: node, target_epsilon: 4}\n"
    )
    return path


def test_plan_of_an_own_folder_reads_its_sizes(own_config: Path) -> None:
    said = CliRunner().invoke(app, ["plan", str(own_config)])
    assert said.exit_code == 0, said.output
    assert "30 of 60 nodes train, 3 clients" in said.output


def test_plan_by_hand_needs_no_folder(own_config: Path) -> None:
    import shutil

    shutil.rmtree(own_config.parent / "prepared")
    said = CliRunner().invoke(app, ["plan", str(own_config), *BY_HAND])
    assert said.exit_code == 0, said.output
    assert "4,500 of 7,650 nodes train, 10 clients" in said.output
    told = CliRunner().invoke(app, ["explain", str(own_config), *BY_HAND], env={"COLUMNS": "200"})
    assert told.exit_code == 0, told.output
    assert "with at most 8 links" in told.output
    some = CliRunner().invoke(app, ["plan", str(own_config), *SIZES[:2]])
    assert isinstance(some.exception, DataError)


def test_plan_of_an_own_folder_agrees_with_what_its_run_claims(own_config: Path) -> None:
    from securefg.runs.assembly import prepare
    from securefg.runs.epsilons import planned_epsilons
    from securefg.runs.sizes import Sizes, setup_of, with_sizes

    given = load_config(own_config)
    by_sizes = planned_epsilons(setup_of(with_sizes(given, Sizes())))
    text = (own_config.parent / "prepared" / "split.csv").read_text().replace("59,val", "59,test")
    (own_config.parent / "prepared" / "split.csv").write_text(text)
    by_data = planned_epsilons(prepare(given))
    assert by_sizes["node"].epsilon == pytest.approx(by_data["node"].epsilon)
    assert by_sizes["node"].holders == by_data["node"].holders == 2


@pytest.mark.parametrize(
    ("options", "message_text"),
    [
        (["--nodes", "10", "--train", "11"], "--train: found 11; expected at most 10"),
        (["--clients", "2", "--holders", "3"], "--holders: found 3; expected at most 2"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(
    own_config: Path, options: list[str], message_text: str
) -> None:
    from securefg.runs.sizes import Sizes, with_sizes

    numbers = {
        name.strip("-"): int(value) for name, value in zip(*[iter(options)] * 2, strict=True)
    }
    with pytest.raises(ConfigError, match=message_text):
        with_sizes(load_config(own_config), Sizes(**numbers))


def test_links_of_a_method_without_them_are_refused(own_config: Path) -> None:
    from securefg.runs.sizes import Sizes, with_sizes

    given = load_config(CONFIGS / "quickstart.yaml")
    with pytest.raises(ConfigError, match=r"--links: found 3 with method\.name"):
        with_sizes(given, Sizes(links=3))
