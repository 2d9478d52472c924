"""The private method on FLARE: two masked sums over real sites, with the weights of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.flare import launch as runner
from securefg.settings.config import parse_config
from tests.unit.methods.test_two_sums import PRIVATE, tree

pytest.importorskip("nvflare")


@pytest.mark.slow
def test_two_sums_over_sites_are_those_of_one_process(tmp_path: Path) -> None:
    here = runner.start(parse_config(tree(tmp_path / "here", privacy=PRIVATE))).folder
    sites = ["engine.name=flare", "engine.sites=2"]
    apart = runner.start(parse_config(tree(tmp_path / "apart", privacy=PRIVATE), sites)).folder
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, apart)]
    assert models[0] == models[1]
    one, other = (run.summary() for run in (here, apart))
    assert one.epsilon["node"] == other.epsilon["node"]
    assert one.bytes == other.bytes
    assert set(other.masked) == {"ClassSums.sums", "Products.products"}
