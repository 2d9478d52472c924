"""A hostile party with a real kit: FLARE's own program, unguarded, that sends what it likes.

    python tests/e2e/flare_intruder.py site|server KIT ORDERS ANSWERS

What arrives at its process goes to ANSWERS with the ending `heard`.

ORDERS is a JSON list of {"to", "channel", "topic", "command", "as", "body", "job_id"}; what came
back of each goes to ANSWERS. `as` is the origin that the message claims; a `command` is wrapped as
FLARE's own administrative message. "JOB" in a name stands for the number of the running job, once
there is one. Stands in for bank B's own administrators, or for the owner of the server.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

CLAIMED = "intruder.claims"


def send(cell: Any, order: dict[str, Any], seconds: float = 3.0) -> str:
    """One message, as its order says; what came back, in words."""
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey as Key
    from nvflare.private.admin_defs import Message as AdminMessage
    from nvflare.private.defs import new_cell_message

    payload: Any = order.get("body", "")
    if "command" in order:
        payload = AdminMessage(topic=order["command"], body=order.get("body", ""))
        payload.set_header("job_id", order.get("job_id", ""))
    message = new_cell_message({CLAIMED: order["as"]} if "as" in order else {}, payload)
    reply = cell.core_cell.send_request(
        channel=order["channel"],
        topic=order["topic"],
        target=order["to"],
        request=message,
        timeout=order.get("seconds", seconds),
    )
    body = getattr(reply.payload, "body", reply.payload)
    return f"{reply.get_header(Key.RETURN_CODE)}: {body!r:.2000}"


def forge(core: Any) -> None:
    """Let messages that are marked leave with the origin that they claim."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey as Key

    def claimed(to_endpoint: Any, message: Any) -> Any:
        name = message.get_header(CLAIMED)
        if name:
            message.set_header(Key.ORIGIN, name)
            message.remove_header(CLAIMED)
        return CoreCell._send_to_endpoint(core, to_endpoint, message)

    core._send_to_endpoint = claimed


def listen(answers: Path) -> None:
    """Keep every byte that arrives at this process beside the answers."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    take, heard = CoreCell._process_received_msg, answers.with_suffix(".heard")

    def keep(self: Any, endpoint: Any, connection: Any, message: Any) -> None:
        with heard.open("ab") as file:
            file.write(repr(message.headers).encode() + b"\n" + bytes(message.payload or b""))
        take(self, endpoint, connection, message)

    CoreCell._process_received_msg = keep


def obey(cell: Any, kit: Path, orders: Path, answers: Path) -> None:
    done: list[dict[str, Any]] = []
    for order in json.loads(orders.read_text()):
        job = running_job(kit) if "JOB" in order["to"] + order.get("as", "") else ""
        filled = {k: v.replace("JOB", job) if isinstance(v, str) else v for k, v in order.items()}
        until = time.monotonic() + order.get("again", 0.0)
        answer_text = _tried(cell, filled)
        while not answer_text.startswith("ok") and time.monotonic() < until:
            time.sleep(0.5)
            answer_text = _tried(cell, filled)
        done.append({**filled, "said": answer_text})
        answers.with_suffix(".part").write_text(json.dumps(done))
    answers.with_suffix(".part").rename(answers)


def _tried(cell: Any, order: dict[str, Any]) -> str:
    try:
        return send(cell, order)
    except Exception as error:
        return f"error: {type(error).__name__}: {error}"


def running_job(kit: Path) -> str:
    end = time.monotonic() + 300
    while time.monotonic() < end:
        for path in kit.iterdir():
            if path.is_dir() and path.name.count("-") == 4:
                return path.name
        time.sleep(0.1)
    return "none"


def await_token() -> threading.Event:
    """Register until the server answers; set once this site has its token.

    A server listens before it can answer, and FLARE's own client ends with the first refusal.
    """
    from nvflare.private.fed.client.fed_client_base import FederatedClientBase

    from securefg.flare.guard.repairs import ask_again

    ask_again()
    register, registered = FederatedClientBase.client_register, threading.Event()

    def register_and_tell(self: Any, project_name: str, fl_ctx: Any) -> None:
        register(self, project_name, fl_ctx)
        if self.token:
            registered.set()

    FederatedClientBase.client_register = register_and_tell
    return registered


def start(kind: str, kit: Path, orders: Path, answers: Path) -> None:
    """Wait for FLARE's own cell, then obey."""
    from nvflare.fuel.f3.cellnet.core_cell import CoreCell

    registered = await_token() if kind == "site" else threading.Event()

    def work() -> None:
        name = "server" if kind == "server" else kit.name
        try:
            while name not in CoreCell.ALL_CELLS or not CoreCell.ALL_CELLS[name].running:
                time.sleep(0.1)
            core = CoreCell.ALL_CELLS[name]
            forge(core)
            registered.wait(300.0 if kind == "site" else 4.0)
            obey(type("Held", (), {"core_cell": core}), kit, orders, answers)
        except Exception:
            answers.write_text(traceback.format_exc())

    threading.Thread(target=work, daemon=True).start()


def main(kind: str, kit: str, orders: str, answers: str) -> None:
    from securefg.flare import launcher

    settings = "fed_server.json" if kind == "server" else "fed_client.json"
    part = "server" if kind == "server" else "client"
    name = [] if kind == "server" else [f"uid={Path(kit).name}"]
    launcher._require_guard = lambda: None
    listen(Path(answers))
    start(kind, Path(kit), Path(orders), Path(answers))
    sys.argv = [
        "intruder",
        *("-m", kit, "-s", settings, "--set", "secure_train=true"),
        *(*name, "org=none", "config_folder=config"),
    ]
    runpy.run_module(f"nvflare.private.fed.app.{part}.{part}_train", run_name="__main__")


if __name__ == "__main__":
    main(*sys.argv[1:])
