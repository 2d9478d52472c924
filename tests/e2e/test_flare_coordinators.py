"""nFedGNN and GFL-APPNP between four deployed sites and a coordinator, on real FLARE processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.runs import runner
from tests.e2e.flare_rehearsal import deployment, parties
from tests.e2e.test_flare_siege import weights
from tests.small import config
from tests.unit.flare.test_coordinators import METHODS, MORE

pytest.importorskip("nvflare")
BANKS = ["bank-a", "bank-b", "bank-c", "bank-d"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_four_sites_and_a_coordinator_give_the_weights_of_one_process(
    tmp_path: Path, method: str
) -> None:
    here = runner.start(config(tmp_path / "here", *MORE, method=method)).folder
    kits = deployment(tmp_path, *MORE, sites=BANKS, method=method)
    with parties(kits, tmp_path) as flare_parties:
        for name in ("localhost", *BANKS):
            flare_parties.start(name)
        assert flare_parties.submit().returncode == 0
        ended = flare_parties.ended()
        assert ended["finished"], ended
    assert weights(kits) == (here.path / "model.safetensors").read_bytes()
