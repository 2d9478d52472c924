"""The pages' links are those of the repository: the site is built from a copy of its layout."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PARTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "LICENSE",
)
LINK = re.compile(r"\]\(([^)#:\s]+)\)")
_stages: list[tempfile.TemporaryDirectory[str]] = []


def on_config(config: Any) -> Any:
    stage = tempfile.TemporaryDirectory(prefix="securefg-docs-")
    _stages.append(stage)
    skipped = shutil.ignore_patterns("__pycache__", "site", ".*")
    for name in PARTS:
        shutil.copy(ROOT / name, stage.name)
    for name in ("docs", "examples", "configs"):
        shutil.copytree(ROOT / name, Path(stage.name) / name, ignore=skipped)
    sys.path.insert(0, str(Path(__file__).parent))
    from reference import write_reference

    write_reference(Path(stage.name) / "docs" / "reference")
    config["docs_dir"] = stage.name
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """A link to a folder goes to its page, or to its first file."""
    here = Path(config["docs_dir"], page.file.src_uri).parent

    def of_folder(link_match: re.Match[str]) -> str:
        folder = here / link_match[1]
        if not folder.is_dir():
            return link_match[0]
        inside = sorted(folder.glob("*.md")) or sorted(folder.glob("*.*"))
        first = folder / "README.md" if (folder / "README.md").exists() else inside[0]
        return f"]({link_match[1].rstrip('/')}/{first.name})"

    return LINK.sub(of_folder, markdown)


def on_post_build(config: Any) -> None:
    while _stages:
        _stages.pop().cleanup()
