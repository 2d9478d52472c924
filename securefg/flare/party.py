"""How a party's process is started from its kit. Nothing heavy is imported here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from securefg.flare.guard.process import MODULE
from securefg.flare.guard.pulse import INTERVAL_SECONDS
from securefg.flare.guard.settings import settle
from securefg.foundation.errors import DataError
from securefg.foundation.json_text import read_json

MARK = "SECUREFG_FEDERATION"


def command_for(kit: Path) -> list[str]:
    """How a party's process is started from its kit."""
    is_server = (kit / "startup" / "fed_server.json").exists()
    kind = "server" if is_server else "client"
    settings = kit / "startup" / f"fed_{kind}.json"
    if not settings.exists():
        raise DataError(f"{kit}: not a kit (it has no startup/fed_{kind}.json)")
    settle(kit)
    facts = read_json(settings)
    name = []
    if not is_server:
        beat = f"heart_beat_interval={INTERVAL_SECONDS}"
        name = [f"uid={facts['client']['fqsn']}", beat]
    return [
        # -P: where one stands when a party is started may be anybody's folder.
        *(sys.executable, "-P", "-u", "-m", MODULE, "server" if is_server else "site"),
        *("-m", str(kit.resolve()), "-s", f"fed_{kind}.json"),
        *("--set", "secure_train=true", *name, "org=none", "config_folder=config"),
    ]


def party_environment() -> dict[str, str]:
    """For processes of ours: what can be imported here can be there; one thread each."""
    paths = [*filter(None, sys.path), os.getcwd()]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
