"""How pages are made of templates: everything that is put in is escaped."""

from __future__ import annotations

import re

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

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
    environment.filters["commands"] = commands
    return environment


def commands(text: str) -> Markup:
    """The text, with what stands between back-quotes set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
