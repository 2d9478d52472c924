"""Tables as people have them: what is found, what is done, the way back, and every fault's line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from securefg.cli.main import app
from securefg.data.datasets import load
from securefg.data.partitions import draw_partition
from securefg.data.tabular.encoding import decode_column, encode_column
from securefg.data.tabular.prepare import prepared, write_prepared
from securefg.data.tabular.schema import describe_column, read_schema
from securefg.data.tabular.text_table import read_text_table
from securefg.foundation.errors import ConfigError, DataError
from securefg.settings.data import DataSettings, SplitSettings
from securefg.settings.partition import GivenSettings
from securefg.settings.tables import TableSettings, table_settings

NODES = """account,age,kind,fraud,bank
AT-1,34,private,no,north
AT-2,,business,yes,north
AT-3,51,private,,south
AT-4,29,NA,no,south
AT-5,62,private,yes,south
"""
EDGES = """from,to,amount,when,kind
AT-1,AT-2,10.5,2024-01-01,wire
AT-2,AT-1,7,2024-01-02,wire
AT-2,AT-3,99,2024-01-02,card
AT-4,AT-5,1,,wire
AT-5,AT-5,3,2024-01-04,wire
"""
CLASSES = 'classes: ["no", "yes"]\n'
PLAIN = f"nodes: accounts\nedges: transfers\nlabel: fraud\n{CLASSES}"
YAML = f"{PLAIN}client: bank\nrange: {{age: [0, 100]}}\nvalues: {{kind: [business, private]}}\n"
YAML += "gaps: [age, kind]\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written(tmp_path / "tables", NODES, EDGES)


def written(folder: Path, nodes: str, edges: str, yaml: str = YAML) -> Path:
    folder.mkdir(parents=True)
    (folder / "accounts.csv").write_text(nodes)
    (folder / "transfers.csv").write_text(edges)
    if yaml:
        (folder / "tables.yaml").write_text(yaml)
    return folder


def ready(folder: Path, out: Path) -> Path:
    write_prepared(prepared(folder, table_settings(folder)), out)
    return out


def faults(folder: Path) -> list[str]:
    return [str(fault) for fault in prepared(folder, table_settings(folder)).faults]


def test_string_ids_missing_values_categories_and_unlabelled_nodes_become_a_graph(
    folder: Path, tmp_path: Path
) -> None:
    out = ready(folder, tmp_path / "out")
    shares = SplitSettings(kind="shares", train_share=0.5, val_share=0.1)
    graph = load(DataSettings(name="folder", folder=out, split=shares), 0)
    assert graph.labels.tolist() == [0, 1, -1, 0, 1]
    assert graph.num_classes == 2
    assert graph.num_edges == 3  # one is listed backwards too, one is a loop
    assert not (graph.split.train | graph.split.val | graph.split.test)[2]
    schema = read_schema(out / "schema.json")
    assert schema.features[1:] == (
        "age is missing",
        "kind = business",
        "kind = private",
        "kind = other",
        "kind is missing",
    )
    assert graph.features[:, 1:].tolist() == [
        [0, 0, 1, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1],
        [0, 0, 1, 0, 0],
    ]
    partition = draw_partition(graph, GivenSettings(), 0)
    assert [nodes.tolist() for nodes in partition.clients] == [[0, 1], [2, 3, 4]]


def test_the_mapping_leads_back_to_ids_and_values(folder: Path, tmp_path: Path) -> None:
    out = ready(folder, tmp_path / "out")
    assert (out / "ids.csv").read_text().splitlines()[1] == "0,AT-1"
    schema = read_schema(out / "schema.json")
    assert schema.clients == ("client 0", "client 1")  # a column of few records names nobody
    x = np.load(out / "features.npz")["x"]
    ages = decode_column(schema.columns[0], x[:, :2])
    assert ages[1] is None
    assert [float(age or "nan") for age in ages[2:]] == pytest.approx([51, 29, 62], rel=1e-4)
    assert decode_column(schema.columns[1], x[:, 2:]) == [
        "private",
        "business",
        "private",
        None,
        "private",
    ]
    assert all(
        p.stat().st_mode & 0o077 == 0 for p in (out, *out.iterdir())
    )  # ids are for their owner


@settings(max_examples=30)
@given(
    st.lists(st.one_of(st.none(), st.text("abc,;\"' \u00e4", min_size=1, max_size=3)), min_size=1)
)
def test_every_category_is_decoded_to_itself(values: list[str | None]) -> None:
    column = describe_column(
        "c", values, TableSettings(categorical=("c",), max_categories=1000), least=1
    )
    encoded, bad = encode_column(column, values)
    assert bad == []
    assert decode_column(column, encoded) == values


@pytest.mark.parametrize(
    ("separator", "encoding", "yaml"),
    [
        (";", "utf-8", ""),
        ("\t", "utf-16", ""),
        ("|", "utf-8-sig", ""),
        (",", "cp1252", "encoding: cp1252\n"),
    ],
)
def test_separators_and_encodings(
    folder: Path, tmp_path: Path, separator: str, encoding: str, yaml: str
) -> None:
    other = written(tmp_path / "other", "", "", YAML + yaml)
    for name, text in (("accounts", NODES.replace("private", "privé")), ("transfers", EDGES)):
        data = text.replace(",", separator).encode(encoding)
        (other / f"{name}.csv").write_bytes(data)
    made = prepared(other, table_settings(other))
    assert made.gathered.columns["kind"][0] == "privé"
    assert made.faults == ()
    if yaml:
        (other / "tables.yaml").write_text(YAML)
        with pytest.raises(DataError, match=r"accounts\.csv, line 2: found bytes that are not utf"):
            prepared(other, table_settings(other))


def test_parquet_gives_what_csv_gives(folder: Path, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    other = tmp_path / "other"
    other.mkdir()
    (other / "tables.yaml").write_text(YAML)
    for name, text in (("accounts", NODES), ("transfers", EDGES)):
        header, *rows = (line.split(",") for line in text.splitlines())
        columns = {n: [r[i] or None for r in rows] for i, n in enumerate(header)}
        pq.write_table(pa.table(columns), other / f"{name}.parquet")
    one, two = (prepared(f, table_settings(f)) for f in (folder, other))
    assert np.array_equal(one.features, two.features)
    assert one.schema == two.schema
    (other / "accounts.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        prepared(other, table_settings(other))


@pytest.mark.parametrize(
    ("nodes", "edges", "message_text"),
    [
        (NODES + "AT-1,3,private,no,north\n", EDGES, r"accounts\.csv, line 7: .*'AT-1' a second"),
        (NODES + ",3,private,no,north\n", EDGES, r"accounts\.csv, line 7: found no account"),
        (NODES + "AT-9,3,private\n", EDGES, r"accounts\.csv, line 7: found 3 fields"),
        (NODES, EDGES + "AT-1,AT-77,1,,wire\n", r"transfers\.csv, line 7: found node 'AT-77'"),
        (NODES, EDGES + "AT-1,,1,,wire\n", r"transfers\.csv, line 7: found no node"),
        (NODES, "from,to\n", "nothing below it"),
        (NODES.replace("fraud", "scam"), EDGES, "no label"),
        (NODES.replace(",north", ",", 1), EDGES, "no bank for node 'AT-1'"),
    ],
)
def test_every_fault_names_its_line(
    tmp_path: Path, nodes: str, edges: str, message_text: str
) -> None:
    import re

    folder = written(tmp_path / "bad", nodes, edges)
    found = faults(folder)
    assert any(re.search(message_text, fault) for fault in found), found
    with pytest.raises(DataError):
        ready(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def test_check_lists_all_faults_and_what_would_be_done(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["data", "check", str(folder)], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    for words in ("without a label", "one-hot of 2", "edges between clients", "client 0"):
        assert words in done.output
    bad = written(tmp_path / "bad", NODES + "AT-1,,,,\n,,,,\nAT-8,1\n", EDGES + "x,y,1,,\n")
    done = CliRunner().invoke(app, ["data", "check", str(bad)], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert all(f"line {line}" in done.output for line in (7, 9))


def test_where_keeps_edges_of_a_kind_and_unknown_ends_can_be_dropped(tmp_path: Path) -> None:
    yaml = YAML + "where: {kind: [wire]}\nunknown_ends: drop\n"
    folder = written(tmp_path / "t", NODES, EDGES + "AT-1,ZZ,1,,wire\n", yaml)
    made = prepared(folder, table_settings(folder))
    assert (made.gathered.filtered, made.gathered.unknown_ends) == (1, 1)
    assert made.edges.tolist() == [[0, 1], [3, 4]]


def test_one_folder_per_organisation_with_shared_customers(tmp_path: Path) -> None:
    plain = f"{PLAIN}range: {{age: [0, 10]}}\n"
    root = tmp_path / "banks"
    north = "account,age,fraud\nA,1,no\nS,2,\n"
    south = "account,age,fraud\nB,3,yes\nS,2,no\nC,5,no\n"
    written(root / "north", north, "from,to\nA,S\nA,B\n", "")
    written(root / "south", south, "from,to\nB,S\nB,C\n", "")
    (root / "tables.yaml").write_text(plain)
    out = ready(root, tmp_path / "out")
    shares = SplitSettings(kind="shares", train_share=0.5, val_share=0.1)
    graph = load(DataSettings(name="folder", folder=out, split=shares), 0)
    partition = draw_partition(graph, GivenSettings(), 0)
    assert [nodes.tolist() for nodes in partition.clients] == [[0, 1], [1, 2, 3]]
    assert graph.labels.tolist() == [0, 0, 1, 0]  # what north does not know, south does
    made = prepared(root, table_settings(root))
    assert (made.gathered.shared, made.between) == (1, 1)
    (root / "south" / "accounts.csv").write_text(south.replace("S,2", "S,9"))
    assert "'2' as elsewhere" in faults(root)[0]
    (root / "tables.yaml").write_text(plain + "shared: mean\n")
    merged = prepared(root, table_settings(root))
    assert merged.gathered.columns["age"][1] == "5.5"


def test_an_agreed_schema_is_applied_and_learns_nothing(folder: Path, tmp_path: Path) -> None:
    schema = prepared(folder, table_settings(folder)).schema
    rows = "account,age,kind,fraud,bank\nX,40,private,yes,north\nY,,business,,north\n"
    other = written(tmp_path / "o", rows, "from,to\nX,Y\n")
    made = prepared(other, table_settings(other), schema)
    assert made.schema == schema
    assert made.labels.tolist() == [1, -1]
    assert made.features.shape[1] == len(schema.features)
    (other / "accounts.csv").write_text(rows.replace("40", "forty"))
    assert "age 'forty'" in str(prepared(other, table_settings(other), schema).faults[0])
    closed = schema.columns[1].model_copy(update={"other": False})
    closed_schema = schema.model_copy(update={"columns": (schema.columns[0], closed)})
    (other / "accounts.csv").write_text(rows.replace("business", "trust"))
    assert "kind 'trust'" in str(prepared(other, table_settings(other), closed_schema).faults[0])


def test_one_organisation_prepares_its_own_tables_by_a_schema_that_names_several(
    folder: Path, tmp_path: Path
) -> None:
    schema = prepared(folder, table_settings(folder)).schema
    assert schema.clients
    rows = "account,age,kind,fraud\nX,40,private,yes\nY,,business,no\n"
    own = written(tmp_path / "own", rows, "from,to\nX,Y\n")
    write_prepared(prepared(own, table_settings(own), schema), tmp_path / "out")
    assert not (tmp_path / "out" / "clients.csv").exists()
    split = SplitSettings.model_validate({"kind": "shares", "train_share": 0.5})
    graph = load(DataSettings(name="folder", folder=tmp_path / "out", split=split), 0)
    assert graph.num_nodes == 2


def test_a_class_in_no_part_of_the_split_may_have_no_label_but_a_scored_one_may_not(
    folder: Path, tmp_path: Path
) -> None:
    out = ready(folder, tmp_path / "out")
    (out / "split.csv").write_text("node,split\n0,train\n1,train\n3,val\n2,test\n")
    with pytest.raises(DataError, match="node 2 without a label in test"):
        load(DataSettings(name="folder", folder=out), 0)


@pytest.mark.parametrize("kind", ["random", "shares", "folds"])
def test_no_drawn_split_has_a_node_without_a_label(tmp_path: Path, kind: str) -> None:
    n = 80
    np.savez(tmp_path / "features.npz", x=np.random.default_rng(0).random((n, 3)))
    np.savez(tmp_path / "labels.npz", y=np.arange(n) % 3 - 1)
    np.savez(tmp_path / "edges.npz", edge_index=np.stack([np.arange(n - 1), np.arange(1, n)]))
    split = {"kind": kind, "labels_per_class": 5, "num_val": 10, "num_test": 10}
    data = DataSettings(name="folder", folder=tmp_path, split=SplitSettings.model_validate(split))
    graph = load(data, 0)
    used = graph.split.train | graph.split.val | graph.split.test
    assert int(used.sum()) > 20
    assert bool((graph.labels[used] >= 0).all())


@pytest.mark.parametrize(
    "lines", ["0,0\n0,0\n1,0\n2,0", "0,0\n1,0", "0,0\n1,2\n2,2", "0,-1\n1,0\n2,0"]
)
def test_clients_that_do_not_fit_are_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / "features.csv").write_text("0,1\n1,2\n2,3\n")
    (tmp_path / "labels.csv").write_text("0,0\n1,1\n2,0\n")
    (tmp_path / "edges.csv").write_text("0,1\n1,2\n")
    (tmp_path / "clients.csv").write_text(f"node,client\n{lines}\n")
    with pytest.raises(DataError, match=r"clients\.csv"):
        load(DataSettings(name="folder", folder=tmp_path), 0)


def test_settings_that_are_unknown_are_answered(tmp_path: Path) -> None:
    (tmp_path / "tables.yaml").write_text("lable: fraud\n")
    with pytest.raises(
        ConfigError, match=r"lable: found an unknown key; expected nodes, .*; did you mean label\?"
    ):
        table_settings(tmp_path)
    assert table_settings(tmp_path / "nowhere") == TableSettings()


@pytest.mark.parametrize("method", ["fedgl", "fedavg", "nfedgnn", "gfl_appnp", "alone"])
def test_every_method_trains_where_some_nodes_have_no_label(tmp_path: Path, method: str) -> None:
    import securefg

    n, stream = 60, np.random.default_rng(0)
    y = np.arange(n) % 2
    np.savez(tmp_path / "features.npz", x=stream.random((n, 4)) + y[:, None])
    np.savez(tmp_path / "labels.npz", y=np.where(np.arange(n) % 5 == 0, -1, y))
    np.savez(tmp_path / "edges.npz", edge_index=stream.integers(0, n, (2, 120)))
    is_one_node = method in ("nfedgnn", "gfl_appnp")
    config = {
        "method": {"name": method},
        "data": {"name": "folder", "folder": str(tmp_path), "split": {"kind": "shares"}},
        "partition": {"name": "one_node"} if is_one_node else {"name": "random", "num_clients": 3},
        "training": {"rounds": 2, "patience": None},
        "output": {"root": str(tmp_path / "runs")},
    }
    result = securefg.run(config)
    assert result.summary.test_accuracy is not None
    stored = json.loads((result.path / "partition.json").read_text())
    assert torch.tensor([c["label_counts"] for c in stored["clients"]]).sum() == n - n // 5


def test_empty_cell_is_missing_beside_other_words() -> None:
    assert TableSettings(missing=("k.A.",)).missing == ("", "k.A.")
    assert "" in TableSettings().missing


def test_blank_and_bytes_of_parquet_are_read_as_text(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [" ", "x ", None], "b": [b"", b"y", b"z"]}), path)
    columns = read_text_table(path, TableSettings()).columns
    assert columns == {"a": [None, "x", None], "b": [None, "y", "z"]}
