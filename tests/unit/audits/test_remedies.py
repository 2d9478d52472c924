"""Remedies come from the attacks' own words, with a setting that a config takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from audits.answer.build import make_answer
from audits.answer.model import Level, Remedy, RunFacts, Twin
from audits.answer.remedies import KINDS, overrides_for
from audits.answer.terminal import answer_lines
from securefg.settings.config import parse_config
from tests.small import tree
from tests.unit.audits.made_answers import FACTS, answer, leak


def by_key(*remedies: Remedy) -> dict[str, tuple[str, ...]]:
    return {remedy.key or remedy.words: remedy.codes for remedy in remedies}


def test_remedy_is_offered_only_if_it_stops_every_leak_of_a_cell() -> None:
    given_answer = answer(
        leak("one", stopped_by="masks; noise on the rows"),
        leak("two", stopped_by="noise on the rows; masks do not"),
        leak("three", "LABEL-SERVER", stopped_by="masks; noise on the rows"),
    )
    assert by_key(*given_answer.remedies) == {
        "masks": ("SFG-LABEL-SERVER",),
        "noise": ("SFG-LABEL-SERVER", "SFG-LINK-SERVER"),
    }


def test_remedy_without_a_setting_is_told_in_words() -> None:
    words = "not answering for others' nodes; noise on the edges; masks do not"
    given_answer = answer(
        leak("one", "LINK-CLIENT", stopped_by=words),
        leak("two", "LINK-OUTSIDER", stopped_by="noise on the edges"),
        leak("three", "MODEL-OUTSIDER", stopped_by="masks do not"),
    )
    assert by_key(*given_answer.remedies) == {
        "noise on the edges": ("SFG-LINK-CLIENT", "SFG-LINK-OUTSIDER"),
        "no remedy is known": ("SFG-MODEL-OUTSIDER",),
    }


def test_remedy_that_is_on_is_not_offered() -> None:
    masked = FACTS.model_copy(update={"masks": True, "noise": "epsilon 8"})
    assert [remedy.key for remedy in answer(leak(), facts=masked).remedies] == [""]


def test_run_with_noise_is_told_that_more_noise_helps() -> None:
    noised = FACTS.model_copy(update={"noise": "epsilon 8"})
    (remedy,) = answer(leak(stopped_by="noise on the rows; masks do not"), facts=noised).remedies
    assert (remedy.key, remedy.words) == ("", "a smaller epsilon (privacy.target_epsilon)")
    (remedy,) = answer(leak(stopped_by="masks do not"), facts=noised).remedies
    assert remedy.words == "no remedy is known"


@pytest.mark.parametrize("key", [kind.key for kind in KINDS])
@pytest.mark.parametrize("masks", [False, True])
def test_overrides_of_a_remedy_make_a_config(key: str, masks: bool, tmp_path: Path) -> None:
    run = RunFacts(name="x", method="fedgl", rounds=8, has_equal_weights=False, masks=masks)
    start = ["privacy.secure_aggregation={}"] if masks else []
    config = parse_config(tree(tmp_path), [*start, *overrides_for(key, run)])
    assert config != parse_config(tree(tmp_path), start) or (key, masks) == ("masks", True)
    assert (config.privacy.secure_aggregation is not None) == (masks or key == "masks")


def test_twin_fills_in_the_marks() -> None:
    twin = Twin(rounds=20, quality=FACTS.quality, levels={"SFG-LINK-SERVER": Level.NO_VIEW})
    untried = make_answer([leak()], FACTS)
    assert not any(remedy.is_tried for remedy in untried.remedies)
    tried = make_answer([leak()], FACTS, {"masks": twin})
    text = "\n".join(line.plain for line in answer_lines(tried))
    assert "[1] masks, tried (20 rounds, accuracy 90%): [1] stopped;" in text
    still = twin.model_copy(update={"levels": {"SFG-LINK-SERVER": Level.ALL}})
    text = "\n".join(
        line.plain for line in answer_lines(make_answer([leak()], FACTS, {"masks": still}))
    )
    assert "[1] still ALL" in text
