"""An observer that writes TensorBoard files. It needs `pip install 'securefg[tensorboard]'`."""

from __future__ import annotations

from pathlib import Path

from securefg.foundation.errors import InputError
from securefg.runs.assembly import Setup
from securefg.runs.observing import RoundReport, Silent

SCORES = ("train_loss", "val_loss", "val_accuracy", "test_accuracy")
COUNTS = ("bytes_up", "bytes_down", "dropped")


class TensorBoard(Silent):
    """A writer of scores, bytes and finite epsilons of every round, under `folder`."""

    def __init__(self, folder: str | Path) -> None:
        try:
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError as error:
            raise InputError("TensorBoard: needs `pip install 'securefg[tensorboard]'`") from error
        self._writer = SummaryWriter(str(folder))

    def started(self, experiment: Setup, first_round: int) -> None:
        """Write the config as text."""
        self._writer.add_text("config", experiment.config.model_dump_json(indent=2))

    def round_done(self, report: RoundReport) -> None:
        """Write the figures of a round."""
        names = COUNTS if report.aborted else (*SCORES, *COUNTS)
        figures = {name: float(getattr(report, name)) for name in names}
        figures |= {f"epsilon/{u}": e for u, e in report.epsilon.items() if e is not None}
        for name, value in {**figures, **report.extra}.items():
            self._writer.add_scalar(name, value, report.round)
        self._writer.flush()
