"""The methods: one file each; the file's name is the registry.

A method outside this package is named by its module, `method.name: my_package.my_method`; the
module exposes a `METHOD` as the files here do.
"""

from __future__ import annotations

import importlib
import pkgutil

from securefg.federation.roles import Method
from securefg.foundation.errors import ConfigError


def method_names() -> list[str]:
    """The names of all methods and baselines in this package."""
    found = []
    for package in (__name__, f"{__name__}.baselines"):
        path = importlib.import_module(package).__path__
        found += [m.name for m in pkgutil.iter_modules(path) if not m.ispkg]
    return sorted(found)


def get_method(name: str) -> Method:
    """The method of that name, or of that module where the name has a dot."""
    own = [f"{__name__}.{name}", f"{__name__}.baselines.{name}"]
    for module in [name] if "." in name else own:
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name is not None and (module + ".").startswith(error.name + "."):
                continue
            raise
        method = getattr(found, "METHOD", None)
        if isinstance(method, Method):
            return method
    raise ConfigError(f"method.name: unknown method {name!r}; allowed: {', '.join(method_names())}")
