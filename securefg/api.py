"""The names that a notebook imports: run, audit and curve as functions, with typed results."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml
from torch import nn

from attacks import expand_families
from attacks.base import Array, Attack, CannotAttack, View
from attacks.questions import Question
from audits.curves.command import draw_curve
from audits.plan import Plan
from audits.run import audit as _audit
from securefg.data.readers.folder import store
from securefg.flare import launch
from securefg.foundation.errors import InputError, SecurefgError
from securefg.foundation.extensions import only_known_modules
from securefg.foundation.files import write_atomically
from securefg.foundation.yaml_text import read_yaml
from securefg.models.given import reference
from securefg.reports.objects import AuditResult, CurveResult, RunResult
from securefg.runs.folder import RunFolder
from securefg.runs.observing import Observer, RoundReport, Several
from securefg.settings.config import RunConfig, parse_config
from securefg.settings.shipped import find_config

__all__ = [
    "Array",
    "Attack",
    "AuditResult",
    "CannotAttack",
    "CurveResult",
    "Interrupted",
    "Observer",
    "Question",
    "RoundReport",
    "RunResult",
    "View",
    "audit",
    "curve",
    "open_run",
    "run",
]

Config = RunConfig | Mapping[str, Any] | str | Path


class Interrupted(SecurefgError):
    """An observer asked for a stop; the same call goes on with the run."""


class GraphData(Protocol):
    """What is read of `torch_geometric.data.Data`: x, edge_index, y, and masks where it has any."""

    x: Any
    edge_index: Any
    y: Any


def run(
    config: Config,
    *,
    data: GraphData | str | Path | None = None,
    model: nn.Module | Callable[..., nn.Module] | None = None,
    overrides: Sequence[str] = (),
    observers: Sequence[Observer] = (),
    fresh: bool = False,
) -> RunResult:
    """Train; every message recorded and accounted.

    config     a file, a shipped config by name, a mapping, or a `RunConfig`
    data       instead of the config's: a `torch_geometric.data.Data`, or a folder of tables
    model      for the method `fedavg`: a class or function of (num_features, num_classes), or a
               network whose weights are the first global model
    overrides  `a.b=c`, as after `--set`
    observers  told of every round
    fresh      make a run anew that is there; else it is gone on with, or given as it is
    """
    settings = _run_config(config, data, model, overrides)
    path = settings.output.root / f"{settings.name}-s{settings.seed}-{settings.hash}"
    if path.exists() and not fresh:
        folder = RunFolder.open(path)
        if folder.finished:
            return RunResult.of(folder, trusted=True)
        outcome = launch.resume(folder, Several(tuple(observers)))
    else:
        outcome = launch.start(settings, Several(tuple(observers)), fresh=fresh)
    if outcome.summary is None:
        raise Interrupted(
            f"{outcome.folder.path}: an observer stopped the run; call again to go on"
        )
    return RunResult.of(outcome.folder, trusted=True)


def open_run(path: str | Path, *, trust_modules: bool = False) -> RunResult:
    """A finished run by its folder.

    trust_modules  import modules that the folder's config names, which runs their code
    """
    return RunResult.of(RunFolder.open(Path(path)), trust_modules)


def audit(
    run: RunResult | str | Path,
    *,
    only: Sequence[str] = (),
    attacks: Sequence[str] = (),
    adversaries: Sequence[str] = (),
    jobs: int = 2,
    seed: int = 0,
    trials: int = 100_000,
    overrides: Sequence[str] = (),
    trust_modules: bool = False,
) -> AuditResult:
    """Attack what was recorded; compare with what was promised.

    only           these attacks alone, or `promises`; stored findings of others stay
    attacks        attacks of your own beside the shipped ones, by module path
    adversaries    `server`, `client:3,5`, `wire`, `outsider`; one of each kind where none is named
    trust_modules  import modules that the folder's config names, which runs their code; what
                   `securefg.run` returned is trusted
    """
    path = run.path if isinstance(run, RunResult) else Path(run)
    trusted = trust_modules or (isinstance(run, RunResult) and run.trusted)
    plan = Plan(
        only=tuple(expand_families(only)),
        more=tuple(attacks),
        adversaries=tuple(adversaries),
        jobs=jobs,
        seed=seed,
        trials=trials,
        overrides=tuple(overrides),
    )
    with only_known_modules(unless=trusted):
        found = _audit(path, plan)
    return AuditResult(path, tuple(found.findings), tuple(found.failed), found.worst)


def curve(
    config: Mapping[str, Any] | str | Path,
    *,
    root: str | Path = "curves",
    jobs: int = 2,
    seeds: int | None = None,
    overrides: Sequence[str] = (),
) -> CurveResult:
    """Sweep a defence; only missing points are run. A mapping is stored as `ROOT/NAME.yaml`."""
    if isinstance(config, Mapping):
        path = Path(root) / f"{config.get('name', 'curve')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, yaml.safe_dump(_plain_config(config), sort_keys=False))
    else:
        path = Path(config)
    drawn = draw_curve(path, Path(root), jobs, seeds, None, list(overrides))
    failed = tuple((failure.key, failure.reason) for failure in drawn.failed)
    return CurveResult(drawn.data, drawn.page, failed)


def _run_config(
    config: Config,
    data: GraphData | str | Path | None,
    model: nn.Module | Callable[..., nn.Module] | None,
    overrides: Sequence[str],
) -> RunConfig:
    tree, name = _config_tree(config)
    if model is not None:
        method = tree.get("method", {})
        if method.get("name", "fedavg") != "fedavg":
            raise InputError(
                f"model: the config's method is {method['name']!r}; allowed with a model: fedavg"
            )
        tree["method"] = {**method, "name": "fedavg", "network": reference(model)}
    if data is not None:
        places = [text for text in overrides if text.startswith("output.")]
        root = parse_config({**tree, "data": {"name": "csbm"}}, places, name).output.root
        tree["data"] = _data_settings(data, root)
    return parse_config(tree, overrides, default_name=name)


def _config_tree(config: Config) -> tuple[dict[str, Any], str]:
    if isinstance(config, RunConfig):
        return config.model_dump(mode="json"), config.name
    if isinstance(config, Mapping):
        return _plain_config(config), "run"
    path = find_config(Path(config))
    found = read_yaml(path)
    if not isinstance(found, dict):
        raise InputError(f"{path}: found {type(found).__name__}; wanted keys such as method, data")
    return found, path.stem


def _plain_config(config: Mapping[str, Any]) -> dict[str, Any]:
    return copy.deepcopy(dict(config))


def _data_settings(data: GraphData | str | Path, root: Path) -> dict[str, Any]:
    if isinstance(data, str | Path):
        return {"name": "folder", "folder": str(data), "split": _split_settings(Path(data))}
    folder = store(data, root / "data")
    return {"name": "folder", "folder": str(folder), "split": _split_settings(folder)}


def _split_settings(folder: Path) -> dict[str, str]:
    return {"kind": "public" if (folder / "split.csv").is_file() else "shares"}
