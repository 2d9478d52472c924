"""Filters that put a site's gate on any NVIDIA FLARE job: nothing else of securefg is needed.

    "task_data_filters":   [{"path": "securefg.flare.filters.ModelReceived"}]
    "task_result_filters": [{"path": "securefg.flare.filters.SecurefgFilter",
                             "args": {"home": ..., "clip_l2": 1.0, "noise_multiplier": 5.0}}]

In the site's own `local/privacy.json` no job can leave them out; in a job's config they are its
author's word. A result that may not leave looks like a trainer that failed, and is booked as an
update is. A task whose model does not fit, and a job that the floor or the budget refuses, is
answered with TASK_RESULT_FILTER_ERROR. No answer has anything else in it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.engine_spec import EngineSpec
from nvflare.apis.filter import Filter, FilterChainType, FilterContextKey
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.logging.job_log_streamer import JobLogStreamer
from nvflare.widgets.fed_event import ClientFedEventRunner
from torch import Tensor

from securefg.foundation.errors import ConfigError, PrivacyError
from securefg.settings.privacy import Adjacency
from securefg.site.gate import Array, Gate, Update, UpdateRefused

LOGGER: Final = logging.getLogger(__name__)
RECEIVED: Final = "securefg.received"
HEADERS: Final = (AppConstants.CURRENT_ROUND, AppConstants.NUM_ROUNDS, AppConstants.START_ROUND)


@dataclass(frozen=True)
class Received:
    """The model that a task came with, and the server's own numbers beside it."""

    arrays: dict[str, Array]
    headers: dict[str, int]


class ModelReceived(Filter):  # type: ignore[misc]
    """Among a site's task data filters: keeps the model as it came, closes the ways beside task
    results by which a job's components send measurements and logs, and catches trainers' errors."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Keep the model that came with the task, and close other ways out."""
        _close_other_ways(fl_ctx.get_engine())
        _catch_errors(fl_ctx)
        fl_ctx.set_prop(RECEIVED, _received_model(shareable), private=True, sticky=False)
        return shareable


class SecurefgFilter(Filter):  # type: ignore[misc]
    """Among a site's task result filters: only a clipped, noised and booked update leaves.

    home       the site's folder with its floor and books (`securefg deploy floor`); `{site}` in it
               is the site's name
    clip_l2, noise_multiplier, adjacency   of the whole update, as in `privacy` of a config
    sends      what leaves, whichever of the two a trainer makes: a trainer's own choice would be a
               message without noise
    """

    def __init__(
        self,
        home: str,
        clip_l2: float,
        noise_multiplier: float,
        adjacency: Adjacency = "replace_one",
        sends: Literal["WEIGHTS", "WEIGHT_DIFF"] = "WEIGHTS",
    ) -> None:
        super().__init__()
        if sends not in (DataKind.WEIGHTS, DataKind.WEIGHT_DIFF):
            raise ConfigError(f"sends: found {sends!r:.40}; expected WEIGHTS or WEIGHT_DIFF")
        self.home, self.adjacency = home, adjacency
        self.clip_l2, self.noise_multiplier, self.sends = clip_l2, noise_multiplier, sends

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """Return the result with a clipped, noised and booked update and nothing else."""
        if self.get_prop(FilterContextKey.CHAIN_TYPE) != FilterChainType.TASK_RESULT_CHAIN:
            raise PrivacyError("SecurefgFilter is for task results; nothing was sent")
        gate, job = self._open_gate(fl_ctx), _job_id(fl_ctx)
        received = fl_ctx.get_prop(RECEIVED)
        if not isinstance(received, Received):
            raise PrivacyError(
                "no model came with the task, or ModelReceived is not among the task data filters; "
                "nothing was sent"
            )

        def read_update() -> Update:
            dxo = _update_in(shareable)
            return Update(dxo.data, dxo.data_kind == DataKind.WEIGHT_DIFF)

        is_change = self.sends == DataKind.WEIGHT_DIFF
        try:
            left = gate.pass_on(job, received.arrays, read_update, sends_change=is_change)
        except UpdateRefused:
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        # Numbers of samples and scores come from data: every site counts alike, none tells any.
        reply = DXO(self.sends, left, {MetaKey.NUM_STEPS_CURRENT_ROUND: 1}).to_shareable()
        for name, value in received.headers.items():
            reply.set_header(name, value)
        return reply

    def _open_gate(self, fl_ctx: FLContext) -> Gate:
        site = str(fl_ctx.get_identity_name())
        if not site or not site.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise PrivacyError(f"a site called {site!r:.60}; nothing was sent")
        home = Path(self.home.replace("{site}", site))
        return Gate.of(home, self.clip_l2, self.noise_multiplier, self.adjacency)


def _job_id(fl_ctx: FLContext) -> str:
    job = fl_ctx.get_job_id()
    if not isinstance(job, str) or not job:
        raise PrivacyError("a task of no job; nothing was sent")
    return job


def _update_in(shareable: Shareable) -> DXO:
    """Return weights, or their difference. Raise where a trainer failed or made anything else:
    that it did may tell of the data, so all of that is booked and looks alike."""
    if shareable.get_return_code() != ReturnCode.OK:
        raise PrivacyError(f"the trainer failed: {shareable.get_return_code()!s:.60}")
    try:
        dxo = from_shareable(shareable)
    except Exception as error:
        raise PrivacyError("the result is no DXO; nothing was sent") from error
    if dxo.data_kind not in (DataKind.WEIGHTS, DataKind.WEIGHT_DIFF):
        raise PrivacyError(
            f"a result of kind {dxo.data_kind!s:.60}; allowed: WEIGHTS, WEIGHT_DIFF; "
            "nothing was sent"
        )
    if dxo.get_meta_prop(MetaKey.PROCESSED_ALGORITHM) is not None:
        raise PrivacyError("another filter has encoded the update; nothing was sent")
    if not isinstance(dxo.data, dict):
        raise PrivacyError("an update that is no set of arrays; nothing was sent")
    return dxo


def _received_model(task: Shareable) -> Received | None:
    try:
        dxo = from_shareable(task)
    except Exception:
        return None  # a task without a model: its result will be refused
    if dxo.data_kind != DataKind.WEIGHTS or not isinstance(dxo.data, dict):
        return None
    headers = {name: task.get_header(name) for name in HEADERS}
    return Received(
        {name: _copy_value(value) for name, value in dxo.data.items()},
        {name: value for name, value in headers.items() if type(value) is int},
    )


def _copy_value(value: Any) -> Any:
    """Trainers may change in place what they were sent."""
    return value.detach().clone() if isinstance(value, Tensor) else np.array(value)


@dataclass(frozen=True)
class QuietExecutor:
    """A trainer's `execute` whose errors become results: FLARE sends the codes of errors, which
    differ by kind, past the result filters."""

    execute: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Shareable:
        """Return the result, or that the trainer failed."""
        try:
            result = self.execute(*args, **kwargs)
        except BaseException:  # an exit, too, would tell
            LOGGER.exception("the trainer failed")  # for the site's own people
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        is_result = isinstance(result, Shareable)
        return result if is_result else make_reply(ReturnCode.EXECUTION_EXCEPTION)


def _catch_errors(fl_ctx: FLContext) -> None:
    """Make the task's trainer a quiet one. Raise where it is not known."""
    runner, task = fl_ctx.get_prop(FLContextKey.RUNNER), fl_ctx.get_prop(FLContextKey.TASK_NAME)
    executor = None if runner is None else runner.find_executor(task)
    if executor is None:
        raise PrivacyError("no runner of FLARE's, or no executor of the task; nothing was done")
    if not isinstance(executor.execute, QuietExecutor):
        executor.execute = QuietExecutor(executor.execute)


def _close_other_ways(engine: EngineSpec) -> None:
    components = engine.get_all_components().values()
    if any(isinstance(component, JobLogStreamer) for component in components):
        raise PrivacyError("the job sends its logs to the server; nothing was done")
    for handler in engine.handlers:
        if isinstance(handler, ClientFedEventRunner):
            handler.ready = False  # it drops events from here on
