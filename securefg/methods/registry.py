"""Finding a method: a shipped one, one of an installed package, or any module with a METHOD."""

from __future__ import annotations

from securefg.foundation.errors import ConfigError
from securefg.foundation.extensions import find_module
from securefg.methods.base import AnyMethod, Method
from securefg.settings.methods import GROUP, SHIPPED


def get_method(name: str) -> AnyMethod:
    """Return the method that a config names."""
    method = getattr(find_module("method.name", name, SHIPPED, GROUP), "METHOD", None)
    if not isinstance(method, Method):
        raise ConfigError(f"method.name: module {name!r} exposes no METHOD (securefg.methods.base)")
    return method
