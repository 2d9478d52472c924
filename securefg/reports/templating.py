"""How pages are made of templates: everything that is put in is escaped."""

from __future__ import annotations

import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from securefg.foundation.units import (
    bytes_text,
    number,
    percent,
    plural,
    seconds_text,
    significant,
)
from securefg.reports.words import (
    adversary_words,
    attack_words,
    capitalise_words,
    signed,
    verdict_words,
)


def render_page(template: str, **values: Any) -> str:
    """Return the text of a template of this package with these values, escaped."""
    environment = Environment(
        loader=PackageLoader("securefg.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "plural": plural,
        "percent": percent,
        "bytes": bytes_text,
        "seconds": seconds_text,
        "significant": significant,
        "signed": signed,
        "commands": mark_commands,
        "attack": attack_words,
        "adversary": adversary_words,
        "capitalise": capitalise_words,
        "verdict": verdict_words,
    }
    return environment.get_template(template).render(**values)


def mark_commands(text: str) -> Markup:
    """Return the text, with what stands between back-quotes set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))
