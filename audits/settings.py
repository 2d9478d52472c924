"""Settings of an audit: those of the run, as far as they judge it, may be set anew."""

from __future__ import annotations

import json

from pydantic import ValidationError

from securefg.foundation.errors import ConfigError
from securefg.settings.config import apply_override
from securefg.settings.execution import JUDGING, AuditSettings

ALLOWED = tuple(f"audit.{name}" for name in JUDGING)


def as_overrides(settings: AuditSettings) -> tuple[str, ...]:
    """So that a stored run is judged by these, whatever its folder says."""
    return tuple(f"audit.{name}={json.dumps(getattr(settings, name))}" for name in JUDGING)


def audit_settings(stored: AuditSettings, overrides: tuple[str, ...]) -> AuditSettings:
    """What judges the run may be set anew; what made it may not."""
    for override in overrides:
        if override.partition("=")[0] not in ALLOWED:
            raise ConfigError(
                f"--set {override}: a run is audited as it was made; allowed: {', '.join(ALLOWED)}"
            )
    tree = {"audit": stored.model_dump(mode="json")}
    for override in overrides:
        apply_override(tree, override)
    try:
        return AuditSettings.model_validate(tree["audit"])
    except ValidationError as error:
        wrong = error.errors()[0]
        raise ConfigError(
            f"audit.{wrong['loc'][0]}: {wrong['msg']}, found {wrong['input']!r}"
        ) from error
