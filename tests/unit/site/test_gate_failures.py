"""Failures of trainers behind SecurefgFilter, as FLARE's own client runs and answers them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("nvflare")
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.executor import Executor
from nvflare.apis.filter import FilterChainType, FilterContextKey
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReservedKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.fl_exception import UnsafeJobError
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.fuel.utils.config_service import ConfigService
from nvflare.private.fed.client.client_engine_executor_spec import TaskAssignment
from nvflare.private.fed.client.client_runner import ClientRunner, ClientRunnerConfig, TaskRouter

from securefg.flare.filters import ModelReceived, SecurefgFilter
from securefg.foundation.errors import PrivacyError
from securefg.site.books import SiteBooks
from securefg.site.gate import Gate, Update, open_home
from securefg.site.policy import POLICY_FILE, JobRefused, SitePolicy

MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    open_home(tmp_path / "site-1")
    return tmp_path / "site-1"


class Engine:
    """As much of a client's engine as its runner asks for."""

    handlers: list[Any] = []  # noqa: RUF012

    def get_all_components(self) -> dict[str, Any]:
        return {}

    def register_aux_message_handler(self, **handler: Any) -> None:
        pass

    def fire_event(self, event: str, fl_ctx: FLContext) -> None:
        pass


class Trainer(Executor):  # type: ignore[misc]
    def __init__(self, train: Callable[[], Any]) -> None:
        super().__init__()
        self._train = train

    def execute(self, *task: Any) -> Any:
        return self._train()


def answer_task(
    home: Path, train: Callable[[], Any], model: dict[str, Any] = MODEL, **settings: Any
) -> Shareable:
    """Return what FLARE's client answers to a task, without its audit's random number."""
    ConfigService.initialize({}, [str(home)], None)
    router, engine = TaskRouter(), Engine()
    router.add_executor(["train"], Trainer(train))
    gate = SecurefgFilter(str(home.parent / "{site}"), 1.0, 2.0, **settings)
    received = ModelReceived()
    gate.set_prop(FilterContextKey.CHAIN_TYPE, FilterChainType.TASK_RESULT_CHAIN)
    chains = ({f"train/{FilterKey.IN}": [received]}, {f"train/{FilterKey.OUT}": [gate]})
    runner = ClientRunner({}, ClientRunnerConfig(router, *chains), "job-1", engine)
    where = FLContextManager(engine, "site-1", "job-1", {}, {}).new_context()
    where.set_prop(FLContextKey.RUNNER, runner, private=True)
    server = FLContext()
    server.set_prop(ReservedKey.RUN_NUM, "job-1", private=False)
    where.set_peer_context(server)
    task = DXO(DataKind.WEIGHTS, model).to_shareable()
    reply = runner._do_process_task(TaskAssignment("train", "1", task), where)
    reply["__headers__"].pop(ReservedKey.AUDIT_EVENT_ID, None)
    return reply


def raise_error(error: BaseException) -> Callable[[], Any]:
    def train() -> Any:
        raise error

    return train


def send_weights(kind: str = DataKind.WEIGHTS) -> Callable[[], Shareable]:
    return lambda: DXO(kind, {"w": MODEL["w"] + 1}).to_shareable()


FAILURES = {
    "an error": raise_error(ValueError("row 4711")),
    "an error that aborts FLARE's jobs": raise_error(RuntimeError("row 4711")),
    "an exit": raise_error(SystemExit(3)),
    "an unsafe job": raise_error(UnsafeJobError("row 4711")),
    "no result": lambda: None,
    "a code": lambda: make_reply(ReturnCode.BAD_TASK_DATA),
    "metrics": lambda: DXO(DataKind.METRICS, {"loss": 0.1}).to_shareable(),
}


@pytest.mark.parametrize("name", FAILURES)
def test_filter_trainer_that_raises_is_booked_and_answered_alike(name: str, home: Path) -> None:
    left = answer_task(home, FAILURES[name])
    assert left.get_return_code() == ReturnCode.EXECUTION_EXCEPTION
    assert set(left) == {"__headers__"}
    assert len(SiteBooks(home).releases()) == 1


def test_filter_update_of_flares_own_client_is_gated(home: Path) -> None:
    left = answer_task(home, send_weights())
    assert 0 < np.abs(from_shareable(left).data["w"] - MODEL["w"]).max() < 60
    assert len(SiteBooks(home).releases()) == 1


@pytest.mark.parametrize("model", [{"seen": np.array(3)}, {"w": np.full(6, 65500, np.float16)}])
def test_filter_unfit_model_hides_whether_training_failed(
    model: dict[str, Any], home: Path
) -> None:
    """A server could otherwise ask for free, as often as it likes, whether training failed."""
    answers = [answer_task(home, train, model) for train in (send_weights(), *FAILURES.values())]
    assert {left.get_return_code() for left in answers} == {ReturnCode.TASK_RESULT_FILTER_ERROR}
    assert SiteBooks(home).releases() == []


def test_filter_without_flares_runner_does_nothing(home: Path) -> None:
    """Failures could then pass the filters by."""
    where = FLContextManager(Engine(), "site-1", "job-1", {}, {}).new_context()
    with pytest.raises(PrivacyError, match="runner"):
        ModelReceived().process(DXO(DataKind.WEIGHTS, MODEL).to_shareable(), where)


@pytest.mark.parametrize("kind", [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF])
def test_filter_kind_that_leaves_is_the_sites_choice(kind: str, home: Path) -> None:
    """Without noise, a trainer's own kind would be a message to the server."""
    left = from_shareable(answer_task(home, send_weights(kind)))
    assert left.data_kind == DataKind.WEIGHTS
    assert 0 < np.abs(left.data["w"] - MODEL["w"]).max() < 60
    changed = from_shareable(answer_task(home, send_weights(kind), sends=DataKind.WEIGHT_DIFF))
    assert changed.data_kind == DataKind.WEIGHT_DIFF
    assert 0 < np.abs(changed.data["w"]).max() < 60


def test_gate_two_processes_at_once_keep_the_rounds_of_the_floor(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both look at the number of updates before either of them books."""
    floor = home / POLICY_FILE
    floor.write_text(floor.read_text().replace("max_rounds: 50", "max_rounds: 1"))
    both, about = threading.Barrier(2), SitePolicy.about

    def wait_for_other(*asked: Any, **more: Any) -> list[str]:
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        return about(*asked, **more)

    monkeypatch.setattr(SitePolicy, "about", wait_for_other)
    gate, refused = Gate.of(home, 1.0, 2.0, "replace_one"), []

    def send_update() -> None:
        try:
            gate.pass_on("job-1", MODEL, lambda: Update(MODEL, is_change=False))
        except JobRefused as error:
            refused.append(str(error))

    senders = [threading.Thread(target=send_update) for _ in range(2)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert len(SiteBooks(home).releases()) == len(refused) == 1
