"""A throw-away federation: real hosts behind real channels, in a folder of its own, lied to.

Nothing of a real run is touched: the folder is new, the engine is in this process whatever the
config says, and no site is asked. Refusals of clients are kept in words, and the next round goes
on.

The cohort lies: it replaces the requests of a method's server by the requests of a lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from attacks.active.base import Request, Told
from attacks.base import Place
from audits.truth import Truth
from securefg.federation.federation import Federation
from securefg.federation.journal import Journal
from securefg.federation.roles import Cohort, Replies
from securefg.foundation.errors import SecurefgError
from securefg.privacy.ledger import Ledger
from securefg.privacy.policy import Policy
from securefg.protocol import codec
from securefg.protocol.codec import Clients
from securefg.protocol.meanings import Meaning
from securefg.protocol.messages import Message
from securefg.protocol.transcript import TranscriptWriter
from securefg.runs.assembly import Experiment, enrol_clients, start_engine
from securefg.runs.folder import RunFolder
from securefg.runs.release_file import write_release
from securefg.secagg.forms import Secure
from securefg.settings.config import RunConfig
from securefg.settings.secagg import SecureAggregationSettings

M = TypeVar("M", bound=Message)


class LyingCohort(Cohort):
    """A cohort that stands between a method's server and the federation. The clients behind it are
    real.

    requests, lies  how many requests were sent, and how many of them the protocol would not send
    largest         the largest norm of a field that was sent, beside the protocol's own
    """

    def __init__(
        self,
        cohort: Cohort,
        meanings: Mapping[Place, Meaning],
        lie: Callable[[Request], Sequence[Told]],
    ) -> None:
        self._cohort, self._meanings, self._lie = cohort, meanings, lie
        self.num_clients, self.round = cohort.num_clients, 0
        self.requests = self.lies = 0
        self.largest = 1.0

    def ask(self, request: Message, reply: type[M], clients: Clients | None = None) -> Replies[M]:
        """Ask what the lie says. The replies to its last request go to the server."""
        lie_requests = list(self._lie(self._describe_request(request, reply))) or [Told()]
        self.requests += len(lie_requests)
        self.lies += (
            len(lie_requests) - 1 + bool(lie_requests[-1].changes or lie_requests[-1].clients)
        )
        for one in lie_requests[:-1]:
            self._cohort.ask(self._change_request(request, one), reply, one.clients or clients)
        return self._cohort.ask(
            self._change_request(request, lie_requests[-1]),
            reply,
            lie_requests[-1].clients or clients,
        )

    def noise_stddev(self, replies: Replies[M], field: str) -> float:
        """Return the standard deviation of the noise in a sum of replies."""
        return self._cohort.noise_stddev(replies, field)

    def _describe_request(self, request: Message, reply: type[Message]) -> Request:
        return Request(
            self.round,
            request.values(),
            self._meanings_of(request.kind),
            self._wanted_meanings(reply),
        )

    def _wanted_meanings(self, reply: type[Message]) -> tuple[Meaning, ...]:
        return tuple(self._meanings_of(reply.kind).values())

    def _meanings_of(self, kind: str) -> dict[str, Meaning]:
        return {name: meaning for (of, name), meaning in self._meanings.items() if of == kind}

    def _change_request(self, request: Message, lie_request: Told) -> Message:
        for name, value in lie_request.changes.items():
            honest = request.values()[name]
            if not isinstance(honest, Tensor) or not isinstance(value, Tensor):
                continue
            if float(honest.double().norm()) > 0:
                ratio = float(value.double().norm() / honest.double().norm())
                self.largest = max(self.largest, ratio)
        return type(request)(**{**request.values(), **lie_request.changes})


Lies = Callable[[Request], Sequence[Told]]


@dataclass(frozen=True)
class Rehearsed:
    """A result of a federation that was lied to.

    refused  what clients or the protocol refused, round by round, in words
    """

    truth: Truth
    refused: tuple[str, ...]
    requests: int
    lies: int
    largest: float


def throwaway_config(config: RunConfig) -> RunConfig:
    """Return the config in this process, with every message kept. Rounds stay, because noise is
    sized for them."""
    output = config.output.model_copy(update={"transcript_every": 1})
    engine = config.engine.model_copy(update={"name": "inprocess"})
    return config.model_copy(update={"output": output, "engine": engine})


def new_truth(experiment: Experiment, root: Path) -> Truth:
    """Return an empty run under `root`, for games that draw their targets before anything is
    sent."""
    output = experiment.config.output.model_copy(update={"root": root})
    config = experiment.config.model_copy(update={"output": output})
    folder = RunFolder.create(config, lambda path: None)
    write_release(folder.path / "model.safetensors", "", b"")
    return Truth(folder, experiment)


def _careless_policy(policy: Policy) -> Policy:
    """Return the policy without the checks that a lying server would not make. Only clients refuse
    then."""
    return replace(policy, budget=None, least_survivors={}, cohorts={})


def _any_cohort(secure: Secure) -> SecureAggregationSettings:
    return secure.settings.model_copy(update={"min_clients": 1})


def no_lie(request: Request) -> Sequence[Told]:
    """Change nothing."""
    return ()


def federate_rounds(
    experiment: Experiment, folder: RunFolder, rounds: int, lie: Lies = no_lie
) -> Rehearsed:
    """Run some rounds of the experiment, lied to or not, and return the result."""
    x, config = experiment, experiment.config
    meanings = x.method.meanings(config.method)
    with ExitStack() as opened:
        transcript = TranscriptWriter(folder.transcript, 0)
        opened.callback(transcript.close)
        secure = enrol_clients(x, folder)
        engine = start_engine(x, folder, 1, secure)
        opened.callback(engine.close)
        federation = Federation(
            engine,
            _careless_policy(x.policy),
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
