"""What is wrong with a config is told in a line or two, a misspelt key first."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.foundation.errors import ConfigError
from securefg.settings.config import apply_override, load_config


def test_a_misspelt_key_is_told_before_what_is_missing_for_it() -> None:
    with pytest.raises(ConfigError) as found:
        load_config(Path("fedavg_csbm"), ["training.dp_sgd={noise_multipler: 1}"])
    lines = str(found.value).splitlines()
    assert len(lines) <= 2
    assert "noise_multipler: found an unknown key; expected noise_multiplier" in lines[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("seed: 1\nseed: 2", "c.yaml:2: found the key 'seed' twice"),
        ("privacy:\n  clip: 1\n  clip: 9", "c.yaml:3: found the key 'clip' twice"),
        ("seed: " + "9" * 5000, "a number of 5000 characters"),
        (
            f"method: {{name: fedgl}}\nseed: {2**63}",
            "a whole number of at least 0 and below",
        ),
        ("seed: !!python/name:os.system", "the tag"),
        ("a: " + "[" * 500, "more than 40 levels"),
    ],
    ids=["twice", "twice below", "huge", "no 63 bits", "tag", "deep"],
)
def test_a_runs_config_is_read_by_the_one_loader(text: str, wanted: str, tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(text)
    with pytest.raises(ConfigError) as said:
        load_config(tmp_path / "c.yaml")
    assert wanted in str(said.value)
    assert len(str(said.value)) < 300


def test_so_is_the_value_of_an_override() -> None:
    with pytest.raises(ConfigError, match="found the key 'noise_multiplier' twice"):
        apply_override({}, "privacy={noise_multiplier: 9, noise_multiplier: 0}")
