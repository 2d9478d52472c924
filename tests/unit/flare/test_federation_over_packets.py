"""Runs over signed packets: the bits of one process, drop-outs in every stage, resume."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.cli.summary import summary_table
from securefg.flare import launch
from securefg.flare.server_run import STOP
from securefg.flare.server_side import Flare
from securefg.foundation.errors import ConfigError, DataError, RunFailed, RunFolderError
from securefg.foundation.log import read_log
from securefg.privacy.ledger import LOG
from securefg.runs import runner
from securefg.runs.execution import Run
from securefg.runs.folder import RunFolder
from securefg.site.own_scores import read_own_scores
from securefg.site.packets import Packet
from tests.e2e.dying import STAGES
from tests.small import config
from tests.unit.flare.federation_world import Deliver, World

FIVE = "partition.shares=[0.5, 0.6, 0.7, 0.8, 0.9]"
MASKED = "privacy.secure_aggregation={min_holders: 1, malicious: true}"
QUICK = ("engine.patience=3", "engine.timeout=20", "engine.start_within=60")


def same(one: RunFolder, other: RunFolder) -> bool:
    models = [(run.path / "model.safetensors").read_bytes() for run in (one, other)]
    sizes = [run.summary().bytes for run in (one, other)]
    return models[0] == models[1] and sizes[0] == sizes[1]


@pytest.mark.parametrize("more", [(), (MASKED, FIVE)], ids=["plain", "masked"])
def test_a_run_over_sites_has_the_weights_and_bytes_of_one_process(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    here = runner.start(config(tmp_path / "here", *more)).folder
    apart = World(tmp_path / "apart", config(tmp_path, *more)).run()
    assert same(here, apart)
    assert here.metrics()[-1]["epsilon"] == apart.metrics()[-1]["epsilon"]


def test_hosts_with_many_clients_run_at_sites(tmp_path: Path) -> None:
    more = ("partition={name: one_node}", "engine.hosts=4", "training.local_epochs=1")
    here = runner.start(config(tmp_path / "here", *more, method="nfedgnn")).folder
    apart = World(tmp_path / "apart", config(tmp_path, *more, method="nfedgnn")).run()
    assert same(here, apart)


@pytest.mark.parametrize("stage", STAGES)
def test_survivors_are_summed_exactly_when_a_site_goes_in_any_stage(
    stage: str, tmp_path: Path
) -> None:
    method = f"method={{name: tests.e2e.dying, stage: {stage}, pseudo_labels: false}}"
    overrides = (method, FIVE, MASKED, "training.rounds=3")
    here = runner.start(config(tmp_path / "here", *overrides))
    plain = "method={name: tests.e2e.dying, in_round: 99, pseudo_labels: false}"
    world = World(tmp_path / "apart", config(tmp_path, plain, *overrides[1:], *QUICK))
    gone: set[str] = set()

    def lose(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if site == "site-2" and is_stage(packet, stage, 2):
            gone.add(site)
        return None if site in gone else deliver(site, packet)

    world.between, world.alive = lose, lambda site: site not in gone
    apart = world.run()
    models = [(p / "model.safetensors").read_bytes() for p in (here.folder.path, apart.path)]
    assert gone == {"site-2"}
    assert models[0] == models[1]
    assert apart.summary().recovered_by_algebra.contributions_recoverable == 0
    assert apart.summary().rounds == 3


def is_stage(packet: Packet, stage: str, number: int) -> bool:
    from securefg.protocol import codec

    content = json.loads(packet.header)["content"]
    if content["do"] != "answer":
        return False
    request = codec.unframe(packet.blob[: content["lengths"][0]])
    return request.round == number and request.kind.rpartition(".")[2] == stage


def test_a_site_that_was_away_for_a_round_takes_part_in_the_next(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, *QUICK))
    away: set[str] = set()

    def lose(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if site == "site-3" and is_stage(packet, "Globals", 2):
            away.add(site)
            return None
        return deliver(site, packet)

    def alive(site: str) -> bool:
        back = site not in away
        away.clear()
        return back

    world.between, world.alive = lose, alive
    drops = [line["dropped"] for line in world.run().metrics()]
    assert drops[0] == 0
    assert drops[-1] == 1


def test_a_site_that_never_comes_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, "engine.start_within=0.2"))
    world.alive = lambda site: site != "site-2"
    with pytest.raises(RunFailed, match=r"site-2: did not start in 0\.2 s"):
        world.run()
    assert not world.left("site-1")


def test_a_stopped_run_goes_on_with_a_new_submission_to_the_same_bits(tmp_path: Path) -> None:
    here = runner.start(config(tmp_path / "here", MASKED, FIVE)).folder
    world = World(tmp_path / "apart", config(tmp_path, MASKED, FIVE))
    job = world.job()
    server = world.start(job)

    def stop_in_round_2(site: str, packet: Packet, deliver: Deliver) -> Packet | None:
        if is_stage(packet, "Globals", 2):
            (world.kits.server / "securefg_runs" / job.run / "private" / STOP).touch()
        return deliver(site, packet)

    world.between = stop_in_round_2
    path, error = server.execute()
    assert error is None
    assert not (path / "summary.json").exists()
    (path / "private" / STOP).unlink()
    world.between = lambda site, packet, deliver: deliver(site, packet)
    apart = world.run(job_id="another")  # its keys were made anew, which takes more bytes
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, apart)]
    assert models[0] == models[1]
    assert len(json.loads((path / "summary.json").read_text())) > 0
    with pytest.raises(RunFolderError, match="has finished"):
        world.run(job_id="a third")


def test_a_full_disk_at_a_deployed_server_says_what_its_owners_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Run, "_execute_run", full)
    world = World(tmp_path, config(tmp_path))
    with pytest.raises(RunFailed, match="then continue with: securefg deploy submit") as raised:
        world.run()
    assert "--resume" not in str(raised.value)
    with pytest.raises(RunFailed, match="then continue with: securefg run --resume"):
        runner.start(config(tmp_path / "here"))


def test_after_a_crash_a_rounds_sums_stand_and_the_sites_only_do_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = (MASKED, FIVE, "output.checkpoint_every=1", "training.rounds=3")
    here = runner.start(config(tmp_path / "here", *settings)).folder
    world = World(tmp_path / "apart", config(tmp_path, *settings))
    keep = Flare.save

    def crash(self: Flare, folder: Path) -> None:
        if "000002" in str(folder):
            raise OSError("no power")
        keep(self, folder)

    monkeypatch.setattr(Flare, "save", crash)
    with pytest.raises(RunFailed, match="no power"):
        world.run()
    monkeypatch.setattr(Flare, "save", keep)
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, world.run())]
    assert models[0] == models[1]
    left = [json.loads(line)["release"] for line in world.left("site-1")]
    once = {(release["mechanism"]["field"], release["round"]) for release in left}
    assert len(once) == len(left)  # nothing left twice


def test_a_deployed_server_has_no_data_and_scores_come_from_the_sites(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path))
    folder = world.run(world.job(has_truth=False))
    summary = folder.summary()
    assert summary.rounds == 4
    assert summary.test_accuracy == summary.local_test_accuracy.pooled
    assert not (folder.path / "partition.safetensors").exists()
    states = list(folder.path.rglob("hosts/*"))
    assert states == []  # the sites keep their own
    kept = list((world.kits.home("site-1") / "runs" / folder.path.name / "states").iterdir())
    assert [tag.name for tag in kept] == ["round-000002", "round-000004"]


RARE = ("training.class_shares=[0.9, 0.1]", "training.alerts=5", "data.csbm.num_nodes=900")


def test_sites_of_a_rare_class_tell_average_precision_and_keep_alerts(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path, *RARE, method="fedavg"))
    world.policy("site-2", "scores: false")
    folder = world.run(world.job(has_truth=False))
    summary = folder.summary()
    assert summary.monitor == "val_average_precision"
    assert summary.test_scores is not None
    assert set(summary.test_scores.figures()) == {"average_precision", "majority"}
    rows = [str(cell) for column in summary_table(summary).columns for cell in column.cells]
    assert any("(always one class 0.1000)" in cell for cell in rows)
    assert summary.alerts == {}
    for site in ("site-1", "site-2"):  # the one that tells no score keeps its own as well
        path = world.kits.home(site) / "runs" / folder.path.name
        (own_scores,) = read_own_scores(path)
        assert own_scores.first is not None
        assert own_scores.first.alerts == 5
        assert (path / "own_scores.json").stat().st_mode & 0o777 == 0o600
        assert any("5 alerts (first): precision" in line for line in own_scores.lines)
    shown = CliRunner().invoke(app, ["deploy", "scores", str(world.kits.site("site-2"))])
    assert shown.exit_code == 0, shown.output
    assert "5 alerts (first)" in shown.output
    (path / "own_scores.json").write_text("[{}]")
    with pytest.raises(DataError, match="no scores of this site"):
        read_own_scores(path)


def test_each_site_keeps_its_own_books_of_what_left(tmp_path: Path) -> None:
    world = World(tmp_path, config(tmp_path))
    run = world.run()
    lines = [json.loads(line) for line in world.left("site-2")]
    assert {line["release"]["clients"] for line in lines} == {"1"}
    server = [entry for entry, _ in read_log(run.ledger_path, LOG)]
    booked = [entry for entry in server if entry["clients"] == "1"]
    assert [x["release"] for x in lines] == booked


def test_without_flare_the_engine_names_what_to_install_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'securefg\[flare\]'"):
        launch.start(config(tmp_path / "run", "engine.name=flare"))
    assert not (tmp_path / "run").exists()


def test_the_runner_alone_refuses_the_engine_that_it_cannot_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"flare is started by .*allowed here: inprocess, proc"):
        runner.start(config(tmp_path / "run", "engine.name=flare"))
    assert not (tmp_path / "run").exists()
