"""An opened sum that lies in a run's folder is used only as the transcript recorded it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from securefg.federation.journal import Journal
from securefg.foundation.errors import RunFolderError
from securefg.protocol.codec import Clients
from securefg.runs import runner
from securefg.runs.execution import Run
from securefg.runs.folder import RunFolder
from securefg.runs.seal import verify_run
from tests.small import config
from tests.unit.runs.interrupted import WEIGHTS_ALONE

MASKED = ("training.rounds=3", WEIGHTS_ALONE, "privacy.secure_aggregation={}")


@pytest.fixture(scope="module", params=[1, 0], ids=["bodies kept", "bodies thinned"])
def stopped(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """Return a run that ended between the opened sum of round 2 and its checkpoint."""
    root = tmp_path_factory.mktemp("opened")
    write = Run._write_checkpoint

    def end_in_round_2(self: Run, number: int, *others: object) -> None:
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, *others)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_write_checkpoint", end_in_round_2)
        with pytest.raises(KeyboardInterrupt):
            runner.start(config(root, *MASKED, f"output.transcript_every={request.param}"))
    (path,) = root.glob("run-*")
    return RunFolder.open(path)


@pytest.fixture
def run(stopped: RunFolder, tmp_path: Path) -> RunFolder:
    """Return a copy that a test may change."""
    path = tmp_path / stopped.path.name
    shutil.copytree(stopped.path, path)
    return RunFolder(path)


def opened_file(run: RunFolder) -> Path:
    (path,) = (run.path / "opened").glob("*.bin")
    return path


def require_refusal(run: RunFolder, match: str) -> None:
    before = {path: path.read_bytes() for path in run.path.rglob("*.jsonl")}
    with pytest.raises(RunFolderError, match=match):
        verify_run(run)
    with pytest.raises(RunFolderError, match=match):
        runner.resume(run)
    assert before == {path: path.read_bytes() for path in run.path.rglob("*.jsonl")}


def test_opened_sum_unchanged_is_taken_up(run: RunFolder) -> None:
    assert runner.resume(run).summary is not None
    left = [path.name for path in (run.path / "opened").glob("*.bin")]
    assert left == ["000003-1.bin"], "the checkpoint of round 2 is kept and may be needed"


@pytest.mark.parametrize("place", [0.0, 0.05, 0.3, 0.6, 0.999])
def test_opened_sum_with_flipped_bit_is_refused(run: RunFolder, place: float) -> None:
    data = bytearray(opened_file(run).read_bytes())
    data[int(len(data) * place)] ^= 1
    opened_file(run).write_bytes(data)
    require_refusal(run, r"000002-1\.bin: found an opened sum that was changed")


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-8])


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def move_to_another_ask(path: Path) -> None:
    path.rename(path.with_name("000002-2.bin"))


def move_to_another_round(path: Path) -> None:
    path.rename(path.with_name("000003-1.bin"))


@pytest.mark.parametrize(
    "change", [cut_short, make_empty, move_to_another_ask, move_to_another_round]
)
def test_opened_sum_cut_or_moved_is_refused(run: RunFolder, change: Callable[[Path], None]) -> None:
    change(opened_file(run))
    require_refusal(run, r"00000\d-\d\.bin: found an opened sum that was changed")


def forge_entry(run: RunFolder, **changes: object) -> None:
    """Write an entry with a digest that fits, as somebody does who knows the format."""
    journal = Journal(run.path / "opened")
    entry = journal.find(2, 1)
    assert entry is not None
    journal.write(2, 1, type(entry)(**{**vars(entry), **changes}))


def test_opened_sum_forged_with_digest_is_refused(run: RunFolder) -> None:
    journal = Journal(run.path / "opened")
    entry = journal.find(2, 1)
    assert entry is not None
    forge_entry(run, sums={name: value + 1 for name, value in entry.sums.items()})
    require_refusal(run, r"000002-1\.bin: found another outcome than the transcript")


def test_opened_sum_forged_as_abort_is_refused(run: RunFolder) -> None:
    forge_entry(run, aborted="too few", sums={}, fields={}, clients=Clients(()))
    require_refusal(run, r"000002-1\.bin: found another outcome than the transcript")


def test_opened_sum_at_a_step_nobody_recorded_is_refused(run: RunFolder) -> None:
    forge_entry(run, last=77)
    require_refusal(run, r"000002-1\.bin: found another outcome than the transcript")


@pytest.mark.parametrize("last", [0, 3, 77])
def test_opened_sum_forged_as_abort_of_another_step_is_refused(run: RunFolder, last: int) -> None:
    """An abort that no transcript has would take a recorded sum out of the run."""
    forge_entry(run, aborted="too few", sums={}, fields={}, clients=Clients(()), last=last)
    require_refusal(run, r"000002-1\.bin: found another outcome than the transcript")


def test_opened_file_with_strange_name_is_refused(run: RunFolder) -> None:
    opened_file(run).rename(run.path / "opened" / "stranger.bin")
    require_refusal(run, r"stranger\.bin: found an opened sum that was changed")


def test_opened_sum_deleted_is_missed(run: RunFolder) -> None:
    """Before, the clients refused the round, it was lost, and the run ended with another model."""
    opened_file(run).unlink()
    with pytest.raises(RunFolderError, match="found no file for an outcome of round 2"):
        runner.resume(run)


def test_opened_sum_that_a_crash_cut_off_is_no_loss(run: RunFolder) -> None:
    """The crash came between the record and its file, and a second one in the next attempt."""
    opened_file(run).unlink()
    lines = run.metrics_path.read_text().splitlines(keepends=True)
    run.metrics_path.write_text("".join(lines[:-1]))
    write = Run._write_checkpoint

    def end_in_round_2(self: Run, number: int, *others: object) -> None:
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, *others)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_write_checkpoint", end_in_round_2)
        with pytest.raises(KeyboardInterrupt):
            runner.resume(run)
    summary = runner.resume(run).summary
    assert summary is not None
    assert summary.aborted_rounds == 1


def test_damaged_checkpoint_costs_no_masked_round(tmp_path: Path) -> None:
    """Before, the sums up to it were gone, and the clients refused to be asked again."""
    write = Run._write_checkpoint

    def end_in_round_3(self: Run, number: int, *others: object) -> None:
        if number == 3:
            raise KeyboardInterrupt
        write(self, number, *others)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "_write_checkpoint", end_in_round_3)
        with pytest.raises(KeyboardInterrupt):
            runner.start(config(tmp_path, *MASKED))
    (path,) = tmp_path.glob("run-*")
    run = RunFolder.open(path)
    (run.checkpoints / "round-000002" / "best.bin").write_bytes(b"")
    with pytest.warns(UserWarning, match="goes on from round-000001"):
        summary = runner.resume(run).summary
    assert summary is not None
    assert summary.aborted_rounds == 0
    assert summary.rounds == 3


def test_verify_finished_run_with_flipped_opened_sum_finds_it(
    run: RunFolder, tmp_path: Path
) -> None:
    kept = tmp_path / "kept.bin"
    shutil.copy(opened_file(run), kept)
    name = opened_file(run).name
    runner.resume(run)
    shutil.copy(kept, run.path / "opened" / name)
    sums = {check.name: check for check in verify_run(run)}["sums"]
    assert not sums.wrong
    data = bytearray(kept.read_bytes())
    data[-1] ^= 1
    (run.path / "opened" / name).write_bytes(data)
    sums = {check.name: check for check in verify_run(run)}["sums"]
    assert "000002-1.bin" in sums.wrong
