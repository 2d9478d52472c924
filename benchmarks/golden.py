"""Compare the results of two checkouts to the bit: every shipped config, one audit per method.

    python benchmarks/golden.py BEFORE AFTER [--only fedgl] [--audits] [--tolerance 1e-6]

BEFORE and AFTER are checkouts, or golden files that `--write FILE` stored earlier on this machine.
Bits differ between machines, so golden files are computed where they are compared and are not
committed. Every config runs in its small form: few rounds, seeded noise, a small drawn graph. Of a
run the script compares weights, ledger, summary and transcript chain; of an audit, findings and
scores. It prints one line per config and exits 1 if anything differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

AUDITED = {
    "fedgl": "quickstart",
    "fedavg": "fedavg_csbm",
    "gfl_appnp": "gfl_dnc",
    "nfedgnn": "nfedgnn_cora",
    "ppfl": "ppfl_gat_cora",
    "two_sums": "private_made",
}
"""The config whose small run is audited, by method."""
ROUNDS = 2
NODES = 2000
IGNORED = {"seconds", "versions", "run_id", "config_hash", "git", "format", "chain", "made_by"}
"""Keys of files that may differ between two runs of one version."""
Golden = dict[str, dict[str, Any]]


def collect(root: Path, only: str, audits: bool, out: Path) -> None:
    """Run the configs of the checkout that is first on Python's path and store their results."""
    import torch

    torch.set_num_threads(1)
    time.time = lambda: 0.0  # the transcript's chain covers the clock
    results: Golden = {}
    audited = set(AUDITED.values()) if audits else set()
    for config in sorted((root / "configs").glob("*.yaml")):
        name = config.stem
        if only not in name or name.startswith("curve"):
            continue
        runs = Path(tempfile.mkdtemp())
        results[name] = run_config(config, runs, name in audited)
        out.write_text(json.dumps(results))
        print(name, results[name].get("weights", results[name].get("failed")), flush=True)


def run_config(config: Path, runs: Path, audited: bool) -> dict[str, Any]:
    """The results of one config in its small form, or why it has none."""
    overrides = [f"output.root={runs}", "output.transcript_every=1"]
    text = config.read_text()
    if "rounds: 1," not in text:
        overrides.append(f"training.rounds={ROUNDS}")
    if "mechanism" in text or "dp_sgd" in text:
        overrides.append("privacy.noise_rng=seeded")
    if "num_nodes: 1000000" in text:
        overrides.append(f"data.csbm.num_nodes={NODES}")
    failure = call("run", str(config), "--quiet", *(f"--set={o}" for o in overrides))
    folders = list(runs.iterdir())
    if failure or not folders:
        return {"failed": failure or "no folder"}
    results = run_results(folders[0])
    if audited:
        failure = call("audit", str(folders[0]), "--quiet", "--jobs", "1", "--trials", "1000")
        results |= {"failed": failure} if failure else audit_results(folders[0])
    return results


def call(*arguments: str) -> str:
    """Run one command in this process; returns why it failed, or nothing."""
    from securefg.cli.main import app

    try:
        app(list(arguments), standalone_mode=False)
    except SystemExit as error:
        return f"exit {error.code}" if error.code not in (None, 0, 1) else ""
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def run_results(folder: Path) -> dict[str, Any]:
    summary = json.loads((folder / "summary.json").read_text())
    return {
        "weights": digest_arrays(folder / "model.safetensors"),
        "transcript": summary.get("transcript_chain"),
        "summary": flat(summary),
        "ledger": [flat(json.loads(line)) for line in (folder / "ledger.jsonl").open()],
    }


def audit_results(folder: Path) -> dict[str, Any]:
    import numpy as np

    stored = json.loads((folder / "audit" / "findings.json").read_text())
    findings = stored["findings"] if isinstance(stored, dict) else stored
    keys = ("attack", "adversary", "metric", "unit")
    by_name = {"/".join(str(f.get(k)) for k in keys): flat(f) for f in findings}
    with np.load(folder / "audit" / "scores.npz") as scores:
        digests = {name: digest(scores[name].tobytes()) for name in scores.files}
    return {"findings": by_name, "scores": digests}


def flat(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Leaves of a JSON tree by their dotted path, without what may differ between equal runs."""
    if isinstance(tree, dict):
        parts = [flat(v, f"{prefix}{k}.") for k, v in tree.items() if k not in IGNORED]
        return {key: value for part in parts for key, value in part.items()}
    if isinstance(tree, list):
        parts = [flat(v, f"{prefix}{i}.") for i, v in enumerate(tree)]
        return {key: value for part in parts for key, value in part.items()}
    return {prefix.rstrip("."): tree}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def digest_arrays(path: Path) -> str:
    from safetensors.numpy import load_file

    arrays = load_file(path)
    return digest(b"".join(key.encode() + arrays[key].tobytes() for key in sorted(arrays)))


def differences(before: Any, after: Any, tolerance: float, path: str = "") -> list[str]:
    """Every path at which two results differ; numbers may lie `tolerance` apart, relatively."""
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(before.keys() | after.keys())
        difference_lines = []
        for key in keys:
            place = f"{path}/{key}"
            if key not in before or key not in after:
                difference_lines.append(f"{place} only {'after' if key in after else 'before'}")
            else:
                difference_lines += differences(before[key], after[key], tolerance, place)
        return difference_lines
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [d for i, (a, b) in pairs for d in differences(a, b, tolerance, f"{path}/{i}")]
    if before == after or is_close(before, after, tolerance):
        return []
    return [f"{path}: {short(before)} -> {short(after)}"]


def is_close(before: Any, after: Any, tolerance: float) -> bool:
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    return numbers and abs(before - after) <= tolerance * max(1.0, abs(before))


def short(value: Any) -> str:
    return f"{value!r:.40}"


def load(side: Path, asked: argparse.Namespace) -> Golden:
    """Golden results: read from a file, or computed in a process of the checkout's own."""
    if side.is_file():
        stored: Golden = json.loads(side.read_text())
        return {name: results for name, results in stored.items() if asked.only in name}
    out = Path(tempfile.mkdtemp()) / "golden.json"
    command = [sys.executable, __file__, str(side), str(side), "--collect", str(out)]
    command += ["--only", asked.only, *(["--audits"] if asked.audits else [])]
    environment = {**os.environ, "PYTHONPATH": str(side.resolve())}
    subprocess.run(command, env=environment, cwd=side, check=True)
    computed: Golden = json.loads(out.read_text())
    return computed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--only", default="", help="configs whose name contains this text")
    parser.add_argument("--audits", action="store_true", help="also audit one run per method")
    parser.add_argument("--tolerance", type=float, default=0.0)
    parser.add_argument("--write", type=Path, help="store BEFORE's results and compare nothing")
    parser.add_argument("--collect", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.collect:
        collect(asked.before, asked.only, asked.audits, asked.collect)
        return 0
    before = load(asked.before, asked)
    if asked.write:
        asked.write.write_text(json.dumps(before))
        return 0
    if asked.after is None:
        parser.error("AFTER: found nothing; expected a checkout or a golden file")
    after = load(asked.after, asked)
    return report(before, after, asked.tolerance)


def report(before: Golden, after: Golden, tolerance: float) -> int:
    different = 0
    for name in sorted(before.keys() | after.keys()):
        missing = {"failed": "not run"}
        one, two = before.get(name, missing), after.get(name, missing)
        deviations = differences(one, two, tolerance)
        deviations += [f"failed: {side['failed']}" for side in (one, two) if "failed" in side]
        different += bool(deviations)
        print(f"{name:40} {'same' if not deviations else f'{len(deviations)} differences'}")
        for line in deviations[:8]:
            print(f"    {line}")
    total = len(before.keys() | after.keys())
    print(f"{total - different} of {total} the same")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
