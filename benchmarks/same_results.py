"""Do two checkouts give the same weights, byte counts and epsilon for every shipped config?

    python benchmarks/same_results.py BEFORE AFTER [--rounds 2] [--only fedgl]

Both are run with few rounds and seeded noise, each in one process of its own; prints a line per
config and exits 1 where anything differs. Envelope sizes are not compared: they carry kinds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

COMPARED = ("weights", "payload_up", "payload_down", "epsilon", "test_accuracy")


def collect(root: Path, names: list[str], rounds: int, out: Path) -> None:
    """Run configs of the checkout whose packages are first on the path; write their figures."""
    import torch
    from safetensors.numpy import load_file

    try:
        from securefg.cli.main import app
    except ImportError:
        from securefg.cli import app

    torch.set_num_threads(1)
    found: dict[str, dict[str, object]] = {}
    for name in names:
        config = root / "configs" / f"{name}.yaml"
        text = config.read_text()
        runs = Path(tempfile.mkdtemp())
        override = [f"training.rounds={rounds}", f"output.root={runs}", "output.transcript_every=0"]
        if "mechanism" in text or "dp_sgd" in text:
            override.append("privacy.noise_rng=seeded")
        arguments = ["run", str(config), "--quiet", *(f"--set={o}" for o in override)]
        try:
            app(arguments, standalone_mode=False)
        except SystemExit as error:
            if error.code:
                found[name] = {"failed": str(error)}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
        folders = list(runs.iterdir())
        if name not in found and folders:
            found[name] = _figures(folders[0], load_file(folders[0] / "model.safetensors"))
        out.write_text(json.dumps(found))
        print(name, found.get(name, {}).get("weights", "failed"), flush=True)


def _figures(folder: Path, arrays: dict[str, object]) -> dict[str, object]:
    summary = json.loads((folder / "summary.json").read_text())
    digest = hashlib.sha256()
    for key in sorted(arrays):
        digest.update(key.encode() + arrays[key].tobytes())  # type: ignore[attr-defined]
    return {
        "weights": digest.hexdigest()[:16],
        "payload_up": summary["bytes"]["up"]["payload"],
        "payload_down": summary["bytes"]["down"]["payload"],
        "envelope_up": summary["bytes"]["up"]["envelope"],
        "epsilon": {unit: claim["epsilon"] for unit, claim in summary["epsilon"].items()},
        "test_accuracy": summary["test_accuracy"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--collect", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = sorted(
        path.stem
        for path in (asked.before / "configs").glob("*.yaml")
        if asked.only in path.stem and not path.stem.startswith("curve")
    )
    if asked.collect:
        collect(asked.before, names, asked.rounds, asked.collect)
        return 0
    sides = [_side(root, asked) for root in (asked.before, asked.after)]
    different = 0
    for name in names:
        one, two = (side.get(name, {"failed": "no result"}) for side in sides)
        differs = [key for key in COMPARED if one.get(key) != two.get(key)]
        failed = [side["failed"] for side in (one, two) if "failed" in side]
        different += bool(differs or failed)
        print(f"{name:40} {'same' if not (differs or failed) else f'{differs} {failed}'}")
    print(f"{len(names) - different} of {len(names)} the same")
    return int(different > 0)


def _side(root: Path, asked: argparse.Namespace) -> dict[str, dict[str, object]]:
    out = Path(tempfile.mkdtemp()) / "figures.json"
    command = [sys.executable, __file__, str(root), str(root), "--collect", str(out)]
    command += ["--rounds", str(asked.rounds), "--only", asked.only]
    paths = os.pathsep.join([str(root.resolve())])
    subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, cwd=root, check=True)
    figures: dict[str, dict[str, object]] = json.loads(out.read_text())
    return figures


if __name__ == "__main__":
    sys.exit(main())
