"""Measure other projects' defences and write the table of docs/research/other_defences.md.

    .venv/bin/python benchmarks/peers/defences.py                   measure what can run here
    .venv/bin/python benchmarks/peers/defences.py --page-only       write the table alone

Flower's row needs its own environment (`make .venv-flower/.installed`). Packages that are only read
(OpenFGL, FedGraph) are downloaded from the package index and not installed. Rows are stored in
`defences.json`, with versions. A row that could not be measured keeps its stored figures.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from audits.empirical_epsilon import epsilon_of_mu

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ROWS = HERE / "defences.json"
PAGE = ROOT / "docs/research/other_defences.md"
BEGIN, END = "<!-- measured defences -->\n", "<!-- end of measured defences -->"
FLOWER = ROOT / ".venv-flower/bin/python"
OPENFGL, FEDGRAPH = "openfgl-lib==1.1.0", "fedgraph==0.2.5"
FEDGRAPH_MODULE = "fedgraph/differential_privacy.py"


@dataclass(frozen=True)
class Peer:
    """A defence under test.

    noise_ratio  the standard deviation of its Gaussian noise over the clip, where it has that
    moves        how far two neighbouring values lie apart, in clips
    fixed        the true epsilon in words, where no arithmetic on noise_ratio gives it
    is_split     whether the claim is shared among all rounds, so that one release is one round
    """

    package: str
    title: str
    module: str
    settings: tuple[str, ...] = ()
    noise_ratio: float | None = None
    moves: float = 1.0
    delta: float = 1e-5
    fixed: str = ""
    is_split: bool = False

    @property
    def key(self) -> str:
        """Return the name of the stored row."""
        return " ".join([self.module, *self.settings])

    def true_epsilon(self) -> str:
        """Return the epsilon of one release and of five, by arithmetic."""
        if self.noise_ratio is None:
            return self.fixed
        mu = self.moves / self.noise_ratio
        one, five = (epsilon_of_mu(mu * math.sqrt(t), self.delta) for t in (1, 5))
        return f"{one:.1f}" if self.is_split else f"{one:.1f} (five releases: {five:.1f})"


def classical_noise(epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the classical formula's standard deviation, proved for epsilon below 1."""
    return sensitivity * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


REPLACED = ("--set", "claim.relation=replaced")
LOCAL_DP = classical_noise(10, 1e-5, 1.0)
OPENFGL_NOISE = classical_noise(10, 1e-5, 2.0)
PEERS = (
    Peer(
        "flwr",
        "Flower `LocalDpMod`, clipping norm and sensitivity 1, an update removed",
        "defences.flower_local_dp",
        noise_ratio=LOCAL_DP,
    ),
    Peer(
        "flwr",
        "the same, an update replaced by its opposite",
        "defences.flower_local_dp",
        REPLACED,
        noise_ratio=LOCAL_DP,
        moves=2.0,
    ),
    Peer(
        "nvflare",
        "NVIDIA FLARE `PercentilePrivacy`, defaults: no noise, no claim, held against 4",
        "defences.nvflare_percentile",
        fixed="infinite: it adds no noise",
    ),
    Peer(
        "nvflare",
        "NVIDIA FLARE `SVTPrivacy`, epsilon .1 and noise_var .1 on 4 of 40 numbers",
        "defences.nvflare_svt",
        fixed="not computed",
    ),
    Peer(
        "openfgl-lib",
        "OpenFGL `add_noise`, Gaussian, one step of plain SGD, a gradient replaced",
        "defences.openfgl_dp_sgd",
        noise_ratio=OPENFGL_NOISE,
        moves=2.0,
        is_split=True,
    ),
    Peer(
        "openfgl-lib",
        "the same with Adam, the library's default",
        "defences.openfgl_dp",
        fixed="not computed: Adam's step does not shrink with the gradient",
    ),
)


def unpack(requirement: str, folder: Path) -> Path:
    """Return the folder with the files of a wheel, which is not installed."""
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", requirement]
    target = folder / requirement
    subprocess.run([*command, "-d", str(target)], check=True, stderr=subprocess.DEVNULL)
    (wheel,) = target.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target)
    return target


def measure_peer(peer: Peer, paths: list[Path], trials: int) -> dict[str, Any] | None:
    """Return the command's JSON and the version. None where the environment is missing."""
    python = FLOWER if peer.package == "flwr" else Path(sys.executable)
    if not python.is_file():
        return None
    places = os.pathsep.join(map(str, [ROOT, ROOT / "examples", *paths]))
    command = [str(python), "-m", "securefg", "audit", "mechanism", peer.module, "--json"]
    command += ["--trials", str(trials), *peer.settings]
    done = subprocess.run(
        command,
        cwd=ROOT / "examples",
        env={**os.environ, "PYTHONPATH": places},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        print(f"{peer.key}: not measured\n{done.stderr[-400:]}", file=sys.stderr)
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "version": find_version(peer.package, python), "asked_trials": trials}


def find_version(package: str, python: Path) -> str:
    """Return the version of a package in the environment that was used."""
    if package == "openfgl-lib":
        return OPENFGL.partition("==")[2]
    if package == "nvflare":
        return version(package)
    code = f"from importlib.metadata import version; print(version({package!r}))"
    done = subprocess.run([str(python), "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def read_fedgraph(folder: Path) -> dict[str, Any]:
    """Return whether FedGraph's package holds the module that its DP setting imports."""
    found = unpack(FEDGRAPH, folder)
    return {"version": FEDGRAPH.partition("==")[2], "has_dp": (found / FEDGRAPH_MODULE).is_file()}


def measure_all(trials: int) -> dict[str, Any]:
    """Return all rows, the stored ones where nothing could be measured."""
    rows: dict[str, Any] = json.loads(ROWS.read_text()) if ROWS.is_file() else {}
    with tempfile.TemporaryDirectory() as name:
        paths = [unpack(OPENFGL, Path(name))]
        for peer in PEERS:
            if (measured := measure_peer(peer, paths, trials)) is not None:
                rows[peer.key] = measured
        rows["fedgraph"] = read_fedgraph(Path(name))
    ROWS.write_text(json.dumps(rows, indent=1) + "\n")
    return rows


def table_text(rows: dict[str, Any]) -> str:
    """Return the table of the page."""
    heads = ("defence", "version", "claimed", "true, by arithmetic", "shown at least", "ceiling")
    lines = [heads, ("---",) * 7]
    lines[0] = (*heads, "command")
    for peer in PEERS:
        if (row := rows.get(peer.key)) is None:
            continue
        claim, mark = row["claim"], ": VIOLATION" if row["verdict"] == "VIOLATION" else ""
        command = f"`securefg audit mechanism {peer.key} --trials {row['asked_trials']}`"
        shown = f"{row['epsilon_lower']:.3g}{mark}"
        claimed = f"{claim['epsilon']:g}, delta {claim['delta']:g}"
        true_epsilon = peer.true_epsilon()
        cells = (
            peer.title,
            row["version"],
            claimed,
            true_epsilon,
            shown,
            f"{row['ceiling']:.3g}",
            command,
        )
        lines.append(cells)
    if (row := rows.get("fedgraph")) is not None:
        true_epsilon = (
            "it has the module" if row["has_dp"] else f"none: it lacks `{FEDGRAPH_MODULE}`"
        )
        title = "FedGraph `use_dp: true`, the package on the index"
        lines.append((title, row["version"], "`dp_epsilon`", true_epsilon, "not run", "-", "-"))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_page(rows: dict[str, Any]) -> None:
    """Put the table between the page's marks."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}{table_text(rows)}{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description="The table of other projects' defences.")
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--page-only", action="store_true")
    asked = parser.parse_args()
    write_page(json.loads(ROWS.read_text()) if asked.page_only else measure_all(asked.trials))


if __name__ == "__main__":
    main()
