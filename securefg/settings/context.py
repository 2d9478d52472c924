"""The `context` part of a config: what the run is for, in the words of whoever answers for it."""

from __future__ import annotations

from pydantic import Field

from securefg.foundation.settings import Settings


class ContextSettings(Settings):
    """Echoed on pages as it is written; it changes nothing in a run."""

    purpose: str = Field("", max_length=2000, description="why the model is trained")
    subjects: str = Field("", max_length=200, description="whose data it is, as `customers`")
    num_subjects: int | None = Field(None, ge=0, description="number of data subjects")
    recipients: str = Field("", max_length=2000, description="who receives the model")
    necessity: str = Field("", max_length=4000, description="why less would not do")
    measures: str = Field("", max_length=4000, description="measures outside this software")
