"""The methods by name: where each one's settings and code are."""

from __future__ import annotations

import importlib
from typing import Final

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module, installed
from securefg.settings.methods.base import MethodSettings

GROUP: Final = "securefg.methods"
SHIPPED: Final = {
    "alone": "securefg.methods.baselines.alone",
    "fedavg": "securefg.methods.fedavg",
    "fedgl": "securefg.methods.fedgl",
    "fedmlp": "securefg.methods.baselines.fedmlp",
    "gfl_appnp": "securefg.methods.gfl_appnp",
    "label_propagation": "securefg.methods.baselines.label_propagation",
    "mlps": "securefg.methods.baselines.mlps",
    "nfedgnn": "securefg.methods.nfedgnn",
    "own_sums": "securefg.methods.baselines.own_sums",
    "ppfl_deepwalk": "securefg.methods.ppfl.deepwalk",
    "ppfl_gat": "securefg.methods.ppfl.gat",
    "two_sums": "securefg.methods.private.two_sums",
}


def method_names() -> list[str]:
    """All that a config may name without a module path."""
    return sorted({*SHIPPED, *installed(GROUP)})


def method_settings(name: str) -> type[MethodSettings]:
    """The settings of a method; of a shipped one without importing its code."""
    if name in SHIPPED:
        module = importlib.import_module(f"securefg.settings.methods.{name}")
        found: type[MethodSettings] = module.Settings
        return found
    method = getattr(find_module("method.name", name, SHIPPED, GROUP), "METHOD", None)
    settings = getattr(method, "settings", None)
    if not (isinstance(settings, type) and issubclass(settings, MethodSettings)):
        raise ConfigError(f"method.name: module {name!r} has no METHOD with settings of its own")
    return settings
