"""One execution of a run: rounds until done, with metrics, checkpoints and budget."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from audits.findings.history import note_the_end
from securefg.federation.engine import Engine
from securefg.federation.evaluation import Evaluator, LocalScore, Scores, pool_scores
from securefg.federation.federation import Federation
from securefg.federation.journal import Journal
from securefg.federation.quality import Quality
from securefg.federation.recorder import Traffic, blamed_in, suspected_in
from securefg.federation.roles import Server
from securefg.foundation.errors import (
    BudgetExceeded,
    Diverged,
    RoundAborted,
    RunFailed,
    cause_of,
)
from securefg.foundation.files import append_lines, json_text, sync_path, write_atomically
from securefg.privacy.accountants import Claim, claim_units
from securefg.privacy.ledger import Ledger
from securefg.protocol import codec
from securefg.protocol.codec import Clients, Envelope, Size
from securefg.protocol.messages import Message
from securefg.protocol.thinning import Thinning
from securefg.protocol.transcript import TranscriptWriter, read_transcript
from securefg.runs.assembly import Setup, with_truth
from securefg.runs.best import Best
from securefg.runs.checkpoint import (
    Checkpoint,
    Progress,
    forget_after,
    oldest_kept,
    write_checkpoint,
)
from securefg.runs.divergence import (
    DIVERGED,
    only_finite,
    require_finite_losses,
    require_finite_model,
)
from securefg.runs.folder import RunFolder, read_json_lines
from securefg.runs.observing import Observer, RoundReport
from securefg.runs.reconcile import reconcile_records
from securefg.runs.recovered import recovered_by_algebra
from securefg.runs.release_file import write_release
from securefg.runs.summarize import summarize_run
from securefg.runs.summary import ABORTED, Summary
from securefg.secagg.forms import Secure


@dataclass(frozen=True)
class Outcome:
    """An end of a run. `summary` is None if it was interrupted and can be resumed."""

    folder: RunFolder
    summary: Summary | None
    reason: str


class Run:
    """An execution of a run, new or taken up from a checkpoint.

    make_secure  returns the roster of secure aggregation, where the run has it
    make_engine  returns the engine of an attempt, whose number it gets
    goes_on      the command that takes the run up again, where it is not `run --resume`
    """

    def __init__(
        self,
        setup: Setup,
        folder: RunFolder,
        observer: Observer,
        checkpoint: Checkpoint | None,
        make_secure: Callable[[], Secure | None],
        make_engine: Callable[[int, Secure | None], Engine],
        goes_on: str | None = None,
    ) -> None:
        self._goes_on = goes_on or f"securefg run --resume {folder.path}"
        self._make_secure, self._make_engine = make_secure, make_engine
        self._x, self._folder, self._observer = setup, folder, observer
        self._checkpoint = checkpoint
        self._config = setup.config
        self._best = Best()
        self._scores = Scores(0.0, 0.0, 0.0, 0.0)
        self._unscored = False
        self._journal = Journal(folder.opened)
        self._evaluator: Evaluator | None = None
        self._best_quality: tuple[Quality | None, Quality | None] = (None, None)
        self._seconds_before = 0.0
        self._started = time.monotonic()
        torch.set_num_threads(self._config.engine.threads)

    def execute(self) -> Outcome:
        """Run until done and return the outcome. A failure outside of us (disk, memory) leaves a
        run that can be resumed."""
        try:
            return self._execute_run()
        except Exception as error:
            cause = cause_of(error)
            if cause is None:
                raise
            raise RunFailed(f"{cause}\nthen continue with: {self._goes_on}") from error

    def _execute_run(self) -> Outcome:
        first_round = self._take_up()
        with ExitStack() as opened:
            opened.callback(self._transcript.close)
            secure = self._make_secure()
            engine = self._make_engine(self._attempt, secure)
            opened.callback(engine.close)
            return self._run_rounds(engine, self._open_federation(engine, secure), first_round)

    def _take_up(self) -> int:
        """Bring ledger, transcript and metrics to where the checkpoint stands.

        Bytes that a repeated round sends again are the same ones, so what was recorded of it goes.
        But where noise or masks are drawn afresh, the lost rounds told something that the repeated
        ones do not, and both stay on the books.
        """
        progress = self._checkpoint.progress if self._checkpoint else None
        done = progress.round if progress else 0
        masked = bool(self._x.policy.masked)
        fresh_noise = masked or (
            self._config.privacy.noise_rng == "system"
            and any(not rule.is_bare for rule in self._x.policy.rules.values())
        )
        attempts, num_clients = self._folder.path / "attempts.jsonl", self._x.public.num_clients
        reconciled_records = reconcile_records(
            self._folder, done, num_clients, self._claims_of, not fresh_noise
        )
        self._attempt = max(len(read_json_lines(attempts)), reconciled_records.attempts) + 1
        append_lines(attempts, [json.dumps({"attempt": self._attempt, "after_round": done})])
        forget_after(self._folder.checkpoints, done)
        # What tells of releases goes before the releases: a crash in between hides none of them.
        self._trim_metrics(done)
        position = progress.transcript_position if progress else 0
        if fresh_noise:
            position = reconciled_records.transcript_end
        self._transcript = TranscriptWriter(self._folder.transcript, position)
        self._ledger = Ledger.resume(self._folder.ledger_path, num_clients, done, fresh_noise)
        if progress and self._checkpoint:
            self._best = Best.of(progress, self._checkpoint.best_body())
            self._seconds_before = progress.seconds
        return done + 1

    def _trim_metrics(self, done: int) -> None:
        kept = [m for m in self._folder.metrics() if m["round"] <= done]
        lines = "".join(json.dumps(line) + "\n" for line in kept)
        write_atomically(self._folder.metrics_path, lines)

    def _open_federation(self, engine: Engine, secure: Secure | None) -> Federation:
        output, folder = self._config.output, self._folder.transcript
        thinning = Thinning(
            output.transcript_every,
            output.transcript_limit,
            self._config.training.rounds,
            folder,
            self._transcript,
        )
        federation = Federation(
            engine,
            self._x.policy,
            self._ledger,
            self._transcript,
            keep_body=thinning.keeps_bodies,
            attempt=self._attempt,
            secure=secure,
            journal=self._journal,
            blamed=blamed_in(read_transcript(folder)) if secure else None,
            suspected=suspected_in(read_transcript(folder)) if secure else None,
        )
        if self._checkpoint:
            progress = self._checkpoint.progress
            sizes = (Size(*progress.up), Size(*progress.down))
            federation.take_up(Traffic(progress.seq, *sizes, progress.dropped))
            engine.load(self._checkpoint.hosts)
        return federation

    def _run_rounds(self, engine: Engine, federation: Federation, first_round: int) -> Outcome:
        config, method = self._config, self._x.method
        server = method.make_server(self._x.public, config.method, config.training, federation)
        self._facts = server.facts
        if self._checkpoint:
            self._checkpoint.restore(server, federation.censuses)
        known = with_truth(self._x)
        evaluator = self._evaluator = (
            method.make_evaluator(known.union, config.method, known.public.device)
            if method.make_evaluator and known
            else None
        )

        def score(release: Message, body: bytes) -> Scores:
            if evaluator is not None:
                return evaluator.score(release)
            local = engine.measure(_frame_release(release.kind, body))
            self._unscored = not local
            require_finite_losses(number, pool_scores(local), local)
            compared = method.compare(local) if method.compare else {}
            return replace(pool_scores(local), extra=only_finite(compared))

        self._observer.started(self._x, first_round)
        number = first_round - 1
        for number in range(first_round, config.training.rounds + 1):
            if self._best.is_stale(number, config.training.patience):
                reason = self._if_finished("early stopping")
                return self._finish_run(engine, federation, number - 1, reason)
            federation.begin_round(number)
            try:
                aborted = self._run_round(number, server, score)
            except (BudgetExceeded, Diverged) as error:
                reason = DIVERGED if isinstance(error, Diverged) else "privacy budget: "
                return self._finish_run(engine, federation, number - 1, f"{reason}{error}")
            report = self._make_report(number, federation.traffic, aborted)
            self._append_metrics(report)
            masked = bool(self._x.policy.masked)
            if masked:  # an opened round is never asked again, so every one is kept at once
                self._write_checkpoint(number, federation, server, engine)
            self._observer.round_done(report)
            interrupted = self._observer.stop_requested() and number < config.training.rounds
            if not masked and (interrupted or number % config.output.checkpoint_every == 0):
                self._write_checkpoint(number, federation, server, engine)
            if interrupted:
                return Outcome(self._folder, None, "interrupted")
        reason = self._if_finished("all rounds done")
        return self._finish_run(engine, federation, number, reason)

    def _if_finished(self, reason: str) -> str:
        """Return `reason`, or the abort that left the run without any finished round."""
        aborts = [line["aborted"] for line in self._folder.metrics()]
        return f"{ABORTED}{aborts[-1]}" if aborts and all(aborts) else reason

    def _run_round(
        self, number: int, server: Server, score: Callable[[Message, bytes], Scores]
    ) -> str:
        """Run one round of the method and score it. Return why it was aborted, if it was."""
        secure = self._config.privacy.secure_aggregation
        try:
            release = server.round(number)
        except RoundAborted as error:
            if secure is not None and secure.on_abort == "skip":
                return str(error)
            raise
        require_finite_model(number, release)
        body = codec.encode(release)
        scores = score(release, body)
        require_finite_losses(number, scores, ())
        self._scores = replace(scores, extra=only_finite(scores.extra))
        told = None if self._unscored else self._scores
        self._best.keep(number, told, release.kind, body, self._config.training)
        if self._best.round == number:
            self._best_quality = self._scores.val, self._scores.test
        return ""

    def _make_report(self, number: int, traffic: Traffic, aborted: str) -> RoundReport:
        return RoundReport(
            round=number,
            **self._round_figures(),
            epsilon={c.unit: finite_or_none(c.epsilon) for c in self._claims_of(self._ledger)},
            bytes_up=traffic.up.payload + traffic.up.envelope,
            bytes_down=traffic.down.payload + traffic.down.envelope,
            dropped=traffic.dropped,
            seconds=self._seconds_spent(),
            aborted=aborted,
        )

    def _round_figures(self) -> dict[str, Any]:
        scores = self._scores
        known = {"val": scores.val, "test": scores.test}
        quality = {side: found.figures() for side, found in known.items() if found is not None}
        plain = asdict(replace(scores, val=None, test=None))
        del plain["val"], plain["test"]
        return {**plain, "quality": quality}

    def _claims_of(self, ledger: Ledger) -> list[Claim]:
        policy = self._x.policy
        return claim_units(ledger, policy.delta, population=policy.population)

    def _seconds_spent(self) -> float:
        return round(self._seconds_before + time.monotonic() - self._started, 3)

    def _append_metrics(self, report: RoundReport) -> None:
        """Write the figures of a round, once its messages are on the disk."""
        self._transcript.sync()
        line = json.dumps(asdict(report), allow_nan=False)
        append_lines(self._folder.metrics_path, [line], sync=False)

    def _write_checkpoint(
        self, number: int, federation: Federation, server: Server, engine: Engine
    ) -> None:
        assert self._ledger.file is not None
        traffic, state = federation.traffic, {**server.state(), **federation.censuses.state()}
        sync_path(self._folder.metrics_path)
        progress = Progress(
            config_hash=self._config.hash,
            round=number,
            seq=traffic.seq,
            up=(traffic.up.payload, traffic.up.envelope),
            down=(traffic.down.payload, traffic.down.envelope),
            dropped=traffic.dropped,
            ledger_lines=self._ledger.file.length,
            ledger_link=self._ledger.file.link,
            transcript_position=self._transcript.position,
            transcript_link=self._transcript.chain,
            best_round=self._best.round,
            best_score=finite_or_none(self._best.score),
            best_kind=self._best.kind,
            best_loss=finite_or_none(self._best.loss),
            improved=self._best.improved,
            seconds=self._seconds_spent(),
        )
        write_checkpoint(self._folder.checkpoints, progress, state, self._best.body, engine.save)
        self._journal.forget_rounds(oldest_kept(self._folder.checkpoints))

    def _quality_of_the_best(
        self, local: list[LocalScore]
    ) -> tuple[Quality | None, Quality | None]:
        """Return the scores of the released model. A run that was taken up again scores it once
        more."""
        if self._best_quality == (None, None) and self._evaluator is not None and self._best.body:
            release = codec.decode(self._best.body, self._x.method.message(self._best.kind))
            scores = self._evaluator.score(release)
            return scores.val, scores.test
        if self._best_quality == (None, None) and local:
            pooled = pool_scores(local)
            return pooled.val, pooled.test
        return self._best_quality

    def _finish_run(
        self, engine: Engine, federation: Federation, rounds: int, reason: str
    ) -> Outcome:
        write_release(self._folder.path / "model.safetensors", self._best.kind, self._best.body)
        best = _frame_release(self._best.kind, self._best.body)
        local = engine.measure(best, at_end=True) if self._best.body else []
        self._transcript.sync()
        records = read_transcript(self._folder.transcript)
        summary = summarize_run(
            self._x,
            self._ledger,
            self._folder.metrics(),
            local,
            federation.traffic,
            rounds=rounds,
            best_round=self._best.round,
            stopped=reason,
            seconds=self._seconds_spent(),
            attempts=self._attempt,
            facts=only_finite({**self._facts(), **federation.censuses.facts()}),
            recovered=recovered_by_algebra(self._x, records),
            blamed=federation.blamed,
            committee=federation.committee_words,
            chain=self._transcript.chain,
            quality=self._quality_of_the_best(local),
        )
        text = json_text(summary.model_dump(mode="json")).encode()
        note_the_end(self._folder.path, summary.transcript_chain, text)
        write_atomically(self._folder.path / "summary.json", text)
        return Outcome(self._folder, summary, reason)


def finite_or_none(value: float) -> float | None:
    """Return the number, or None where it is NaN or infinite, which JSON cannot hold."""
    return value if math.isfinite(value) else None


def _frame_release(kind: str, body: bytes) -> bytes:
    return codec.frame(Envelope(0, 0, 0, "runner", "", kind, Clients(()), body))
