"""A real Chromium without a window, driven over a pipe by its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PATIENCE = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@dataclass
class Page:
    """One tab. `complaints` are what the console said, `requests` what was asked for."""

    browser: Browser
    session: str
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.call(method, parameters, self.session)

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False) -> None:
        """Load a file from disk, at this size, and wait until it is there."""
        self.size(width, height)
        self.prefer("dark" if dark else "light")
        self.call("Page.bringToFront")
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE
        while self.value("document.readyState + location.protocol") != "completefile:":
            assert time.monotonic() < deadline, f"{path} did not load"

    def size(self, width: int, height: int) -> None:
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **shape)

    def prefer(self, scheme: str, media: str = "screen") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def value(self, expression: str) -> Any:
        """What an expression comes to in the page; what it throws fails the test."""
        options = {"returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def move_to(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str) -> None:
        code = {"Tab": 9, "Enter": 13, "ArrowRight": 39}[key]
        typed = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown" if typed else "rawKeyDown", "keyUp"):
            more = typed if kind == "keyDown" else {}
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
            )

    def picture(self, path: Path, top: float = 0, height: float | None = None) -> None:
        """A PNG of the page from `top` on; the whole of it where no height is given."""
        width = self.value("document.documentElement.clientWidth")
        tall = height or self.value("document.documentElement.scrollHeight") - top
        clip = {"x": 0, "y": top, "width": width, "height": tall, "scale": 1}
        found = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))


class Browser:
    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        reads, self._write = os.pipe()
        self._read, writes = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        actions = [
            (os.POSIX_SPAWN_DUP2, nothing, 1),
            (os.POSIX_SPAWN_DUP2, nothing, 2),
            # By way of high numbers, so that neither end is overwritten before it is copied.
            (os.POSIX_SPAWN_DUP2, reads, 203),
            (os.POSIX_SPAWN_DUP2, writes, 204),
            (os.POSIX_SPAWN_DUP2, 203, 3),
            (os.POSIX_SPAWN_DUP2, 204, 4),
        ]
        arguments = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self.pid = os.posix_spawn(
            CHROMIUM, arguments, dict(os.environ), file_actions=actions, setsid=True
        )
        for handle in (reads, writes, nothing):
            os.close(handle)
        self._buffer, self._number = b"", 0
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        flat = {"targetId": target, "flatten": True}
        session = self.call("Target.attachToTarget", flat)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        return page

    def call(
        self, method: str, parameters: dict[str, Any], session: str | None = None
    ) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], deadline - time.monotonic())
            assert ready, "the browser does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "the browser ended"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is None:
            return
        what, details = event["method"], event["params"]
        if what == "Network.requestWillBeSent":
            page.requests.append(details["request"]["url"])
        elif what == "Runtime.exceptionThrown":
            page.complaints.append(str(details["exceptionDetails"]))
        elif what == "Runtime.consoleAPICalled" or what == "Log.entryAdded":
            page.complaints.append(str(details))

    def close(self) -> None:
        """End the browser and all its helpers: they are a session of their own."""
        os.killpg(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._read)
        os.close(self._write)


@contextmanager
def running_browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            yield browser
        finally:
            browser.close()
