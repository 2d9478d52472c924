"""The engine at the server: hosts spread over sites, one packet per site and step.

Several hosts of one site share a packet, so a step costs one exchange whatever the number of hosts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from securefg.federation.engine import Answer, Dropped, Engine, HostId
from securefg.federation.evaluation import LocalScore
from securefg.flare.courier import Courier, Silent
from securefg.flare.standings import Standings
from securefg.foundation.errors import ProtocolError, RunFailed
from securefg.privacy.ledger import Release
from securefg.protocol.codec import Body, Clients
from securefg.site.job import Job
from securefg.site.packets import Opened, join_blobs, split_blobs
from securefg.site.scores import read_score

FAILED = "refused the request, or failed on it; its own refusals.jsonl says why"
Results = Mapping[HostId, tuple[dict[str, Any], Body]]


class Flare(Engine):
    """Carries framed messages to hosts at sites. Whatever a site says is checked before it is used.

    start_within  seconds until every site must have taken up the job, or refused it
    """

    peers_may_lie = True

    def __init__(
        self,
        job: Job,
        courier: Courier,
        attempt: int,
        after_round: int,
        start_within: float,
        standings: Standings | None = None,
    ) -> None:
        self._job, self._courier = job, courier
        self._standings = standings or Standings()
        self.complaints: dict[str, str] = {}
        self.hosts: dict[HostId, Clients] = job.hosts
        self._site_of = {name: site for site, hosts in job.sites.items() for name in hosts}
        self._greet_sites(attempt, after_round, start_within)

    def _greet_sites(self, attempt: int, after_round: int, seconds: float) -> None:
        """Ask every site to take up the job; a refusal ends the run with the site's reason."""
        content = {
            "do": "begin",
            "digest": self._job.digest,
            "attempt": attempt,
            "after_round": after_round,
        }
        waiting, end = set(self._job.sites), time.monotonic() + seconds
        refusals: dict[str, str] = {}
        while waiting:
            answers = self._courier.exchange(dict.fromkeys(sorted(waiting), (content, b"")))
            for site, answer in answers.items():
                if isinstance(answer, Opened):
                    waiting.discard(site)
                    refusals |= self._refusal_of(site, answer.content)
            if waiting and time.monotonic() > end:
                raise RunFailed(f"{', '.join(sorted(waiting))}: did not start in {seconds:g} s")
            time.sleep(0.1 if waiting else 0)
        if refusals:
            raise RunFailed("; ".join(refusals.values()))

    def _refusal_of(self, site: str, content: dict[str, Any]) -> dict[str, str]:
        """Return why a site does not take part; nothing where it does, with its standing noted."""
        if content.keys() != {"ready", "standing"} or content["ready"] is not True:
            return {site: f"{site} refuses: {content.get('refused', 'with nonsense')!s:.500}"}
        try:
            self._standings.note(site, content["standing"])
        except ProtocolError as error:
            return {site: str(error)}
        return {}

    def deliver(self, requests: Mapping[HostId, Body]) -> Mapping[HostId, Answer | Dropped]:
        """Carry each framed request to its host's site; a silent site's hosts are drop-outs."""
        results, silent = self._ask_sites("answer", requests)
        return {
            name: self._read_answer(name, *results[name])
            if name in results
            else Dropped(name, self.hosts[name], silent[self._site_of[name]].reason)
            for name in requests
        }

    def _read_answer(self, name: HostId, result: dict[str, Any], framed: Body) -> Answer | Dropped:
        site = self._site_of[name]
        try:
            if "failed" in result:
                return Dropped(
                    name, self.hosts[name], self._complain_of_site(site, f"{site} {FAILED}")
                )
            releases = [Release.from_json(dict(release)) for release in result["releases"]]
            return Answer(framed, releases)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            reason = f"{site} sent nonsense: {type(error).__name__}"
            return Dropped(name, self.hosts[name], self._complain_of_site(site, reason))

    def measure(self, release: Body, *, at_end: bool = False) -> list[LocalScore]:
        """Return the scores that sites tell; scores that break the rules are left out."""
        results, _ = self._ask_sites("measure", dict.fromkeys(self.hosts, release), at_end=at_end)
        local_scores: list[LocalScore] = []
        for name, (result, _) in results.items():
            try:
                if "failed" in result:
                    self._complain_of_site(self._site_of[name], f"{self._site_of[name]} {FAILED}")
                    continue
                told = result["scores"]
                scores = [read_score(x, self.hosts[name], self._job.sizes.num_nodes) for x in told]
                if len({score.client for score in scores}) != len(scores):
                    raise ProtocolError("a client's score came twice")
                local_scores += scores
            except (ProtocolError, KeyError, TypeError) as error:
                self._complain_of_site(self._site_of[name], f"its scores were not used: {error}")
        return local_scores

    def _complain_of_site(self, site: str, reason: str) -> str:
        self.complaints[site] = reason
        return reason

    def save(self, folder: Path) -> None:
        """Sites keep their states themselves; the server's folder gets none of them."""
        self._keep_states("save", folder)

    def load(self, folder: Path) -> None:
        """Have every site take up its hosts' states."""
        self._keep_states("load", folder)

    def _keep_states(self, do: str, folder: Path) -> None:
        results, _ = self._ask_sites(do, dict.fromkeys(self.hosts, b""), tag=_folder_tag(folder))
        failed = {self._site_of[name] for name, (told, _) in results.items() if "failed" in told}
        for site in failed:
            self._complain_of_site(site, f"{site} {FAILED}")
        if results and failed == {self._site_of[name] for name in self.hosts}:
            raise RunFailed(f"every site failed to {do} its state; each site's log says why")

    def close(self) -> None:
        """Tell every site that the run is over."""
        self._ask_sites("close", dict.fromkeys(self.hosts, b""))

    def _ask_sites(
        self, do: str, blobs: Mapping[HostId, Body], **more: Any
    ) -> tuple[Results, dict[str, Silent]]:
        """One exchange with every site that has a host among `blobs`."""
        packets = {}
        for site, hosts in self._job.sites.items():
            names = [name for name in hosts if name in blobs]
            if names:
                # One blob for all where it is the same: a released model travels once per site.
                same = len({id(blobs[name]) for name in names}) == 1
                lengths, blob = join_blobs([blobs[names[0]]] if same else [blobs[n] for n in names])
                packets[site] = (
                    {"do": do, "to": site, "hosts": names, "lengths": lengths, **more},
                    blob,
                )
        results: dict[HostId, tuple[dict[str, Any], Body]] = {}
        silent: dict[str, Silent] = {}
        for site, answer in self._courier.exchange(packets).items():
            if isinstance(answer, Silent):
                silent[site] = answer
            else:
                try:
                    found = _split_results(answer, packets[site][0]["hosts"])
                    if do == "answer" and not any("failed" in told for told, _ in found.values()):
                        self._standings.note(site, answer.content.get("standing"))
                    results |= found
                except ProtocolError as error:
                    silent[site] = Silent(
                        self._complain_of_site(site, f"{site} sent nonsense: {error}")
                    )
        return results, silent


def _split_results(answer: Opened, names: list[HostId]) -> Results:
    results, lengths = answer.content.get("results"), answer.content.get("lengths")
    if not (isinstance(results, list) and isinstance(lengths, list)):
        raise ProtocolError("no results")
    if not all(isinstance(result, dict) for result in results):
        raise ProtocolError("results that cannot be read")
    if not all(type(length) is int for length in lengths):
        raise ProtocolError("lengths that are no numbers")
    if not len(results) == len(lengths) == len(names):
        raise ProtocolError(f"{len(results)} results of {len(names)} hosts")
    blobs = split_blobs(lengths, answer.blob)
    return dict(zip(names, zip(results, blobs, strict=True), strict=True))


def _folder_tag(folder: Path) -> str:
    """`checkpoints/round-000040/hosts`, or the same before it is renamed, is `round-000040`."""
    return folder.parent.name.removeprefix(".").removesuffix(".tmp")
