"""SecurefgFilter on results of jobs that are not ours: what leaves, what is booked, what is not."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("nvflare")
from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.filter import FilterChainType, FilterContextKey
from nvflare.apis.fl_constant import FilterKey, FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext, FLContextManager
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.utils.task_utils import apply_filters
from nvflare.apis.workspace import Workspace
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.logging.job_log_streamer import JobLogStreamer
from nvflare.private.fed.app.fl_conf import create_privacy_manager
from nvflare.widgets.fed_event import ClientFedEventRunner
from typer.testing import CliRunner

import securefg
from securefg.cli.main import app
from securefg.flare.filters import ModelReceived, SecurefgFilter
from securefg.foundation.errors import BudgetExceeded, ConfigError, PrivacyError
from securefg.protocol.exchange import Claim
from securefg.site.books import SiteBooks
from securefg.site.gate import Gate, Update, UpdateRefused, open_home
from securefg.site.policy import POLICY_FILE, JobRefused

HALF_A_STEP = 2.0**-9
"""Of the grid of local noise, for a clip of 1 and the filter's default noise."""
MODEL = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros((), np.float32)}


class Engine:
    """As much of a client's engine as filters ask for."""

    def __init__(self) -> None:
        self.runner = ClientFedEventRunner()
        self.runner.ready = True
        self.handlers = [self.runner]
        self.components: dict[str, Any] = {}

    def get_all_components(self) -> dict[str, Any]:
        return self.components


@pytest.fixture
def home(tmp_path: Path) -> Path:
    open_home(tmp_path / "site-1")
    return tmp_path / "site-1"


class Runner:
    """As much of a client's runner as filters ask for."""

    def __init__(self) -> None:
        self.execute = lambda *task: None

    def find_executor(self, task_name: str) -> Runner:
        return self


def context(job: str = "job-1", site: str = "site-1") -> FLContext:
    made = FLContextManager(Engine(), site, job, {}, {}).new_context()
    made.set_prop(FLContextKey.RUNNER, Runner(), private=True, sticky=False)
    return made


def task(model: dict[str, Any] | None = None) -> Shareable:
    made = DXO(DataKind.WEIGHTS, MODEL if model is None else model).to_shareable()
    made.set_header(AppConstants.CURRENT_ROUND, 3)
    return made


def trained(step: float = 100.0) -> dict[str, Any]:
    return {name: np.asarray(value + step, np.float32) for name, value in MODEL.items()}


def gate(
    home: Path, noise: float = 2.0, clip: float = 1.0, sends: Any = "WEIGHTS"
) -> SecurefgFilter:
    made = SecurefgFilter(str(home.parent / "{site}"), clip, noise, sends=sends)
    made.set_prop(FilterContextKey.CHAIN_TYPE, FilterChainType.TASK_RESULT_CHAIN)
    return made


def through(home: Path, result: Shareable, noise: float = 2.0, **asked: Any) -> Shareable:
    where = context(asked.pop("job", "job-1"))
    ModelReceived().process(task(asked.pop("model", None)), where)
    return gate(home, noise, **asked).process(result, where)


def weights(values: Any = None, kind: str = DataKind.WEIGHTS, **meta: Any) -> Shareable:
    return DXO(kind, trained() if values is None else values, meta).to_shareable()


def test_an_update_is_clipped_around_the_model_that_came_noised_and_booked(home: Path) -> None:
    left = from_shareable(through(home, weights(), noise=1e-3 + 1, clip=1e-3))
    moved = np.concatenate([(left.data[n] - MODEL[n]).ravel() for n in MODEL])
    assert np.abs(moved).max() < 0.1  # it had moved by 100
    assert {n: (x.shape, x.dtype) for n, x in left.data.items()} == {
        n: (x.shape, x.dtype) for n, x in MODEL.items()
    }
    assert len(SiteBooks(home).releases()) == 1
    assert SiteBooks(home).spent("client", 1e-5).epsilon == pytest.approx(4.376, abs=0.02)


def test_the_noise_has_the_size_that_is_booked(home: Path) -> None:
    model = {"w": np.zeros(20000, np.float64)}
    left = through(home, weights({"w": np.zeros(20000)}), noise=2.0, model=model)
    assert np.std(from_shareable(left).data["w"]) == pytest.approx(2.0 * 2 * 1.0, rel=0.03)


@pytest.mark.parametrize(("noise", "is_broken"), [(1.25, True), (2.5, False)])
def test_recorded_filter_with_half_the_claimed_noise_is_a_violation(
    noise: float, is_broken: bool, home: Path, tmp_path: Path
) -> None:
    model = {"w": np.zeros(200)}
    claim = Claim(epsilon=2.3, delta=1e-5, clip_l2=1.0, sigma=5.0)
    with securefg.record(tmp_path / "x", holds="change", claim=claim) as recording:
        for number in (1, 2):
            result = weights({"w": np.ones(200)}, DataKind.WEIGHT_DIFF)
            left = from_shareable(through(home, result, noise, model=model, sends="WEIGHT_DIFF"))
            recording.upload(0, number, left.data)
    found = CliRunner().invoke(app, ["audit", str(tmp_path / "x"), "--only", "promises"])
    assert found.exit_code == (1 if is_broken else 0), found.output


def test_all_arrays_are_clipped_together(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = lambda self, shape, clients, name: torch.zeros(shape, dtype=torch.float64)  # noqa: E731
    monkeypatch.setattr("securefg.privacy.noise.SystemNoise.normal", silent)
    base = {name: np.zeros(4) for name in "cab"}
    update = {name: np.full(4, 7.0) for name in "abc"}
    left = from_shareable(through(home, weights(update), model=base)).data
    assert {name: x.tolist() for name, x in left.items()} == {
        name: pytest.approx([12**-0.5] * 4, abs=HALF_A_STEP) for name in "abc"
    }
    by_order = {"a": np.array([3.0]), "b": np.array([[0.0, 4.0]])}
    zeros = {"b": np.zeros((1, 2)), "a": np.zeros(1)}
    cut = from_shareable(through(home, weights(by_order), model=zeros)).data
    assert cut["a"] == pytest.approx(0.6, abs=HALF_A_STEP)
    assert cut["b"] == pytest.approx(np.array([[0.0, 0.8]]), abs=HALF_A_STEP)


def test_differences_and_tensors_pass_as_what_they_are(home: Path) -> None:
    model = {"w": torch.ones(3, dtype=torch.bfloat16)}
    found = from_shareable(
        through(home, weights({"w": torch.ones(3, dtype=torch.bfloat16)}), model=model)
    )
    assert found.data["w"].dtype == torch.bfloat16
    result = weights(kind=DataKind.WEIGHT_DIFF)
    change = from_shareable(through(home, result, job="job-2", sends="WEIGHT_DIFF"))
    assert change.data_kind == DataKind.WEIGHT_DIFF


@pytest.mark.parametrize("kind", [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF])
@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_filter_whole_numbers_leave_as_they_came(
    make: Callable[[int], Any], kind: str, home: Path
) -> None:
    """The trained counter would tell how many batches a site has."""
    model = {**MODEL, "seen": make(3)}
    result = weights({**trained(), "seen": make(412)}, kind)
    left = through(home, result, model=model, sends=kind)
    found = from_shareable(left).data
    assert found["seen"] == (3 if kind == DataKind.WEIGHTS else 0)
    assert found["seen"].dtype == model["seen"].dtype
    assert len(SiteBooks(home).releases()) == 1


@pytest.mark.parametrize("seen", [np.array(412), np.array(3.0, np.float32)])
def test_filter_averaged_counter_is_noised_whatever_its_type(seen: Any, home: Path) -> None:
    """Without noise, the type of a single number would be a message to the server."""
    model = {**MODEL, "seen": np.array(3.0, np.float32)}
    found = from_shareable(through(home, weights({**trained(), "seen": seen}), model=model)).data
    assert 0 < abs(found["seen"] - 3) < 200


def test_filter_model_of_whole_numbers_only_is_refused(home: Path) -> None:
    with pytest.raises(PrivacyError, match="whole numbers only"):
        through(home, weights({"seen": np.array(4)}), model={"seen": np.array(3)})
    assert SiteBooks(home).releases() == []


def test_a_trainer_that_changes_the_model_in_place_is_clipped_all_the_same(home: Path) -> None:
    where, came = context(), task({"w": np.zeros(3)})
    ModelReceived().process(came, where)
    array = from_shareable(came).data["w"]
    array += 1e6
    left = from_shareable(gate(home).process(weights({"w": array}), where)).data["w"]
    assert np.abs(left).max() < 100


def test_nothing_else_leaves_beside_the_update(home: Path) -> None:
    result = weights(**{MetaKey.NUM_STEPS_CURRENT_ROUND: 17, "initial_metrics": {"loss": 0.1}})
    result["more"] = "rows"
    result.set_header("also", "rows")
    result.set_header(AppConstants.CURRENT_ROUND, 99)
    left = through(home, result)
    assert from_shareable(left).meta == {MetaKey.NUM_STEPS_CURRENT_ROUND: 1}
    assert set(left) == {"__headers__", "DXO"}
    assert left["__headers__"] == {"__content_type__": "DXO", AppConstants.CURRENT_ROUND: 3}


def test_a_failure_tells_its_code_and_nothing_else(home: Path) -> None:
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION, {"why": "row 7"})
    failed["rows"] = [1, 2]
    left = through(home, failed)
    assert left == make_reply(ReturnCode.EXECUTION_EXCEPTION)
    for code in ("account 4711", ReturnCode.BAD_TASK_DATA, ReturnCode.MISSING_PEER_CONTEXT):
        spoken = through(home, make_reply(code))
        assert spoken == make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert len(SiteBooks(home).releases()) == 4  # that a trainer failed may tell of the data


BAD: dict[str, Callable[[], Shareable]] = {
    "no DXO": Shareable,
    "kind METRICS": lambda: weights({"loss": 0.1}, DataKind.METRICS),
    "kind COLLECTION": lambda: DXO(
        DataKind.COLLECTION, {"x": DXO(DataKind.WEIGHTS, MODEL)}
    ).to_shareable(),
    "kind of another version": lambda: weights(kind="WEIGHTS_V2"),
    "nothing in it": lambda: weights({}),
    "another name": lambda: weights({**trained(), "more": np.zeros(1)}),
    "a name less": lambda: weights({"w": trained()["w"]}),
    "another shape": lambda: weights({**trained(), "w": np.zeros((3, 2))}),
    "whole numbers": lambda: weights({**trained(), "w": np.ones((2, 3), np.int64)}),
    "objects": lambda: weights({**trained(), "b": np.array({"row": 1}, object)}),
    "a list": lambda: weights({**trained(), "b": 0.0}),
    "encoded by another": lambda: weights(**{MetaKey.PROCESSED_ALGORITHM: "HE"}),
}


@pytest.mark.parametrize("name", BAD)
def test_gate_unfit_update_is_booked_and_looks_like_a_failure(name: str, home: Path) -> None:
    """A trainer could tell of the data by the shape that it sends."""
    left = through(home, BAD[name]())
    assert left == make_reply(ReturnCode.EXECUTION_EXCEPTION)
    assert len(SiteBooks(home).releases()) == 1
    assert "UpdateRefused" in (home / "refusals.jsonl").read_text()


def test_gate_budget_ends_repeated_refusals(home: Path) -> None:
    change_floor(home, "epsilon: 8.0", "epsilon: 3.5")  # for two updates, of whatever jobs
    answers = []
    for number in range(6):
        try:
            answers.append(through(home, BAD["another shape"](), job=f"job-{number}"))
        except BudgetExceeded:
            answers.append(None)
    assert answers == [make_reply(ReturnCode.EXECUTION_EXCEPTION)] * 2 + [None] * 4
    assert len(SiteBooks(home).releases()) == 2
    with pytest.raises(BudgetExceeded):  # the next good update gets nothing either
        through(home, weights(), job="another")


def test_gate_floor_ends_repeated_refusals_of_a_job(home: Path) -> None:
    change_floor(home, "max_rounds: 50", "max_rounds: 2")
    for _ in range(2):
        through(home, BAD["a name less"]())
    with pytest.raises(JobRefused, match="update 3 of job-1"):
        through(home, BAD["a name less"]())


def test_gate_books_before_it_reads_the_update(home: Path) -> None:
    opened = Gate.of(home, 1.0, 2.0, "replace_one")

    def read_update() -> Update:
        assert len(SiteBooks(home).releases()) == 1
        raise ValueError("row 4711")

    with pytest.raises(UpdateRefused):
        opened.pass_on("job-1", MODEL, read_update)
    assert len(SiteBooks(home).releases()) == 1


def test_gate_unfit_model_is_refused_unread(home: Path) -> None:
    opened = Gate.of(home, 1.0, 2.0, "replace_one")
    for model in ({"w": [1.0]}, {"w": np.array(["a"])}, {}):
        with pytest.raises(PrivacyError):
            opened.pass_on("job-1", model, lambda: pytest.fail("read"))  # type: ignore[arg-type]
    assert SiteBooks(home).releases() == []


def test_noise_that_does_not_fit_the_model_that_came_is_refused(home: Path) -> None:
    half = {**MODEL, "w": np.zeros((2, 3), np.float16)}
    with pytest.raises(PrivacyError, match="fits into float16"):
        through(home, weights(), noise=1e6, model=half)
    assert SiteBooks(home).releases() == []


@pytest.mark.parametrize("kind", [DataKind.WEIGHTS, DataKind.WEIGHT_DIFF])
@pytest.mark.parametrize("odd", [np.float64, np.float16])
def test_types_and_order_are_those_of_the_model_that_came(odd: type, kind: str, home: Path) -> None:
    """Without noise, a trainer's own types and order would be a message to the server."""
    turned = {name: trained()[name].astype(odd) for name in reversed(MODEL)}
    found = from_shareable(through(home, weights(turned, kind))).data
    assert list(found) == list(MODEL)
    assert {name: x.dtype for name, x in found.items()} == {n: x.dtype for n, x in MODEL.items()}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gate_number_not_finite_leaves_as_zero_and_is_booked(
    bad: float, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error before the noise would tell the server that the training diverged."""
    silent = lambda self, shape, clients, name: torch.zeros(shape, dtype=torch.float64)  # noqa: E731
    monkeypatch.setattr("securefg.privacy.noise.SystemNoise.normal", silent)
    update = {"w": np.array([0.3, bad, 0.4])}
    left = from_shareable(through(home, weights(update), model={"w": np.zeros(3)})).data
    assert left["w"] == pytest.approx([0.3, 0.0, 0.4], abs=HALF_A_STEP)
    assert len(SiteBooks(home).releases()) == 1


def test_without_the_model_that_came_nothing_leaves(home: Path) -> None:
    with pytest.raises(PrivacyError, match="ModelReceived"):
        gate(home).process(weights(kind=DataKind.WEIGHT_DIFF), context())
    where = context()
    ModelReceived().process(Shareable(), where)
    with pytest.raises(PrivacyError, match="no model came"):
        gate(home).process(weights(), where)


def test_among_the_task_data_filters_it_refuses(home: Path) -> None:
    found = gate(home)
    found.set_prop(FilterContextKey.CHAIN_TYPE, FilterChainType.TASK_DATA_CHAIN)
    with pytest.raises(PrivacyError, match="for task results"):
        found.process(weights(), context())


def test_measurements_and_logs_do_not_go_past_it() -> None:
    where = context()
    ModelReceived().process(task(), where)
    assert not where.get_engine().runner.ready  # FLARE's own: it drops events that are fired
    where.get_engine().components["logs"] = JobLogStreamer()
    with pytest.raises(PrivacyError, match="logs"):
        ModelReceived().process(task(), where)


def change_floor(home: Path, old: str, new: str) -> None:
    text = (home / POLICY_FILE).read_text()
    assert old in text
    (home / POLICY_FILE).write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("least_noise: 1.0", "least_noise: 2.5", "noise multiplier 2; wanted 2.5"),
        ("max_clip_l2: 100.0", "max_clip_l2: 0.5", "clipped at 1; at most: 0.5"),
        ("masking: optional", "masking: required", "without masks"),
        ("- nvflare", "- fedgl", "a job of nvflare; allowed here: fedgl"),
        ("max_rounds: 50", "max_rounds: 1", "update 2 of job-1; allowed here: 1"),
        ("- client", "- node", "epsilon is per client; allowed here: node"),
        ("- replace_one", "- zero_out", "the relation replace_one"),
    ],
)
def test_the_floor_refuses(old: str, new: str, reason: str, home: Path) -> None:
    through(home, weights())
    change_floor(home, old, new)
    with pytest.raises(JobRefused, match=reason):
        through(home, weights())
    assert len(SiteBooks(home).releases()) == 1
    noted = [json.loads(x) for x in (home / "refusals.jsonl").read_text().splitlines()]
    assert [reason in line["reason"] for line in noted] == [True]


def test_the_budget_is_of_all_jobs_together(home: Path) -> None:
    change_floor(home, "epsilon: 8.0", "epsilon: 3.5")
    through(home, weights(), job="one")  # noise multiplier 2: epsilon 1.98, both 2.9, three 3.7
    through(home, weights(), job="two")
    with pytest.raises(BudgetExceeded, match=r"this month's epsilon per client would be 3\.\d"):
        through(home, weights(), job="three")
    assert len(SiteBooks(home).releases()) == 2


def test_jobs_at_the_same_time_do_not_spend_the_same_budget(home: Path) -> None:
    change_floor(home, "epsilon: 8.0", "epsilon: 3.5")  # for two of them

    def send_job(number: int) -> bool:
        try:
            through(home, weights(), job=f"job-{number}")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(6) as pool:
        passed = list(pool.map(send_job, range(6)))
    assert sum(passed) == len(SiteBooks(home).releases()) == 2


def test_gate_processes_at_once_send_no_more_than_max_rounds(home: Path) -> None:
    change_floor(home, "max_rounds: 50", "max_rounds: 2")
    together = threading.Barrier(4)

    def pass_one() -> bool:
        together.wait()
        try:
            through(home, weights())
        except JobRefused:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        passed = [done.result() for done in [pool.submit(pass_one) for _ in range(4)]]
    rounds = [line["request"]["round"] for line in SiteBooks(home).releases()]
    assert sum(passed) == 2
    assert rounds == [1, 2]


def test_gate_restart_after_booking_books_the_update_anew(home: Path) -> None:
    """A process that ends between the books and the reply has spent, whatever left."""

    def end_process() -> Update:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Gate.of(home, 1.0, 2.0, "replace_one").pass_on("job-1", MODEL, end_process)
    again = Gate.of(home, 1.0, 2.0, "replace_one")
    again.pass_on("job-1", MODEL, lambda: Update(trained(), is_change=False))
    assert [line["request"]["round"] for line in SiteBooks(home).releases()] == [1, 2]


@pytest.mark.parametrize("missing", [POLICY_FILE, "ledger.jsonl", "ledger.jsonl.head"])
def test_without_floor_or_books_nothing_leaves(missing: str, home: Path) -> None:
    (home / missing).unlink()
    with pytest.raises((ConfigError, PrivacyError), match=r"no policy|no log|no head of this log"):
        through(home, weights())


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises((ConfigError, PrivacyError)):
        through(tmp_path / "site-1", weights())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("clip", "noise"), [(0, 1), (1, 0), (1, -1), (float("nan"), 1), (1, float("inf")), (True, 1)]
)
def test_a_clip_or_noise_that_is_no_positive_number_is_refused(
    clip: float, noise: float, home: Path
) -> None:
    with pytest.raises(ConfigError, match="wanted a positive number"):
        through(home, weights(), noise=noise, clip=clip)


def test_filter_unknown_kind_to_send_is_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="sends: found 'METRICS'"):
        gate(home, sends="METRICS")


def test_a_site_name_cannot_lead_to_another_home(home: Path) -> None:
    where = context(site="x/../site-1")
    ModelReceived().process(task(), where)
    with pytest.raises(PrivacyError, match="a site called"):
        gate(home).process(weights(), where)


def test_a_home_with_something_in_it_is_not_taken(home: Path) -> None:
    with pytest.raises(ConfigError, match="is not empty"):
        open_home(home)


def test_the_documented_commands_open_a_home_and_show_its_books(tmp_path: Path) -> None:
    home = tmp_path / "site-1"
    assert CliRunner().invoke(app, ["deploy", "floor", str(home)]).exit_code == 0
    through(home, weights(), noise=2.5)
    told = CliRunner().invoke(app, ["deploy", "ledger", str(home)]).output
    assert "nvflare.update" in told
    assert "this month: epsilon 1.555 per client of 8" in told
    assert CliRunner().invoke(app, ["deploy", "floor", str(home)]).exit_code != 0


def site_with_privacy(folder: Path, home: Path) -> Any:
    """FLARE's own reading of the documented `local/privacy.json`."""
    page = Path("docs/howto/flare_filter.md").read_text()
    blocks = [block.split("```")[0] for block in page.split("```json\n")[1:]]
    (text,) = [block for block in blocks if "/srv/securefg" in block]
    (folder / "local").mkdir(parents=True)
    (folder / "startup").mkdir()
    (folder / "local" / "privacy.json").write_text(text.replace("/srv/securefg", str(home)))
    return create_privacy_manager(Workspace(str(folder), "site-1"), names_only=False)


def test_in_a_sites_own_policy_no_job_comes_past_it(home: Path, tmp_path: Path) -> None:
    manager = site_with_privacy(tmp_path / "flare", home)
    assert manager.get_scope("another") is None  # FLARE refuses a job of a scope not named here
    where = context()
    where.set_prop(FLContextKey.SCOPE_OBJECT, manager.get_scope(""), private=True)
    came = apply_filters("task_data_filters", task(), where, {}, "any task", FilterKey.IN)
    assert from_shareable(came).data is not None
    left = apply_filters("task_result_filters", weights(), where, {}, "any task", FilterKey.OUT)
    moved = from_shareable(left).data["w"] - MODEL["w"]
    assert 0 < np.abs(moved).max() < 60
    assert len(SiteBooks(home).releases()) == 1
