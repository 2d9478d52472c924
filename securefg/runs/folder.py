"""The run's folder: where everything of a run lies, and the rules for opening one.

config.yaml        resolved, with versions, seed and hash
metrics.jsonl      a line per round
ledger.jsonl       a line per private release
transcript/        every message
checkpoints/       the last whole rounds
opened/            sums that were opened after the last whole round
partition.safetensors, partition.json
model.safetensors  what the server released, at the best validation score
private/           shards, hosts' states: the truth, never read by attacks
summary.json, report.html
history.jsonl      how the run ended, and every audit of it
"""

from __future__ import annotations

import difflib
import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from securefg.foundation.errors import ConfigError, RunFolderError
from securefg.foundation.files import make_private_folder, sync_path, write_atomically
from securefg.foundation.lock import owned, require_plain
from securefg.foundation.quoting import shown
from securefg.foundation.versions import list_versions
from securefg.foundation.yaml_text import read_yaml
from securefg.protocol.exchange import is_foreign
from securefg.runs.metrics_file import read_metrics
from securefg.runs.summary import Summary, read_summary
from securefg.settings.config import RunConfig, parse_config

PARTIAL = "partial.json"
"""In a deployed run that was fetched before its end: how far it came, and why."""
FORMAT = 5
"""Of everything in the folder; raised whenever an older reader would misread it."""


@dataclass(frozen=True)
class RunFolder:
    """A run's folder by its path."""

    path: Path

    @classmethod
    def create(
        cls,
        config: RunConfig,
        fill: Callable[[Path], None],
        fresh: bool = False,
        held: ExitStack | None = None,
    ) -> RunFolder:
        """Return a new folder, named by the config's name, seed and hash. Raise RunFolderError if
        it exists.

        It is made under another name, filled, and renamed: it is there whole or not at all. It is
        locked before anybody can see it. `held` keeps the lock beyond this call.
        """
        path = cls.path_of(config)
        name = path.name
        if path.exists() and not fresh:
            raise RunFolderError(f"{path} exists: {cls(path).advice}")
        replaces = path.exists()
        with ExitStack() as folder_lock:
            if replaces:
                folder_lock.enter_context(
                    owned(cls.open(path).path)
                )  # raises if it is no run's folder
            config.output.root.mkdir(parents=True, exist_ok=True)
            clear_torn(config.output.root, name)
            temporary = _new_folder(config.output.root, name, held or folder_lock)
            try:
                make_private_folder(temporary / "private")
                fill(temporary)
                cls(temporary)._write_config(config)
                sync_path(temporary)
                _put_in_place(temporary, path, replaces)
            except BaseException:
                shutil.rmtree(temporary, ignore_errors=True)
                raise
            sync_path(config.output.root)
        clear_torn(config.output.root, name)
        return cls(path)

    @staticmethod
    def path_of(config: RunConfig) -> Path:
        """Return where a config's run lies, by its name, seed and hash."""
        return config.output.root / f"{config.name}-s{config.seed}-{config.hash}"

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open a run's folder. Raise an error if it holds no run."""
        if not (path / "config.yaml").is_file():
            if is_foreign(path):
                raise RunFolderError(
                    f"{path}: found a recorded exchange; expected a run's folder. An exchange has "
                    f"no page: `securefg audit {path} --format md` prints who learns what"
                )
            found = "a folder without config.yaml" if path.is_dir() else "no such folder"
            raise RunFolderError(
                f"{path}: found {found}; expected a run's folder{_suggest_run(path)}"
            )
        require_plain(path)
        return cls(path)

    def _write_config(self, config: RunConfig) -> None:
        tree = config.as_given.model_dump(mode="json")
        tree["resolved"] = {
            "format": FORMAT,
            "config_hash": config.hash,
            "versions": list_versions(),
        }
        write_atomically(self.path / "config.yaml", yaml.safe_dump(tree, sort_keys=False))

    def config(self) -> RunConfig:
        """Return the config of the run. Raise RunFolderError if it was changed by hand after the
        run began."""
        try:
            tree = read_yaml(self.path / "config.yaml")
            resolved = tree.pop("resolved")
            if resolved.get("format") != FORMAT:
                raise RunFolderError(
                    f"{self.path}: a run of format {resolved.get('format')}; this version reads "
                    f"{FORMAT}: make it again with `securefg run {self.path}/config.yaml --fresh`"
                )
            wanted, config = resolved["config_hash"], parse_config(tree)
        except (KeyError, AttributeError, TypeError, ConfigError) as error:
            raise RunFolderError(f"{self.path}/config.yaml cannot be read: {error}") from error
        if config.hash != wanted:
            raise RunFolderError(
                f"{self.path}/config.yaml was changed, or a default since then: its hash is "
                f"{config.hash}, the run's {shown(wanted)}"
            )
        return config

    def summary(self) -> Summary:
        """Return the summary. Raise an error if the run has not finished."""
        path = self.path / "summary.json"
        if (self.path / PARTIAL).is_file() and not path.is_file():
            raise RunFolderError(
                f"{self.path}: found a part of a deployed run; expected a finished one: each site "
                "audits what it sent with `securefg deploy audit KIT`, and `securefg deploy submit "
                "KITS` goes on with the run"
            )
        if not path.is_file():
            raise RunFolderError(
                f"{self.path}: the run has not finished; `securefg run --resume {self.path}`"
            )
        return read_summary(path)

    def metrics(self) -> list[dict[str, Any]]:
        """Return a line per round. Raise RunFolderError for a line that no run writes."""
        return read_metrics(self.metrics_path)

    @property
    def advice(self) -> str:
        """Return what can be done with a run that is there."""
        if self.finished:
            return (
                f"this config has been run to its end. `securefg audit {self.path}` attacks it, "
                f"{self.path / 'report.html'} shows it, --fresh makes it anew"
            )
        return (
            f"this config has been begun. `securefg run --resume {self.path}` goes on with it, "
            "--fresh starts it anew"
        )

    @property
    def finished(self) -> bool:
        """Return whether the run has ended and written its summary."""
        return (self.path / "summary.json").is_file()

    @property
    def has_sent(self) -> bool:
        """Return whether any message of the run was recorded, or any release booked."""
        files = (self.ledger_path, self.transcript / "messages.bin")
        return any(path.is_file() and path.stat().st_size > 0 for path in files)

    @property
    def metrics_path(self) -> Path:
        """Return the path of the figures by round."""
        return self.path / "metrics.jsonl"

    @property
    def ledger_path(self) -> Path:
        """Return the path of the booked releases."""
        return self.path / "ledger.jsonl"

    @property
    def transcript(self) -> Path:
        """Return the folder of the recorded messages."""
        return self.path / "transcript"

    @property
    def opened(self) -> Path:
        """Return the folder of the sums that were opened after the last checkpoint."""
        return self.path / "opened"

    @property
    def checkpoints(self) -> Path:
        """Return the folder of the checkpoints."""
        return self.path / "checkpoints"

    @property
    def identities(self) -> Path:
        """Return the folder of the clients' signing keys."""
        return self.path / "private" / "identities"

    @property
    def memories(self) -> Path:
        """Return the folder of what clients remember of masked sessions."""
        return self.path / "private" / "memories"

    @property
    def shards(self) -> Path:
        """Return the folder of the clients' data."""
        return self.path / "private" / "shards"


def _suggest_run(path: Path) -> str:
    """Return a hint at a run in the folder, or at one beside it with a near name."""
    inside = [one.parent for one in sorted(path.glob("*/config.yaml"))]
    if inside:
        return f"; did you mean {inside[-1]}?"
    beside = {one.parent.name: one.parent for one in sorted(path.parent.glob("*/config.yaml"))}
    same = [name for name in beside if path.name and name.startswith(path.name)]
    near = same or difflib.get_close_matches(path.name, list(beside), n=1)
    return f"; did you mean {beside[near[-1]]}?" if near else ""


def clear_torn(root: Path, name: str) -> None:
    """Remove what was left of this run's folders by processes that ended before they were done."""
    for path in root.glob(f".{name}.*"):
        with suppress(RunFolderError, FileNotFoundError), owned(path):
            shutil.rmtree(path, ignore_errors=True)


def _new_folder(root: Path, name: str, held: ExitStack) -> Path:
    """Return a folder under a name of its own, locked. Somebody who clears up may be faster than
    us."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=root))
        with suppress(RunFolderError, FileNotFoundError):
            held.enter_context(owned(path))
            return path


def _put_in_place(made: Path, path: Path, replaces: bool) -> None:
    """Rename a new folder. A folder that it replaces, which is locked by us, first gets a name that
    is cleared away."""
    if replaces:
        os.rename(path, made.with_name(f"{made.name}.old"))
    try:
        os.rename(made, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise RunFolderError(f"{path}: another process has begun this run in this moment") from None


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return all whole lines, each an object. The last may have been torn by a crash."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    parsed = []
    for number, line in enumerate(lines, 1):
        try:
            parsed_line = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"{path}:{number}: not JSON: {error}") from error
        if not isinstance(parsed_line, dict):
            raise RunFolderError(f"{path}:{number}: {shown(parsed_line)}; wanted an object")
        parsed.append(parsed_line)
    return parsed
