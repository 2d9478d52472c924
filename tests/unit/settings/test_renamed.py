"""Settings that were renamed: the old name is accepted for one version, with a warning."""

from __future__ import annotations

from typing import Any

import pytest

from securefg.foundation.errors import ConfigError
from securefg.settings.config import parse_config

BASE = {"method": {"name": "fedavg"}, "data": {"name": "csbm", "csbm": {"task": "dnc"}}}
RENAMED = [
    ("merged=true", "centralised=true"),
    ("training.keep=last", "training.final_model=last"),
    ("audit.smallest_gain=0.1", "audit.leak_threshold=0.1"),
    ("data.csbm.lambda_=1.5", "data.csbm.graph_signal=1.5"),
    ("privacy.per=row", "privacy.clip_per=row"),
    (
        "privacy.fields.Update.weights.mechanism=plain",
        "privacy.field_rules.Update.weights.mechanism=plain",
    ),
    (
        "privacy.secure_aggregation={fields: [Update.weights]}",
        "privacy.secure_aggregation={masked_fields: [Update.weights]}",
    ),
]


def parsed(*overrides: str) -> dict[str, Any]:
    return parse_config(BASE, overrides).model_dump()


@pytest.mark.parametrize(("old", "new"), RENAMED)
def test_setting_with_its_old_name_is_read_with_a_warning(old: str, new: str) -> None:
    with pytest.warns(FutureWarning, match="is called"):
        found = parsed(old)
    assert found == parsed(new)


def test_setting_with_both_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="keep: found beside final_model"):
        parsed("training.keep=last", "training.final_model=best")
