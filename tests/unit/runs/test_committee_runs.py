"""Whole runs whose sums a committee opens: the same model, the summary, the audit, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audits.exposure import COALITION_READS, audit_exposures
from audits.findings.record import Verdict
from audits.mask_reuse import audit_masks
from audits.truth import Truth
from securefg.flare.provisioning import without_any_data
from securefg.foundation.errors import ConfigError, MaskingRefused
from securefg.privacy.defences.distributed_discrete import DistributedDiscrete
from securefg.protocol.transcript import read_transcript
from securefg.runs import runner
from securefg.runs.assembly import prepare
from securefg.secagg.errors import Refused
from securefg.secagg.rules import Rules
from securefg.settings.config import RunConfig, load_config, parse_config
from securefg.settings.secagg import SecureAggregationSettings
from securefg.site.job import Sizes
from tests.small import tree
from tests.unit.secagg.session_world import Upload

COMMITTEE: dict[str, Any] = {"form": "committee", "corrupt": 0}


def config(root: Path, method: str = "pseudo_sums", **masking: Any) -> RunConfig:
    whole = tree(root, method)
    whole["partition"] = {"name": "one_node"}
    whole["training"] = {"rounds": 1, "patience": None, "final_model": "last"}
    whole["privacy"] = {
        "mechanism": "distributed_discrete",
        "target_epsilon": 4,
        "delta": 0.01,
        "unit": "features",
        "noise_rng": "seeded",
        "secure_aggregation": {"corrupt": 0, **masking},
    }
    return parse_config(whole)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> runner.Outcome:
    return runner.start(config(tmp_path_factory.mktemp("committee"), **COMMITTEE))


def test_run_by_committee_gives_the_model_of_a_session(
    finished: runner.Outcome, tmp_path: Path
) -> None:
    session = runner.start(config(tmp_path))
    one = (finished.folder.path / "model.safetensors").read_bytes()
    assert one == (session.folder.path / "model.safetensors").read_bytes()
    assert finished.summary is not None
    assert session.summary is not None
    assert finished.summary.bytes.down.total < session.summary.bytes.down.total


def test_summary_says_who_opens_and_who_could_read(finished: runner.Outcome) -> None:
    assert finished.summary is not None
    words = finished.summary.masking_committee or ""
    assert "a committee of 4 clients in 2 groups" in words
    assert "no epsilon holds" in words


def test_transcript_keeps_no_boxes_and_no_masks(finished: runner.Outcome) -> None:
    for record in read_transcript(finished.folder.transcript):
        if record.kind in ("pseudo_sums.ClassSums", "committee.OpenedMasks"):
            assert not [n for n in record.fields() if n == "total" or n.startswith("enclosed")]


def test_audit_counts_uploads_that_colluding_members_read(finished: runner.Outcome) -> None:
    found = audit_exposures(Truth.of(finished.folder), 0)
    ours = [one for one in found if one.metric == COALITION_READS]
    assert [one.verdict for one in ours] == [Verdict.NOT_DETECTED]
    assert ours[0].adversary == "server and any 1 members of the committee"
    assert "no epsilon holds" in ours[0].assumptions[0]


def test_masks_of_a_committee_show_no_coins() -> None:
    settings = SecureAggregationSettings.model_validate(COMMITTEE)
    assert audit_masks(settings, 1e-5, seed=0).epsilon < 1


def test_sums_for_recipients_by_committee_are_refused(tmp_path: Path) -> None:
    masked = load_config(Path("configs/gfl_dnc_distributed.yaml")).model_dump()
    masked["privacy"]["secure_aggregation"] |= COMMITTEE
    masked["method"]["sums"] = "recipients"
    masked["output"]["root"] = tmp_path
    with pytest.raises(MaskingRefused, match="opened by their recipients"):
        prepare(parse_config(masked))


def test_committee_with_flare_is_refused(tmp_path: Path) -> None:
    whole = config(tmp_path, **COMMITTEE).model_dump()
    whole["engine"]["name"] = "flare"
    with pytest.raises(ConfigError, match="expected session with engine"):
        parse_config(whole)


def test_committee_in_kits_for_sites_is_refused(tmp_path: Path) -> None:
    whole = tree(tmp_path, "fedavg")
    whole["privacy"] = {"secure_aggregation": COMMITTEE}
    experiment = prepare(
        parse_config({**whole, "partition": {"name": "louvain", "num_clients": 4}})
    )
    with pytest.raises(ConfigError, match="expected session at sites"):
        without_any_data(
            experiment.config, "server", ["a", "b", "c", "d"], Sizes.of(experiment.public)
        )


def test_committee_among_too_few_clients_is_refused(tmp_path: Path) -> None:
    whole = tree(tmp_path, "fedavg")
    whole["partition"] = {"name": "louvain", "num_clients": 3}
    whole["privacy"] = {"secure_aggregation": COMMITTEE}
    with pytest.raises(ConfigError, match="expected more clients"):
        prepare(parse_config(whole))


@pytest.mark.parametrize(
    ("seats", "colluding"),
    [({"colluding": 3, "absent": 0}, 3), ({"members": tuple(range(8))}, 3), ({}, 1)],
)
def test_noise_reckons_with_colluding_members(
    seats: dict[str, Any], colluding: int, tmp_path: Path
) -> None:
    """Members that collude with the server know their noise, and can take it off the sum."""
    policy = prepare(config(tmp_path, **COMMITTEE, dropout=0, committee=seats)).policy
    rule = policy.rules["ClassSums.sums"]
    assert isinstance(rule, DistributedDiscrete)
    assert rule.least_noises == 120 - colluding


def test_list_of_colluding_members_and_one_client_is_refused(tmp_path: Path) -> None:
    """The sum without what the members know would be that client's upload."""
    seats = {"colluding": 4, "absent": 0}
    settings = SecureAggregationSettings(form="committee", corrupt=0, committee=seats)
    rules = Rules(settings, 6, {}, {Upload.kind: 6}, {})
    with pytest.raises(Refused, match="under 6"):
        rules.check_list(Upload.kind, list(range(5)))
    rules.check_list(Upload.kind, list(range(6)))
