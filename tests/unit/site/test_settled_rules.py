"""Every party settles a job's rules anew, from what it has: they must be those of one process."""

from __future__ import annotations

from pathlib import Path

from securefg.runs.assembly import Experiment, prepare
from securefg.site.job import Job, Sizes
from tests.contract.test_engines import CONFIGS, small_version

CHOSEN = {
    "fedgl_cora_distributed",
    "fedgl_cora_private",
    "gfl_dnc_distributed",
    "gfl_dnc_private",
    "gfl_dnc_v2_masked",
    "nfedgnn_cora_private",
    "nfedgnn_masked",
    "ppfl_deepwalk_citeseer_private",
    "private_cora",
}


def as_a_site_reads_it(experiment: Experiment) -> Job:
    config = experiment.config
    sizes = Sizes.of(experiment.public)
    return Job("run", 1, "localhost", config.model_dump(mode="json"), sizes, {"bank": {}})


def test_a_site_settles_the_rules_of_one_process(tmp_path: Path) -> None:
    """Noise is shared among those who send: a site must count as many as there are."""
    chosen = [path for path in CONFIGS if path.stem in CHOSEN]
    assert len(chosen) == len(CHOSEN)
    for path in chosen:
        experiment = prepare(small_version(path, tmp_path))
        found, wanted = as_a_site_reads_it(experiment).policy(), experiment.policy
        assert found.rules == wanted.rules, path.stem
        assert found.masked == wanted.masked, path.stem
        assert found.cohorts == wanted.cohorts, path.stem
