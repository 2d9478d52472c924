"""How pages are made of templates: everything that is put in is escaped."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from securefg.foundation.units import number


def page_environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("securefg.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = number
    return environment
