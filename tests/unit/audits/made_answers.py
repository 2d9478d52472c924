"""Findings made up for tests of the answer, as an audit writes them."""

from __future__ import annotations

from typing import Any

from audits.answer.build import make_answer
from audits.answer.model import Answer, Quality, RunFacts
from audits.findings.record import Finding, Verdict
from securefg.foundation.interval import Interval

FACTS = RunFacts(
    name="made",
    method="fedgl",
    folder="runs/made",
    clients=3,
    quality=Quality(score="accuracy", value=0.9, one_class=0.5),
    epsilon={"node": None},
)


def figure(value: float, spread: float = 0.02) -> Interval:
    return Interval(value=value, low=value - spread, high=value + spread)


def leak(attack: str = "links", cell: str = "LINK-SERVER", **more: Any) -> Finding:
    """A finding from .5 to `value`, LEAK unless told otherwise."""
    value, prior = more.pop("value", 0.97), more.pop("prior", 0.5)
    finding_fields = {
        "adversary": cell.rpartition("-")[2].lower(),
        "attack": attack,
        "method": "fedgl",
        "metric": "AUC over pairs",
        "unit": "edge",
        "verdict": Verdict.LEAK,
        "because": "it gains",
        "value": figure(value),
        "prior": figure(prior),
        "gain": figure(value - prior),
        "targets": 100,
        "cells": (cell,),
        "exposes": "who is connected to whom",
        "stopped_by": "masks; noise on the rows",
        **more,
    }
    return Finding.model_validate(finding_fields)


def unmet(attack: str, cell: str, kind: str = "does_not_apply") -> Finding:
    return leak(
        attack,
        cell,
        verdict=Verdict.INCONCLUSIVE,
        measured=False,
        unmet=kind,
        **dict.fromkeys(("gain",), None),
    ).model_copy(update={"value": None, "prior": None, "because": "not run: nothing is sent"})


def told(attack: str, metric: str, **more: Any) -> Finding:
    """A finding about the audit itself."""
    return Finding.model_validate(
        {
            "adversary": "server",
            "attack": attack,
            "method": "fedgl",
            "metric": metric,
            "unit": "-",
            "verdict": Verdict.INCONCLUSIVE,
            "because": f"about {metric}",
            "measured": False,
            **more,
        }
    )


def promise(verdict: Verdict, attack: str = "integrity") -> Finding:
    return told(attack, "hash chain", verdict=verdict, measured=True, check=attack)


def answer(*findings: Finding, facts: RunFacts = FACTS) -> Answer:
    return make_answer(findings, facts)
