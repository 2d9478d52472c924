"""Every engine checks a request completely before a host sees it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from securefg.engines.inprocess import InProcess
from securefg.federation.engine import Engine
from securefg.foundation.errors import PrivacyError, ProtocolError
from securefg.methods.registry import get_method
from securefg.protocol import codec
from securefg.protocol.bounds import Bound, Rounds, check_value
from securefg.protocol.codec import Envelope
from securefg.runs.assembly import Experiment, prepare, start_engine
from securefg.runs.folder import RunFolder
from securefg.settings.methods import SHIPPED
from tests.small import config

LENGTH = 30 * 16 + 16 * 2
GOOD: dict[str, Any] = {"weights": torch.full((LENGTH,), 0.1), "index_size": 120}
BAD: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("fedgl.Globals", {"weights": torch.zeros(3)}, {}, r"weights: found the shape \(3,\)"),
    ("fedgl.Globals", {"weights": torch.full((LENGTH,), float("nan"))}, {}, "found NaN"),
    ("fedgl.Globals", {"weights": torch.zeros(LENGTH).double()}, {}, "found torch.float64"),
    ("fedgl.Globals", {"index_size": 119}, {}, "index_size: found 119; expected whole numbers"),
    (
        "fedgl.Globals",
        {"pseudo_labels": torch.full((120,), 2)},
        {},
        "found numbers from 2 to 2; expected whole numbers from -1 to 1",
    ),
    ("fedgl.Globals", {"released": torch.ones(120)}, {}, "expected truth values"),
    ("fedgl.Globals", {"graph_counts": torch.zeros(120).int()}, {}, "expected the whole graph"),
    ("fedgl.Globals", {}, {"round": 5}, "round: found 5; expected 0 to 4"),
    ("fedgl.UpdateCount", {}, {}, "the plan of this run has none"),
    ("fedgl.Update", {}, {}, "which is no request of fedgl"),
    ("redo/fedgl.Globals", {}, {}, "a request to do it again; expected none"),
]


@contextmanager
def started(root: Path, *overrides: str) -> Iterator[tuple[Experiment, Engine]]:
    experiment = prepare(config(root, *overrides))
    folder = RunFolder.create(experiment.config, lambda path: None, False)
    engine = start_engine(experiment, folder, 1, None)
    try:
        yield experiment, engine
    finally:
        engine.close()


def framed(engine: Engine, kind: str, fields: dict[str, Any], **changes: Any) -> bytes:
    clients = engine.hosts["client-0"]
    envelope = Envelope(0, 1, 1, "server", "client-0", kind, clients, b"")
    if kind == "fedgl.UpdateCount":
        fields = {"number": 1}
    if kind == "fedgl.Update":
        fields = {"weights": torch.zeros(1, LENGTH)}
    return codec.frame_fields(replace(envelope, **changes), fields)


@pytest.mark.parametrize("engine_name", ["inprocess", "processes"])
def test_engine_request_beyond_bounds_or_plan_reaches_no_host(
    engine_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(tmp_path, f"engine.name={engine_name}") as (_, engine):
        calls = []
        if isinstance(engine, InProcess):
            host = type(engine._endpoints["client-0"].host)
            monkeypatch.setattr(host, "handle", lambda *args: calls.append(args))
        for kind, change, envelope, reason in BAD:
            request = framed(engine, kind, GOOD | change, **envelope)
            with pytest.raises((ProtocolError, PrivacyError), match=reason):
                engine.deliver({"client-0": request})
        assert calls == []


@pytest.mark.parametrize("engine_name", ["inprocess", "processes"])
def test_engine_model_beyond_bounds_is_not_scored(engine_name: str, tmp_path: Path) -> None:
    with started(tmp_path, f"engine.name={engine_name}") as (_, engine):
        short = framed(engine, "fedgl.Globals", GOOD | {"weights": torch.zeros(3)})
        with pytest.raises(ProtocolError, match=r"weights: found the shape \(3,\)"):
            engine.measure(short)
        with pytest.raises(ProtocolError, match="the model that fedgl releases"):
            engine.measure(framed(engine, "fedgl.UpdateCount", {}))


def test_engine_request_within_bounds_is_answered(tmp_path: Path) -> None:
    with started(tmp_path) as (_, engine):
        answers = engine.deliver({"client-0": framed(engine, "fedgl.Globals", GOOD)})
        assert codec.unframe(answers["client-0"].framed).kind == "fedgl.Update"  # type: ignore


def test_host_plan_holds_no_graph_and_no_labels(tmp_path: Path) -> None:
    """A server may be entitled to the graph; hosts are not."""
    overrides = ("method={name: nfedgnn}", "partition={name: one_node}")
    with started(tmp_path, *overrides) as (experiment, engine):
        assert experiment.public.edge_index is not None
        assert isinstance(engine, InProcess)
        public = next(iter(engine._endpoints.values())).admission._plan.public
        assert public.edge_index is None
        assert public.known_labels is None
        assert public.trainers is None


def small_experiment(name: str, root: Path) -> Experiment:
    """Prepare a small run of a shipped method with the partition that it needs."""
    one_node = ("fedmlp", "gfl_appnp", "nfedgnn", "mlps", "label_propagation", "pseudo_sums")
    partition = "one_node" if name in one_node else "random"
    if name.startswith("ppfl"):
        partition = "public_private"
    rounds = f"training.rounds={1 if name.endswith(('_sum', '_sums', '_counts')) else 4}"
    chosen = (f"partition={{name: {partition}}}", rounds)
    return prepare(config(root, *chosen, method=name))


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_method_shipped_bounds_every_field_that_a_server_sends(name: str, tmp_path: Path) -> None:
    experiment = small_experiment(name, tmp_path)
    method = get_method(name)
    assert method.unbounded(experiment.config.method, experiment.public) == []
    assert method.has_known_replies


def test_method_of_ones_own_with_known_network_has_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The weights of a network whose layout METHOD.networks gives need no bounds of their own."""
    monkeypatch.syspath_prepend("examples/own_method")
    experiment = prepare(config(tmp_path, "method={name: fedsage}"))
    method = experiment.method
    assert method.unbounded(experiment.config.method, experiment.public) == []
    (bound,) = method.bounds(experiment.config.method, experiment.public).values()
    assert bound.kind == "real"


def value_within(bound: Bound) -> Any:
    """Return a value at the bound's lower end, or 0."""
    low = 2 if bound.round else max(bound.low, -3.0) if bound.has_range else 0.0
    if bound.round or not bound.shape:
        return {"real": float, "whole": int, "truth": bool}[bound.kind](low)
    dtype = {"real": torch.get_default_dtype(), "whole": torch.int64, "truth": torch.bool}
    return torch.full([size or 3 for size in bound.shape], low, dtype=dtype[bound.kind])


def values_outside(bound: Bound) -> Iterator[Any]:
    """Values of another kind, shape or range than the bound admits."""
    good = value_within(bound)
    yield "text"
    if not isinstance(good, torch.Tensor):
        yield from (torch.zeros(2), float("nan"), True if bound.kind != "truth" else 1)
        return
    yield good[None]
    yield good.double() if bound.kind == "real" else good.float()
    if bound.kind == "real":
        yield torch.full_like(good, float("nan"))
        yield torch.full_like(good, float("inf"))
    if bound.low > -torch.inf:
        yield torch.full_like(good, bound.low - 1)
    if bound.high < torch.inf:
        yield torch.full_like(good, bound.high + 1)


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_bounds_of_every_request_refuse_values_outside(name: str, tmp_path: Path) -> None:
    """Requests of masked runs are among them: censuses, recipients' sums."""
    experiment = small_experiment(name, tmp_path)
    bounds = get_method(name).bounds(experiment.config.method, experiment.public)
    for (kind, field), bound in bounds.items():
        check_value(f"{kind}.{field}", value_within(bound), bound, Rounds(2, 2))
        for bad in values_outside(bound):
            with pytest.raises(ProtocolError, match=field):
                check_value(f"{kind}.{field}", bad, bound, Rounds(2, 2))
