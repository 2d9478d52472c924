"""A throw-away federation: real hosts behind real channels, in a folder of its own, lied to.

Nothing of a real run is touched: the folder is new, the engine is in this process whatever the
config says, and no site is asked. What clients refuse is kept in words, and the next round goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from attacks.active.base import Request, Told
from audits.rehearsals.lying import LyingCohort
from audits.truth import Truth
from securefg.federation.federation import Federation, Secure
from securefg.federation.journal import Journal
from securefg.foundation.errors import SecurefgError
from securefg.privacy.ledger import Ledger
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.transcript import TranscriptWriter
from securefg.run.assembly import Experiment, enrol, start_engine
from securefg.run.folder import RunFolder
from securefg.run.release_file import write_release
from securefg.settings.config import RunConfig
from securefg.settings.secagg import SecureAggregationSettings

Lies = Callable[[Request], Sequence[Told]]


@dataclass(frozen=True)
class Rehearsed:
    """What a federation came to that was lied to.

    refused  what clients or the protocol refused, round by round, in words
    """

    truth: Truth
    refused: tuple[str, ...]
    requests: int
    lies: int
    largest: float


def throwaway(config: RunConfig) -> RunConfig:
    """The config in this process, every message kept. Rounds stay: noise is sized for them."""
    output = config.output.model_copy(update={"transcript_every": 1})
    engine = config.engine.model_copy(update={"name": "inprocess"})
    return config.model_copy(update={"output": output, "engine": engine})


def new_truth(experiment: Experiment, root: Path) -> Truth:
    """An empty run under `root`, for games that draw their targets before anything is sent."""
    output = experiment.config.output.model_copy(update={"root": root})
    config = experiment.config.model_copy(update={"output": output})
    folder = RunFolder.create(config, lambda path: None)
    write_release(folder.path / "model.safetensors", "", b"")
    return Truth(folder, experiment)


def _careless(policy: Policy) -> Policy:
    """What a server that lies would not check: what is refused is refused by clients."""
    return replace(policy, budget=None, least_survivors={}, cohorts={})


def _any_cohort(secure: Secure) -> SecureAggregationSettings:
    return secure.settings.model_copy(update={"min_clients": 1})


def no_lie(request: Request) -> Sequence[Told]:
    return ()


def federate(
    experiment: Experiment, folder: RunFolder, rounds: int, lie: Lies = no_lie
) -> Rehearsed:
    """Some rounds of the experiment, lied to or not."""
    x, config = experiment, experiment.config
    meanings = x.method.meanings(config.method)
    with ExitStack() as opened:
        transcript = TranscriptWriter(folder.transcript, 0)
        opened.callback(transcript.close)
        secure = enrol(x, folder)
        engine = start_engine(x, folder, 1, secure)
        opened.callback(engine.close)
        federation = Federation(
            engine,
            _careless(x.policy),
            Ledger(x.partition.num_clients, folder.ledger_path),
            transcript,
            secure=None if secure is None else replace(secure, settings=_any_cohort(secure)),
            journal=Journal(folder.path / "opened"),
        )
        cohort = LyingCohort(federation, meanings, lie)
        server = x.method.make_server(x.public, config.method, config.training, cohort)
        refused = []
        for number in range(1, rounds + 1):
            federation.begin_round(number)
            cohort.round = number
            try:
                release = server.round(number)
            except SecurefgError as error:
                refused.append(f"round {number}: {error}")
                continue
            body = codec.encode(release)
            write_release(folder.path / "model.safetensors", release.kind, body)
    told = (cohort.requests, cohort.lies, cohort.largest)
    return Rehearsed(Truth(folder, experiment), tuple(refused), *told)
