"""The audit of another framework's recording, by the command, for the scripts of this folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def audit_exchange(exchange: Path, network: str, code: Path) -> dict[str, Any]:
    """Audit by the command. Return the exit code and every measured verdict.

    network  the network's module path, as MODULE:NAME, with
    code     the folder in which the module lies
    """
    command = [sys.executable, "-m", "securefg", "audit", str(exchange), "--network", network]
    known = [str(code), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, known))}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout + done.stderr)
    exchange_findings = json.loads((exchange / "audit" / "findings.json").read_text())["findings"]
    attacks = {
        one["attack"]: {
            "verdict": one["verdict"],
            "because": one["because"],
            **{name: one.get(name) for name in ("value", "prior", "gain")},
        }
        for one in exchange_findings
        if one.get("measured", True) and not str(one["attack"]).startswith("unread")
    }
    return {"audit_exit": done.returncode, "attacks": attacks}
