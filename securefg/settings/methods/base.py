"""The base of all methods' settings."""

from __future__ import annotations

from securefg.foundation.settings import Settings


class MethodSettings(Settings):
    """The `method` part of a config; every method has its own."""

    name: str

    @property
    def chosen(self) -> dict[str, str]:
        """What a rule chose in this run, with its reason, by the setting's name."""
        return {}
