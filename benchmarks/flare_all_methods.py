"""Every shipped config, small, over up to four real sites under TLS: the weights and bytes of one.

    python benchmarks/flare_all_methods.py FOLDER [NAME ...]

Each config of `configs/` runs on a small graph for three rounds, in one process and over FLARE. A
line per config; exits 1 where the model or a byte count differs. Noise is seeded in both, or they
could not be equal.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import checkout  # noqa: F401  (before what lies in tests)

from securefg.flare.launch import start
from securefg.foundation.errors import SecurefgError
from securefg.runs.folder import RunFolder
from securefg.settings.config import RunConfig, parse_config
from tests.contract.test_engines import CONFIGS, small_version

COMMON = ("privacy.noise_rng=seeded", "engine.hosts=4")


def finished(parsed: RunConfig, *overrides: str) -> RunFolder:
    return start(parse_config(parsed.model_dump(mode="json"), [*COMMON, *overrides])).folder


def compare(path: Path, root: Path) -> tuple[bool, str]:
    parsed = small_version(path, root)
    here = finished(parsed, f"output.root={root}/here")
    began = time.monotonic()
    apart = finished(parsed, f"output.root={root}/apart", "engine.name=flare", "engine.sites=4")
    models = [(run.path / "model.safetensors").read_bytes() for run in (here, apart)]
    sizes = [run.summary().bytes for run in (here, apart)]
    same = models[0] == models[1] and sizes[0] == sizes[1]
    up = sizes[1].up.payload
    words = "same weights, same bytes" if same else "DIFFERS"
    seconds = f"run {apart.summary().seconds:.1f} s of {time.monotonic() - began:.1f} s"
    return same, f"{parsed.method.name:16} {words}, {up} payload bytes up, {seconds}"


def main(root: Path, names: list[str]) -> int:
    failed = 0
    for path in CONFIGS:
        if names and path.stem not in names:
            continue
        try:
            same, words = compare(path, root / path.stem)
        except SecurefgError as error:
            same, words = False, f"{type(error).__name__}: {error}"
        failed += not same
        print(f"{path.stem:28} {words}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
