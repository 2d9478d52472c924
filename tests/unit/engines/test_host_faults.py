"""A host that finds fault with the config ends the run with a line, in any engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.engines.breaches import breach_header, raise_breach
from securefg.foundation.errors import BudgetExceeded, ConfigError, ProtocolError
from securefg.runs import runner
from tests.small import config

TOO_MANY = (
    "method={name: fedavg, network: MLP}",
    "partition.shares=[0.5]",
    "training.weight_decay=0",
    "training.dp_sgd={clip_l2: 1, noise_multiplier: 1, sampling: 0.5, num_samples: 1}",
)


@pytest.mark.parametrize("engine", ["inprocess", "processes"])
def test_a_config_that_a_host_refuses_is_the_users_to_mend(
    engine: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=r"training.dp_sgd.num_samples is 1") as said:
        runner.start(config(tmp_path, *TOO_MANY, f"engine.name={engine}"))
    assert len(str(said.value).splitlines()) <= 2
    assert "Traceback" not in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_faults_arrive_as_what_they_were() -> None:
    for error in (ConfigError("a"), BudgetExceeded("b")):
        with pytest.raises(type(error), match=str(error)):
            raise_breach(breach_header(error))


@pytest.mark.parametrize("name", ["__builtins__", "annotations", "BREACHES", "__doc__", "exit"])
def test_a_fault_of_any_other_name_is_one_of_the_protocol(name: str) -> None:
    with pytest.raises(ProtocolError):
        raise_breach({"breach": name, "reason": "x"})
