"""Settings of an audit: those of the run, as far as they judge it, may be set anew."""

from __future__ import annotations

import json

from pydantic import ValidationError

from securefg.foundation.complaints import explain_errors
from securefg.foundation.errors import ConfigError
from securefg.foundation.suggestions import explain_unknown_name
from securefg.settings.config import apply_override
from securefg.settings.execution import JUDGING, AuditSettings

ALLOWED = tuple(f"audit.{name}" for name in JUDGING)


def as_overrides(settings: AuditSettings) -> tuple[str, ...]:
    """Return the settings as overrides, so that a stored run is judged by these, whatever its
    folder says."""
    return tuple(f"audit.{name}={json.dumps(getattr(settings, name))}" for name in JUDGING)


def audit_settings(stored: AuditSettings, overrides: tuple[str, ...]) -> AuditSettings:
    """Return the settings with overrides. Only settings that judge the run may change, and not
    those that made it."""
    for override in overrides:
        key = override.partition("=")[0]
        if key not in ALLOWED:
            raise ConfigError(explain_unknown_name("--set", key, ALLOWED))
    tree = {"audit": stored.model_dump(mode="json")}
    for override in overrides:
        apply_override(tree, override)
    try:
        return AuditSettings.model_validate(tree["audit"])
    except ValidationError as error:
        raise ConfigError(explain_errors(error, AuditSettings, prefix="audit.")) from error
