"""Real clients of any config behind a real federation; a test speaks in the place of the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from securefg.engines.inprocess import InProcess
from securefg.federation.engine import Answer, Dropped
from securefg.federation.federation import Federation
from securefg.federation.roles import Host
from securefg.privacy.ledger import Ledger
from securefg.protocol import codec
from securefg.protocol.transcript import Record, TranscriptWriter, read_transcript
from securefg.runs.assembly import Experiment, enrol_clients, prepare, start_engine
from securefg.runs.folder import RunFolder
from securefg.secagg.forms import Secure
from securefg.settings.config import RunConfig


class Falling(InProcess):
    """Clients in `silent` do not answer requests of the kinds in `to`; of all kinds by default."""

    def __init__(self, engine: InProcess) -> None:
        self._endpoints, self.hosts = engine._endpoints, engine.hosts
        self.silent: set[int] = set()
        self.to: Callable[[str], bool] = lambda kind: True

    def deliver(self, requests: Mapping[str, bytes]) -> Mapping[str, Answer | Dropped]:
        gone = {
            name
            for name, framed in requests.items()
            if set(self.hosts[name].numbers()) & self.silent and self.to(codec.unframe(framed).kind)
        }
        dropped = {name: Dropped(name, self.hosts[name], "silent") for name in gone}
        rest = {name: framed for name, framed in requests.items() if name not in gone}
        return {**dropped, **super().deliver(rest)}

    def host(self, client: int) -> Host:
        return self._endpoints[f"client-{client}"].host


@dataclass
class Deployed:
    """A run that can be started again and again over the same folder."""

    experiment: Experiment
    folder: RunFolder
    secure: Secure

    @classmethod
    def new(cls, chosen: RunConfig) -> Deployed:
        x = prepare(chosen)
        folder = RunFolder.create(chosen, lambda path: None)
        secure = enrol_clients(x, folder)
        assert secure is not None
        return cls(x, folder, secure)

    @contextmanager
    def started(self, attempt: int = 1) -> Iterator[tuple[Falling, Federation]]:
        x = self.experiment
        engine = start_engine(x, self.folder, attempt, self.secure)
        assert isinstance(engine, InProcess)
        falling = Falling(engine)
        ledger = Ledger(x.partition.num_clients, self.folder.ledger_path)
        transcript = TranscriptWriter(self.folder.transcript)
        federation = Federation(
            falling, x.policy, ledger, transcript, attempt=attempt, secure=self.secure
        )
        federation.begin_round(1)
        try:
            yield falling, federation
        finally:
            transcript.close()

    def memory(self, client: int) -> Path:
        return self.folder.memories / f"client-{client}.jsonl"

    def records(self) -> list[Record]:
        return list(read_transcript(self.folder.transcript))
