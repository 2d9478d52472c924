"""Patients of three hospitals and who shared a room, as tables: `python generate.py OUT`.

A resistant germ passes between patients who share a room. Some patients lie in two hospitals, some
were never tested, laboratory values have gaps, and birth dates are dates. Nobody's data: all is
drawn from a seed.
"""

from __future__ import annotations

import argparse
import csv
from datetime import date, timedelta
from pathlib import Path

import numpy as np

HOSPITALS = ("city", "county", "university")
DIAGNOSES = ("E11", "I10", "I25", "J44", "N18", "S72")
COLUMNS = ("patient", "born", "sex", "diagnosis", "creatinine", "antibiotics", "carrier")
TABLES = """\
nodes: patients
edges: rooms
label: carrier
classes: ["no", "yes"]
date: {born: {reference: "2025-01-01", years: 100}}
range: {creatinine: [0, 4], antibiotics: [0, 20]}
values: {sex: [f, m], diagnosis: [E11, I10, I25, J44, N18, S72]}
gaps: [creatinine]
unknown_ends: drop
"""
"""Everything in it is public knowledge, so the schema tells nothing of the patients."""


def draw_rooms(patients: int, rng: np.random.Generator) -> list[tuple[int, int, int]]:
    """Return (patient, patient, day): most patients meet few others, all in one ward."""
    ward = rng.integers(0, max(1, patients // 25), patients)
    rooms = []
    for number in range(patients):
        near = np.flatnonzero(ward == ward[number])
        for other in rng.choice(near, min(len(near), int(rng.integers(1, 5))), replace=False):
            if other != number:
                rooms.append((number, int(other), int(rng.integers(1, 366))))
    return rooms


def spread_germ(
    patients: int, rooms: list[tuple[int, int, int]], rng: np.random.Generator
) -> np.ndarray:
    """Return who carries the germ: some bring it, and rooms pass it on in the order of days."""
    carrier = rng.random(patients) < 0.02
    for one, other, _ in sorted(rooms, key=lambda room: room[2]):
        if carrier[one] != carrier[other] and rng.random() < 0.4:
            carrier[one] = carrier[other] = True
    return carrier


def patient_row(number: int, is_carrier: bool, rng: np.random.Generator) -> tuple[str, ...]:
    """Return one patient's line."""
    born = date(1930, 1, 1) + timedelta(days=int(rng.integers(0, 29_000)))
    creatinine = "" if rng.random() < 0.2 else f"{rng.gamma(4.0, 0.25):.2f}"
    antibiotics = str(int(rng.poisson(6 if is_carrier else 3)))
    tested = "" if rng.random() < 0.25 else ("yes" if is_carrier else "no")
    shares = [0.2, 0.25, 0.15, 0.15, 0.15, 0.1]
    diagnosis = str(rng.choice(DIAGNOSES, p=shares))
    sex = str(rng.choice(["f", "m"]))
    return f"P-{number:06d}", born.isoformat(), sex, diagnosis, creatinine, antibiotics, tested


def write_tables(out: Path, patients: int, seed: int) -> int:
    """Write a folder per hospital and return the number of carriers."""
    rng = np.random.default_rng(seed)
    rooms = draw_rooms(patients, rng)
    carrier = spread_germ(patients, rooms, rng)
    rows = [patient_row(n, bool(c), rng) for n, c in enumerate(carrier)]
    first = rng.integers(0, len(HOSPITALS), patients)
    second = np.where(rng.random(patients) < 0.06, (first + 1) % len(HOSPITALS), first)
    out.mkdir(parents=True)
    (out / "tables.yaml").write_text(TABLES)
    for number, hospital in enumerate(HOSPITALS):
        here = np.flatnonzero((first == number) | (second == number)).tolist()
        own = set(here)
        _write(out / hospital / "patients.csv", COLUMNS, [rows[n] for n in here])
        shared = [(f"P-{a:06d}", f"P-{b:06d}", day) for a, b, day in rooms if a in own and b in own]
        _write(out / hospital / "rooms.csv", ("patient", "other", "day"), shared)
    return int(carrier.sum())


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--patients", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(arguments)
    carriers = write_tables(asked.out, asked.patients, asked.seed)
    print(f"wrote {asked.out}: {asked.patients} patients, {carriers} carriers")


if __name__ == "__main__":
    main()
