"""A site's folder: floor, books and the gate's settings, on the node and out of any run's reach.

    HOME/site_policy.yaml   the floor (`securefg deploy floor` explains it)
    HOME/gate.yaml          clip_l2, noise_multiplier, adjacency
    HOME/ledger.jsonl       the books

The SuperNode names the folder (`--node-config 'securefg-home="/srv/securefg"'`), or the variable
SECUREFG_SITE_HOME does. `{partition}` in it stands for the node's partition, for simulations.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import Field, ValidationError

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.files import write_atomically
from securefg.foundation.settings import Settings
from securefg.foundation.yaml_text import read_yaml
from securefg.settings.privacy import Adjacency
from securefg.site.gate import Gate, open_home

METHOD: Final = "flower"
"""The name of Flower's jobs in a floor's `methods` and in the books."""
NODE_KEY: Final = "securefg-home"
VARIABLE: Final = "SECUREFG_SITE_HOME"
SETTINGS_FILE: Final = "gate.yaml"


class GateSettings(Settings):
    """gate.yaml: what the site does to every update."""

    clip_l2: float = Field(gt=0)
    noise_multiplier: float = Field(gt=0)
    adjacency: Adjacency = "replace_one"


def open_site(
    home: str | Path, clip_l2: float, noise_multiplier: float, adjacency: Adjacency = "replace_one"
) -> Path:
    """Make a site's folder with a strict floor, empty books and these settings. Return its path."""
    try:
        settings = GateSettings(
            clip_l2=clip_l2, noise_multiplier=noise_multiplier, adjacency=adjacency
        )
    except ValidationError as error:
        raise ConfigError(explain_errors(error, GateSettings)) from error
    path = Path(home)
    open_home(path, METHOD)
    text = yaml.safe_dump(settings.model_dump(mode="json"), sort_keys=False)
    write_atomically(path / SETTINGS_FILE, text)
    return path


def find_home(node_config: Mapping[str, Any]) -> Path:
    """Return the folder that the node's own config or environment names. Raise without one."""
    named = node_config.get(NODE_KEY) or os.environ.get(VARIABLE)
    if not isinstance(named, str) or not named:
        raise ConfigError(f"{NODE_KEY}: found nothing; expected the site's folder (node config)")
    if "{partition}" in named:
        partition = node_config.get("partition-id")
        if type(partition) is not int:
            raise ConfigError(f"partition-id: found {partition!r:.40}; expected a number")
        named = named.replace("{partition}", str(partition))
    return Path(named)


def read_gate(home: Path) -> Gate:
    """Return the gate that the site's folder describes. Raise where it is missing or wrong."""
    where = home / SETTINGS_FILE
    found = read_yaml(where)
    try:
        settings = GateSettings.model_validate(found)
    except ValidationError as error:
        raise ConfigError(explain_errors(error, GateSettings, prefix=f"{where}: ")) from error
    rule = (settings.clip_l2, settings.noise_multiplier, settings.adjacency)
    return Gate.of(home, *rule, method=METHOD)
