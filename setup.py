"""Builds the wheel; beside plain packages it holds the configs, so that they are found by name."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class Build(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "securefg" / "configs"
            shutil.copytree("configs", target, dirs_exist_ok=True)


setup(cmdclass={"build_py": Build})
