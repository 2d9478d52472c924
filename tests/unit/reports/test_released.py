"""The ledger in words covers every field that went up or came down."""

from __future__ import annotations

from pathlib import Path

from securefg.privacy.ledger import Ledger, Mechanism, Release
from securefg.protocol.codec import Clients
from securefg.reports.fields import Released, received_fields, released_fields
from securefg.reports.results import read_bookings, read_results
from securefg.runs.folder import RunFolder
from tests.unit.reports.runs import NOISE, MakeRun


def lines_of(folder: RunFolder) -> dict[str, Released]:
    return {line.field: line for line in released_fields(read_results(folder))}


def test_every_booked_field_has_a_line_in_the_words_of_its_declaration(make_run: MakeRun) -> None:
    lines = lines_of(make_run())
    assert set(lines) == {
        "Update.weights",
        "Update.num_nodes",
        "Update.predictions",
        "Update.embeddings",
    }
    assert lines["Update.predictions"].about == "softmax outputs per node"
    assert lines["Update.predictions"].often == "3 times by each client"
    assert lines["Update.predictions"].who == "3 clients, rounds 1–3"


def test_plain_field_is_called_unprotected(make_run: MakeRun) -> None:
    line = lines_of(make_run())["Update.weights"]
    assert (line.tone, line.protection) == ("open", "Not at all: it left as it is.")


def test_noised_field_says_clip_and_noise(make_run: MakeRun) -> None:
    clip = "privacy.field_rules={Update.weights: {mechanism: local_gaussian, clip_l2: 0.5}}"
    lines = lines_of(make_run(*NOISE, clip))
    assert "L2 norm 0.5, Gaussian noise of standard deviation 2 " in (
        lines["Update.weights"].protection
    )
    assert "Each row clipped to L2 norm 1," in lines["Update.predictions"].protection
    assert lines["Update.predictions"].protection.endswith("40 rows a message.")


def test_seeded_noise_is_marked_in_every_line(make_run: MakeRun) -> None:
    lines = lines_of(make_run(*NOISE, "privacy.noise_rng=seeded"))
    assert {line.tone for line in lines.values()} == {"void"}


def test_public_fields_that_went_up_are_listed_too(make_run: MakeRun) -> None:
    (line,) = released_fields(read_results(make_run("method={name: alone}")))
    assert (line.field, line.tone) == ("Done.number", "public")


def test_what_came_down_is_told_from_kept_bodies(make_run: MakeRun) -> None:
    lines = {line.field: line for line in received_fields(read_results(make_run()))}
    assert lines["Globals.weights"].often == "in all 9 messages"
    # Rounds 1 and 2 are kept; there is nothing to fuse before the first upload.
    assert lines["Globals.pseudo_labels"].often == (
        "in 1 of 2 kept bodies; not known for 1 thinned out"
    )


def test_bookings_count_by_client_and_merge_what_differs_in_rows_alone(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    few = Mechanism("Update.x", "local_gaussian", "row", 2.0, num_rows=3)
    more = Mechanism("Update.x", "local_gaussian", "row", 2.0, num_rows=5)
    Ledger(20_000, path).record(
        [
            Release(few, Clients(((0, 20_000),)), 1, 1),
            Release(more, Clients(((5, 7),)), 4, 1),
        ]
    )
    (booked,) = read_bookings(path, 20_000)
    assert booked.mechanism == more
    assert (booked.releases, booked.num_clients) == (20_002, 20_000)
    assert (booked.fewest, booked.most) == (1, 2)
    assert (booked.first_round, booked.last_round) == (1, 4)


def test_no_ledger_means_no_bookings(tmp_path: Path) -> None:
    assert read_bookings(tmp_path / "ledger.jsonl", 3) == ()
