"""Flower: record what a server sees, and put a site's gate on what a client sends.

    recorded.py   a wrapper of the server's Grid that records every strategy
    gate.py       a client mod: clip, noise, floor, budget and books of the site
    homes.py      a site's folder with its settings, which no run can change
    truth.py      the site's own samples, added to a recording so that attacks can be scored

Importing this package needs `pip install 'securefg[flower]'`. Nothing else of securefg imports it.
"""

from __future__ import annotations

from securefg.flower.gate import SiteGate, SiteNote
from securefg.flower.homes import open_site
from securefg.flower.recorded import Recorded
from securefg.flower.truth import add_truth

__all__ = ["Recorded", "SiteGate", "SiteNote", "add_truth", "open_site"]
