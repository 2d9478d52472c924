"""The page is whole, self-contained, escaped and small, whatever the run was like."""

from __future__ import annotations

import json
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from securefg.foundation.errors import RunFolderError
from securefg.reports import build_report
from securefg.runs.folder import RunFolder
from tests.unit.reports.outline import Outline
from tests.unit.reports.runs import NOISE, MakeRun
from tests.unit.runs.written_over import end_so


def page_of(folder: RunFolder) -> str:
    return build_report(folder).read_text()


def changed_page_of(folder: RunFolder) -> str:
    end_so(folder.path)
    return page_of(folder)


def words_of(folder: RunFolder) -> str:
    return " ".join(Outline(page_of(folder)).words.split())


def change(path: Path, **values: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    "overrides", [(), NOISE, ("training.rounds=1",), ("method={name: alone}",)]
)
def test_page_is_one_whole_file_that_asks_the_network_for_nothing(
    make_run: MakeRun, overrides: tuple[str, ...]
) -> None:
    page = page_of(make_run(*overrides))
    outline = Outline(page)
    assert all(address.startswith("#") for address in outline.addresses)
    assert {address[1:] for address in outline.addresses} <= set(outline.ids)
    assert not re.search(r"https?:|@import|url\(", page)
    assert len(page) < 400_000


def test_headings_have_one_top_and_skip_no_level(make_run: MakeRun) -> None:
    levels = Outline(page_of(make_run())).headings
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_every_drawing_says_what_it_shows(make_run: MakeRun) -> None:
    images = Outline(page_of(make_run())).images
    assert len(images) == 8
    assert all(label and len(label) > 20 for label in images)


def test_the_same_folder_gives_the_same_bytes(make_run: MakeRun) -> None:
    assert page_of(make_run()) == page_of(make_run())


def test_page_is_light_and_dark(make_run: MakeRun) -> None:
    assert "prefers-color-scheme: dark" in page_of(make_run())


def test_unfinished_run_is_refused(spoilt: RunFolder) -> None:
    (spoilt.path / "summary.json").unlink()
    with pytest.raises(RunFolderError, match="not finished"):
        build_report(spoilt)
    assert not (spoilt.path / "report.html").exists()


def test_damaged_summary_is_refused_by_its_key(spoilt: RunFolder) -> None:
    change(spoilt.path / "summary.json", rounds="many")
    with pytest.raises(RunFolderError, match=r"summary\.json: rounds: "):
        build_report(spoilt)


def test_missing_partition_is_refused(spoilt: RunFolder) -> None:
    (spoilt.path / "partition.json").unlink()
    with pytest.raises(RunFolderError, match=r"partition\.json: cannot be read"):
        build_report(spoilt)


def test_metrics_of_another_shape_are_refused(spoilt: RunFolder) -> None:
    spoilt.metrics_path.write_text('{"round": 1, "score": 2}\n')
    with pytest.raises(RunFolderError, match="not a round's metrics"):
        build_report(spoilt)


def test_names_are_escaped(spoilt: RunFolder) -> None:
    odd = "<script>alert(\"1\")</script> & 'co'"
    change(spoilt.path / "summary.json", name=odd, dataset=odd, stopped=odd, device=odd)
    page = changed_page_of(spoilt)
    assert "<script>alert" not in page
    assert "alert(&#34;1&#34;)" in page


def test_run_without_a_finished_round_has_a_page(spoilt: RunFolder) -> None:
    spoilt.metrics_path.unlink()
    change(spoilt.path / "summary.json", rounds=0, best_round=0, test_accuracy=None)
    end_so(spoilt.path)
    assert "No round was finished, so there are no curves." in words_of(spoilt)


def test_twenty_thousand_clients_fit_on_the_page(spoilt: RunFolder) -> None:
    path = spoilt.path / "partition.json"
    clients = json.loads(path.read_text())["clients"]
    many = [{**clients[k % 3], "client": k} for k in range(20_000)]
    change(path, num_clients=20_000, overlap=None, clients=many)
    page = changed_page_of(spoilt)
    assert len(page) < 400_000
    assert "Clients by lost edges" in page
    assert "Exact numbers" not in page


def test_largest_page_with_a_row_per_client_stays_small(spoilt: RunFolder) -> None:
    path = spoilt.path / "partition.json"
    clients = json.loads(path.read_text())["clients"]
    rows = [{**clients[k % 3], "client": k, "label_counts": list(range(40))} for k in range(64)]
    overlap = [[i * j for j in range(64)] for i in range(64)]
    change(path, num_clients=64, overlap=overlap, clients=rows)
    line = json.loads(spoilt.metrics_path.read_text().splitlines()[0])
    lines = [json.dumps({**line, "round": n, "epsilon": {"client": n}}) for n in range(1, 5001)]
    spoilt.metrics_path.write_text("\n".join(lines))
    assert len(changed_page_of(spoilt)) < 500_000


def test_a_summary_of_another_format_is_refused(spoilt: RunFolder) -> None:
    change(spoilt.path / "summary.json", format=3)
    with pytest.raises(RunFolderError, match=r"summary\.json: format: .*of this version"):
        build_report(spoilt)


def test_a_trusted_server_and_whoever_was_blamed_are_named(
    make_run: MakeRun, tmp_path: Path
) -> None:
    made = make_run("privacy.secure_aggregation={malicious: false}", "training.rounds=1")
    path = Path(shutil.copytree(made.path, tmp_path / "copy"))
    change(path / "summary.json", blamed={"2": "sent a bad key"})
    end_so(path)
    page_words = words_of(RunFolder.open(path))
    assert "The masks trust the server to follow the protocol" in page_words
    assert "The masks rest on X25519 and ML-KEM-768 together" in page_words
    assert "Client 2 was left out: it sent a bad key." in page_words
    change(path / "summary.json", blamed={}, masking_trusts_the_server=False)
    change(path / "summary.json", masking_keys="classical")
    end_so(path)
    page_words = words_of(RunFolder.open(path))
    assert "The masks rest on X25519 alone" in page_words
    assert "The masks hold against a server that lies" in page_words
    assert "was left out" not in page_words
