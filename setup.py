"""What the wheel has beside plain packages: configs inside, and names that clash with nobody's.

In the repository `attacks` and `audits` lie beside `securefg`. In site-packages such names belong
to everybody, so a wheel has `securefg_attacks` and `securefg_audits`, and the imports in it say
so. An editable install is the checkout as it is.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

RENAMED = ("attacks", "audits")
IMPORT = re.compile(rf"^(\s*(?:from|import)\s+)({'|'.join(RENAMED)})\b", re.MULTILINE)


class Build(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        built = Path(self.build_lib)
        for name in RENAMED:
            shutil.rmtree(built / f"securefg_{name}", ignore_errors=True)
            (built / name).rename(built / f"securefg_{name}")
        for path in built.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            path.write_text(IMPORT.sub(r"\1securefg_\2", text), encoding="utf-8")
        shutil.copytree("configs", built / "securefg" / "configs", dirs_exist_ok=True)


setup(cmdclass={"build_py": Build})
