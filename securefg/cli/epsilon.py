"""`securefg epsilon`: what clip and noise promise, or the noise that a promise needs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from securefg.cli.common import show_line
from securefg.foundation.errors import ConfigError


def epsilon(
    nodes: Annotated[int, typer.Option(help="Records (nodes, samples) that one client holds.")],
    rounds: Annotated[int, typer.Option(help="Rounds in which a client uploads.")],
    clip: Annotated[float, typer.Option(help="L2 clip of an upload, or of a sample (--batch).")],
    noise: Annotated[
        float | None, typer.Option(help="Standard deviation of the noise on every number.")
    ] = None,
    target: Annotated[
        float | None, typer.Option(help="Find the noise for this epsilon instead.")
    ] = None,
    unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of --target: client, record or node. Default: client, record with --batch."
        ),
    ] = None,
    delta: Annotated[float, typer.Option(help="Delta of every epsilon.")] = 1e-5,
    batch: Annotated[
        int | None, typer.Option(help="DP-SGD: samples that a step draws on average.")
    ] = None,
    steps: Annotated[int, typer.Option(help="DP-SGD: steps in one round.")] = 1,
    holders: Annotated[int, typer.Option(help="Clients that hold one node at most.")] = 1,
    neighbours: Annotated[str, typer.Option(help="A client is `replace`d or `remove`d.")] = (
        "replace"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the epsilon per unit that clip and noise promise; --target returns the noise."""
    from securefg.privacy.calculator import compute_epsilon, find_noise

    if (noise is None) == (target is None):
        found = "neither" if noise is None else "both"
        raise ConfigError(f"--noise, --target: found {found}; expected one of them")
    plan: dict[str, Any] = {
        "nodes": nodes,
        "rounds": rounds,
        "clip": clip,
        "delta": delta,
        "batch": batch,
        "steps": steps,
        "holders": holders,
        "neighbours": neighbours,
    }
    if noise is None:
        assert target is not None
        noise = find_noise(target, unit=unit, **plan)  # type: ignore[arg-type]
    results = compute_epsilon(noise=noise, **plan)
    if as_json:
        typer.echo(json.dumps({"noise": noise, "units": [asdict(one) for one in results]}))
        return
    show_line(f"noise     {noise:.6g} on every number, {noise / clip:.4g} times the clip")
    for one in results:
        told = f"epsilon {one.epsilon:.4g} at delta {one.delta:g}, if it is {one.relation}"
        show_line(f"{one.unit:<9} {told}")
    for said in dict.fromkeys(said for one in results for said in one.assumptions):
        show_line(f"assumes   {said}")
