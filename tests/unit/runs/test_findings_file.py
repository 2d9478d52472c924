"""Findings are stored as they come; an audit of some attacks replaces theirs and no others."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from audits.findings.file import FindingsFile, is_whole
from audits.findings.record import MISSING, SCHEMA, UNFINISHED, Finding, Verdict
from audits.findings.stored import read_findings
from securefg.foundation.errors import RunFolderError
from tests.unit.runs.written_over import write_over


def finding(attack: str, adversary: str = "server", because: str = "", **more: object) -> Finding:
    return Finding(
        adversary=adversary,
        attack=attack,
        method="made",
        metric="-",
        unit="-",
        verdict=Verdict.INCONCLUSIVE,
        because=because,
        **more,
    )


def begun(folder: Path, *, anew: bool = False) -> FindingsFile:
    return FindingsFile.begin(folder, {"name": "made"}, anew=anew)


def stored(folder: Path) -> list[tuple[str, str, str]]:
    found = read_findings(folder / "findings.json")
    return [
        (f.attack, f.adversary, f.because) for f in found if f.attack not in (UNFINISHED, MISSING)
    ]


def age(folder: Path, day: str) -> None:
    path = folder / "findings.json"
    tree = json.loads(path.read_text())
    for entry in tree["findings"]:
        entry["made"] = day
    write_over(path, tree)


def test_every_finding_is_on_disk_before_the_next(folder: Path) -> None:
    file = begun(folder)
    file.add([finding("a")])
    assert stored(folder) == [("a", "server", "")]
    file.add([finding("b")])
    assert stored(folder) == [("a", "server", ""), ("b", "server", "")]


def test_an_audit_of_some_attacks_leaves_the_others_with_their_day(folder: Path) -> None:
    begun(folder).add([finding("a", because="old"), finding("b", because="old")])
    age(folder, "2001-01-01")
    begun(folder).add([finding("b", because="new")])
    assert stored(folder) == [("a", "server", "old"), ("b", "server", "new")]
    days = {one.attack: one.made for one in read_findings(folder / "findings.json")}
    assert days["a"] == "2001-01-01"
    assert days["b"] > "2001-01-01"


def test_an_attack_from_another_place_is_another_finding(folder: Path) -> None:
    begun(folder).add([finding("a", "server"), finding("a", "client:0")])
    begun(folder).add([finding("a", "client:0", "new")])
    assert stored(folder) == [("a", "server", ""), ("a", "client:0", "new")]


def test_several_findings_of_one_attack_stay_together(folder: Path) -> None:
    """A check has one for every field; asked again, all of the last time go."""
    begun(folder).add([finding("a", because=text) for text in ("1", "2", "3")])
    again = begun(folder)
    again.add([finding("a", because="4")])
    again.add([finding("a", because="5")])
    assert stored(folder) == [("a", "server", "4"), ("a", "server", "5")]


def test_a_whole_audit_begins_anew(folder: Path) -> None:
    begun(folder).add([finding("a")])
    begun(folder, anew=True).add([finding("b")])
    assert stored(folder) == [("b", "server", "")]


def test_coverage_is_always_of_the_last_audit(folder: Path) -> None:
    first = begun(folder)
    first.add([finding("a")])
    first.replace_coverage([finding("unread_field"), finding("untaken_place", "wire")])
    second = begun(folder)
    second.replace_coverage([finding("untaken_place", "client")])
    assert stored(folder) == [("a", "server", ""), ("untaken_place", "client", "")]


def test_scores_are_kept_as_long_as_their_finding(folder: Path) -> None:
    def close(name: str, value: float, *, anew: bool = False) -> None:
        file = begun(folder, anew=anew)
        file.add([finding(name)])
        file.close({f"{name}/server/score": np.array([value])})

    def scores() -> dict[str, float]:
        with np.load(folder / "scores.npz", allow_pickle=False) as held:
            return {name: float(held[name][0]) for name in held}

    close("a", 1.0)
    close("b", 2.0)
    assert scores() == {"a/server/score": 1.0, "b/server/score": 2.0}
    close("a", 3.0)
    assert scores() == {"a/server/score": 3.0, "b/server/score": 2.0}
    close("b", 4.0, anew=True)
    assert scores() == {"b/server/score": 4.0}


@pytest.mark.parametrize("schema", [SCHEMA - 1, SCHEMA + 1, None, "2"])
def test_another_schema_is_refused_and_not_added_to(folder: Path, schema: object) -> None:
    begun(folder).add([finding("a")])
    path = folder / "findings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": schema}))
    with pytest.raises(RunFolderError, match=r"findings of schema .*securefg audit"):
        begun(folder)
    begun(folder, anew=True).add([finding("b")])
    assert stored(folder) == [("b", "server", "")]


def test_a_figure_that_is_no_number_is_no_finding() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="finite"):
            finding("a", floor=value)


def test_an_audit_that_was_broken_off_is_a_finding_until_one_like_it_ends(
    folder: Path,
) -> None:
    path = folder / "findings.json"
    FindingsFile.begin(folder, {}, anew=False, asked="a").add([finding("a")])
    (last,) = [f for f in read_findings(path) if f.attack == UNFINISHED]
    assert (last.verdict, last.failed) == (Verdict.INCONCLUSIVE, True)
    other = FindingsFile.begin(folder, {}, anew=False, asked="b")
    other.add([finding("b")])
    other.close({})
    assert not is_whole(path)
    again = FindingsFile.begin(folder, {}, anew=False, asked="a")
    again.add([finding("a")])
    assert not is_whole(path)
    again.close({})
    assert is_whole(path)


def test_a_whole_audit_ends_all_that_were_broken_off(folder: Path) -> None:
    path = folder / "findings.json"
    begun(folder).add([finding("a")])
    whole = FindingsFile.begin(folder, {}, anew=True)
    whole.close({})
    assert is_whole(path)
    path.write_text(path.read_text()[:-20])
    assert not is_whole(path)


def test_scores_that_cannot_be_read_are_said_to_be_lost(folder: Path) -> None:
    (folder / "scores.npz").write_bytes(b"PK nothing")
    file = begun(folder)
    with pytest.warns(UserWarning, match="scores of earlier audits are lost"):
        file.close({"a": np.arange(3)})
    assert is_whole(folder / "findings.json")


def test_an_attack_that_finds_no_place_now_leaves_none_of_its_old_findings(
    folder: Path,
) -> None:
    begun(folder).add([finding("a", "server"), finding("a", "client:0"), finding("b", "server")])
    begun(folder).add([finding("a", "-", "cannot be loaded")])
    assert stored(folder) == [("b", "server", ""), ("a", "-", "cannot be loaded")]
    begun(folder).add([finding("a", "server", "can again")])
    assert stored(folder) == [("b", "server", ""), ("a", "server", "can again")]


def test_the_findings_of_a_check_are_replaced_together(folder: Path) -> None:
    """One that breaks off now leaves no old NOT_DETECTED of its own behind, and the reverse."""
    begun(folder).add([finding("mechanism_canary"), finding("a")], check="mechanisms")
    begun(folder).add([finding("mechanisms", "-", "it failed")], check="mechanisms")
    assert stored(folder) == [("mechanisms", "-", "it failed")]
    begun(folder).add([finding("mechanism_canary")], check="mechanisms")
    assert stored(folder) == [("mechanism_canary", "server", "")]


def test_findings_about_another_record_are_refused_and_not_added_to(folder: Path) -> None:
    first = FindingsFile.begin(folder, {"record": "ab12"}, anew=True)
    first.add([finding("a")])
    first.close({})
    path = folder / "findings.json"
    assert is_whole(path, "ab12")
    assert not is_whole(path, "cd34")
    with pytest.raises(RunFolderError, match="another record"):
        read_findings(path, "cd34")
    with pytest.raises(RunFolderError, match="another record"):
        FindingsFile.begin(folder, {"record": "cd34"}, anew=False)
    FindingsFile.begin(folder, {"record": "cd34"}, anew=True).add([finding("b")])
    assert stored(folder) == [("b", "server", "")]


def test_the_file_is_the_json_that_anybody_would_write(folder: Path) -> None:
    file = begun(folder)
    for number in range(3):
        file.add([finding(f"attack_{number}", details={"a": 0.5}, assumptions=("x", "y"))])
        text = (folder / "findings.json").read_text()
        assert text == json.dumps(json.loads(text), indent=2) + "\n"
    file.findings = []
    file.close({})
    text = (folder / "findings.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2) + "\n"
    assert json.loads(text)["findings"] == []
