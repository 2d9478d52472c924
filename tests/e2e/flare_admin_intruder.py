"""A hostile administrator: FLARE's own session, unguarded, that sends what it likes.

    python tests/e2e/flare_admin_intruder.py KIT ORDERS ANSWERS

An order is a `line`, a command as FLARE's console would send it, or a message as in
`flare_intruder.py`. "JOB" stands for the number of the job that runs. Where no session is to be had
ANSWERS says so.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.e2e.flare_intruder import forge, listen, send


def log_in(kit: Path, seconds: float) -> Any:
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    from securefg.flare.admin import ADMIN

    end = time.monotonic() + seconds
    while True:
        try:
            return new_secure_session(ADMIN, str(kit), timeout=3.0)
        except Exception as error:
            if time.monotonic() > end:
                return f"{type(error).__name__}: {error}"
            time.sleep(0.5)


def running_job(session: Any, seconds: float) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for job in session.list_jobs():
            if str(job.get("status", "")).startswith("RUNNING"):
                return str(job["job_id"])
        time.sleep(0.5)
    return "none"


def obeyed(session: Any, order: dict[str, Any], cell: Any) -> str:
    if "line" in order:
        return repr(session.api.server_execute(order["line"]))
    return send(cell, order)


def main(kit: str, orders: str, answers: str) -> None:
    listen(Path(answers))
    with contextlib.redirect_stdout(io.StringIO()):
        session = log_in(Path(kit), 20 if orders == "none" else 60)
        done: list[dict[str, Any]] = []
        if isinstance(session, str):
            done.append({"said": f"no session: {session}"})
        else:
            core = session.api.cell.core_cell
            forge(core)
            job = running_job(session, 90)
            for order in json.loads(Path(orders).read_text()) if orders != "none" else []:
                filled = {
                    k: v.replace("JOB", job) if isinstance(v, str) else v for k, v in order.items()
                }
                try:
                    said = obeyed(session, filled, SimpleNamespace(core_cell=core))
                except Exception as error:
                    said = f"error: {type(error).__name__}: {error}"
                done.append({**filled, "said": said})
    Path(answers).with_suffix(".part").write_text(json.dumps(done))
    Path(answers).with_suffix(".part").rename(answers)
    os._exit(0)  # FLARE's session has threads that do not end


if __name__ == "__main__":
    main(*sys.argv[1:])
