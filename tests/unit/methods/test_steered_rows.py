"""What clients keep of earlier requests steers a masked sum: such methods want a trusted server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from securefg.foundation.errors import MaskingRefused
from securefg.methods.ppfl.exchange import Mean, RotatedRows, Trained
from securefg.models.procrustes import find_rotation, rotate_rows
from securefg.protocol.codec import Clients
from securefg.runs.assembly import prepare, start_engine
from securefg.settings.config import RunConfig, parse_config
from tests.small import tree
from tests.unit.methods.lied_to import Deployed

DIM, BOUND = 8, 16.0


def config(root: Path, malicious: bool) -> RunConfig:
    whole = tree(root, "ppfl_deepwalk")
    whole["method"] |= {"alignment": "reference", "start": "shared", "dim": DIM, "walk_length": 10}
    whole["partition"] = {"name": "public_private", "num_clients": 4}
    whole["privacy"] = {"secure_aggregation": {"malicious": malicious}}
    return parse_config(whole)


def mean(number: int, upload: bool, rows: torch.Tensor | None) -> Mean:
    known = None if rows is None else torch.ones(len(rows), dtype=torch.bool)
    return Mean(number=number, upload=upload, made=number, mean=rows, known=known)


@pytest.mark.parametrize("in_a_session", [False, True])
def test_means_told_to_all_but_one_show_that_ones_rows(in_a_session: bool, tmp_path: Path) -> None:
    """Rows far outside the bound are clipped to it: all uploads but the victim's are known."""
    run = Deployed.new(config(tmp_path, malicious=False))
    with run.started() as (engine, server):
        rows = 1e6 * torch.randn(run.experiment.public.num_public, DIM)
        if in_a_session:  # the victim falls silent, as one of four may
            engine.silent = {0}
            server.ask(mean(1, True, rows), RotatedRows)
            engine.silent = set()
        else:
            server.ask(mean(1, False, rows), Trained, Clients.of([1, 2, 3]))
        server.begin_round(2)
        total = server.ask(mean(2, True, None), RotatedRows).sum("rows")
        start = engine.host(1)._rows._start  # type: ignore[attr-defined]
        others = rotate_rows(rows, find_rotation(rows, start)).clamp(-BOUND, BOUND)
        own = engine.host(0)._own_rows()  # type: ignore[attr-defined]
        victim = rotate_rows(own, find_rotation(own, start))
    assert torch.allclose(total - 3 * others, victim, atol=1e-5)


def test_so_a_server_that_may_lie_is_refused_when_the_run_is_planned(tmp_path: Path) -> None:
    with pytest.raises(MaskingRefused, match="or told them before"):
        prepare(config(tmp_path, malicious=True))


def test_and_by_every_client_that_keeps_anything(tmp_path: Path) -> None:
    run = Deployed.new(config(tmp_path, malicious=False))
    lied = replace(run.experiment, config=config(tmp_path, malicious=True))
    with pytest.raises(MaskingRefused, match="keep contexts, embedding, written from round"):
        start_engine(lied, run.folder, 1, run.secure)
