"""What is wrong with a config is told in a line or two, a misspelt key first."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.foundation.errors import ConfigError
from securefg.settings.config import load_config


def test_a_misspelt_key_is_told_before_what_is_missing_for_it() -> None:
    with pytest.raises(ConfigError) as found:
        load_config(Path("fedavg_csbm"), ["training.dp_sgd={noise_multipler: 1}"])
    lines = str(found.value).splitlines()
    assert len(lines) <= 2
    assert "noise_multipler: unknown key; did you mean noise_multiplier?" in lines[0]
