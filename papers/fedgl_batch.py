"""FedGL in batches (placeholder until the trainer lands)."""
from __future__ import annotations
from collections.abc import Sequence
from securefg.settings.config import RunConfig
def run_batch(configs: Sequence[RunConfig]) -> dict[str, float]:
    return {}
