"""Flower's PyTorch template: fetched from Flower's own package, and changed by a wrapper and a mod.

`flwr new` wrote this app up to version 1.24. Later versions download it from Flower's hub.
"""

from __future__ import annotations

import shutil
import string
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TEMPLATE_VERSION: Final = "1.24.0"
FOLDER: Final = "flwr/cli/new/templates/app"
NAME: Final = "quickstart"
WORDS: Final = {
    "project_name": NAME,
    "package_name": NAME,
    "import_name": NAME,
    "framework_str": "PyTorch",
    "username": "securefg",
}


@dataclass(frozen=True)
class Edit:
    """A change of one file: a text that must occur once, and its replacement."""

    file: str
    found: str
    replacement: str

    def apply(self, app: Path) -> None:
        """Change the file. Raise where the text does not occur exactly once."""
        path = app / NAME / self.file
        text = path.read_text()
        if text.count(self.found) != 1:
            raise SystemExit(f"{self.file}: found {self.found!r} {text.count(self.found)} times")
        path.write_text(text.replace(self.found, self.replacement))


def fetch_template(cache: Path) -> Path:
    """Return the folder of templates, downloaded once from the package index."""
    folder = cache / f"flwr-{TEMPLATE_VERSION}"
    if not folder.is_dir():
        wheel = f"flwr=={TEMPLATE_VERSION}"
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", wheel]
        subprocess.run([*command, "-d", str(cache)], check=True, stderr=subprocess.DEVNULL)
        (found,) = cache.glob(f"flwr-{TEMPLATE_VERSION}-*.whl")
        with zipfile.ZipFile(found) as archive:
            archive.extractall(folder)
    return folder / FOLDER


def write_app(app: Path, templates: Path, task: Path | None) -> None:
    """Write the template's app, with another task.py where one is given."""
    package = app / NAME
    package.mkdir(parents=True)
    files = {
        "__init__.py": "code/__init__.py.tpl",
        "client_app.py": "code/client.pytorch.py.tpl",
        "server_app.py": "code/server.pytorch.py.tpl",
        "task.py": "code/task.pytorch.py.tpl",
        "../pyproject.toml": "pyproject.pytorch.toml.tpl",
    }
    for name, template in files.items():
        text = string.Template((templates / template).read_text()).safe_substitute(WORDS)
        (package / name).write_text(text)
    if task is not None:
        shutil.copyfile(task, package / "task.py")


def wrap_grid(exchange: Path, arguments: str) -> list[Edit]:
    """Return the edits that record the server's exchange."""
    return [
        Edit(
            "server_app.py",
            "from flwr.serverapp import Grid",
            "from securefg.flower import Recorded\n"
            "from securefg.protocol.exchange import Claim\n"
            "from flwr.serverapp import Grid",
        ),
        Edit(
            "server_app.py",
            "    result = strategy.start(\n",
            f"    with Recorded(grid, {str(exchange)!r}, {arguments}) as grid:\n"
            "        result = strategy.start(\n",
        ),
    ]


def add_mod(mod: str) -> list[Edit]:
    """Return the edits that put a mod on the client app."""
    return [
        Edit(
            "client_app.py",
            "from flwr.clientapp import ClientApp",
            f"from securefg.flower import {mod}\nfrom flwr.clientapp import ClientApp",
        ),
        Edit("client_app.py", "app = ClientApp()", f"app = ClientApp(mods=[{mod}()])"),
    ]
