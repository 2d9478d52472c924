"""Bad inputs, one per line: at most two lines of answer, exit code 2, and no file is written."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from securefg.cli import main as cli
from tests.small import tree

WIDEST = 200
SET = "run small.yaml --set "
# Config files by name; `small.yaml` is a good one.
FILES = {
    "empty.yaml": "",
    "comments.yaml": "# nothing\n",
    "list.yaml": "- method\n- data\n",
    "word.yaml": "quickstart\n",
    "broken.yaml": "method: {name: fedgl\ndata: 3\n",
    "tabs.yaml": "method:\n\tname: fedgl\n",
    "twice.yaml": "seed: 1\nseed: 2\n",
    "binary.yaml": "\x00\x01\x02",
    "tag.yaml": "seed: !!python/name:os.system\n",
    "alone.yaml": "method: {name: fedgl}\n",
    "exchange/foreign.yaml": "format: 1\n",
    "string.yaml": "method: fedgl\ndata: {name: cora}\n",
    "seeds.yaml": "sweeps: []\nseeds: three\n",
    "defence.yaml": "sweeps: [{config: small.yaml, defences: [{name: secag}]}]\n",
    "exclude.yaml": "sweeps: [{config: small.yaml, defences: [{name: none}], atacks: []}]\n",
}
# The command line, what is named, what is found there, and what is expected or suggested.
TABLE = [
    (SET + "partition.name=louvan", "partition.name", "'louvan'", "did you mean louvain?"),
    (SET + "partition=louvain", "partition", "'louvain'", "partition: {name: louvain}?"),
    (SET + "partition=[louvain]", "partition", "['louvain']", "a mapping such as {name: shares}"),
    (SET + "partition={}", "partition.name", "nothing", "shares, public_private, one_node"),
    (SET + "partition.shares=[0.5,1.2]", "partition.shares.1", "1.2", "above 0 and of at most 1"),
    (SET + "partition.shares=0.5", "partition.shares", "0.5", "a list (every entry: a number"),
    (SET + "partition.shares=[]", "partition.shares", "[]", "with at least 1 entry"),
    (SET + "method=fedgl", "method", "'fedgl'", "did you mean method: {name: fedgl}?"),
    (SET + "method=", "method", "nothing", "a mapping such as {name: alone}"),
    (SET + "method={}", "method.name", "nothing", "alone, fedavg, fedgl"),
    (SET + "method={name:3}", "method.name", "nothing", "alone, fedavg, fedgl"),
    (SET + "method.name=fedgll", "method.name", "'fedgll'", "did you mean fedgl?"),
    (SET + "method.hiden=3", "method.hiden", "an unknown key", "did you mean hidden?"),
    (SET + "method.hidden=-3", "method.hidden", "-3", "a whole number of at least 1"),
    (SET + "method.name=os.path", "method.name", "'os.path'", "METHOD"),
    (SET + "data=cora", "data", "'cora'", "did you mean data: {name: cora}?"),
    (SET + "data.name=corra", "data.name", "'corra'", "did you mean cora?"),
    (SET + "data=[]", "data", "[]", "a mapping with name"),
    (SET + "data.csbm.num_nodes=2", "data.csbm.num_nodes", "2", "at least 4"),
    (SET + "data.csbm.task=dncc", "data.csbm.task", "'dncc'", "did you mean dnc?"),
    (SET + "data.split.fold=9", "data.split.fold", "9", "0 to 4"),
    (SET + "data.folder=here", "data.folder", "settings", "`name: folder`"),
    (SET + "data={name:folder}", "data.name:folder", "an unknown key", "name, root, split"),
    (SET + "training.rounds=many", "training.rounds", "'many'", "a whole number of at least 1"),
    (SET + "training.rounds=0", "training.rounds", "0", "a whole number of at least 1"),
    (SET + "training.rounds=2.5", "training.rounds", "2.5", "a whole number of at least 1"),
    (SET + "training.roundz=3", "training.roundz", "an unknown key", "did you mean rounds?"),
    (SET + "training.lr=.inf", "training.lr", "inf", "a finite number above 0"),
    (SET + "training.monitor=val_acc", "training.monitor", "'val_acc'", "val_accuracy?"),
    (SET + "training.patience=often", "training.patience", "'often'", "at least 1, or nothing"),
    (SET + "training=fast", "training", "'fast'", "a mapping with rounds"),
    (SET + "rounds=5", "rounds", "an unknown key", "did you mean training.rounds?"),
    (SET + "epsilon=5", "epsilon", "an unknown key", "did you mean privacy.target_epsilon?"),
    (SET + "nonsense=3", "nonsense", "an unknown key", "name, method, data"),
    (SET + "privacy.mechanism=local_gausian", "privacy.mechanism", "'local_gausian'", "gaussian?"),
    (SET + "privacy.noise_multiplier=-1", "privacy.noise_multiplier", "-1", "a number above 0"),
    (SET + "privacy.target_epsilon=4", "privacy.mechanism", "plain beside", "with noise"),
    (SET + "privacy.unit=nodes", "privacy.unit", "'nodes'", "client, row, node, edge or features"),
    (SET + "privacy.delta=5", "privacy.delta", "5", "above 0 and below 1"),
    (SET + "privacy.secure_aggregation=true", "privacy.secure_aggregation", "true", "a mapping"),
    (SET + "privacy.secure_aggregation.ring_bits=48", "ring_bits", "48", "32 or 64"),
    (SET + "engine.name=process", "engine.name", "'process'", "did you mean processes?"),
    (SET + "seed=-1", "seed", "-1", "a whole number of at least 0"),
    (SET + "seed=abc", "seed", "'abc'", "a whole number"),
    (SET + "seed", "--set", "'seed'", "KEY.KEY=VALUE"),
    (SET + "seed.x=3", "seed", "a mapping with x", "a whole number"),
    (SET + "training.rounds.x=3", "--set training.rounds.x=3", "4 at rounds", "a mapping there"),
    (SET + "seed=[1", "--set seed=[1", "broken YAML", "lines such as `seed: 3`"),
    (SET + "name=a/b", "name", "'a/b'", "a name of letters, digits"),
    (SET + "device=gpu", "device", "'gpu'", "auto, cpu, cuda or cuda:N"),
    (SET + "audit.shadows=models", "audit.shadows", "'models'", "did you mean model?"),
    ("run empty.yaml", "empty.yaml", "an empty file", "keys such as method and data"),
    ("run comments.yaml", "comments.yaml", "an empty file", "keys such as method and data"),
    ("run list.yaml", "list.yaml", "a list", "keys such as method and data"),
    ("run word.yaml", "word.yaml", "'quickstart'", "keys such as method and data"),
    ("run broken.yaml", "broken.yaml:2", "broken YAML", "lines such as"),
    ("run tabs.yaml", "tabs.yaml:2", "broken YAML", "lines such as"),
    ("run twice.yaml", "twice.yaml:2", "the key 'seed' twice", "it once"),
    ("run binary.yaml", "binary.yaml", "broken YAML", "lines such as"),
    ("run tag.yaml", "tag.yaml:1", "the tag", "plain values"),
    ("run alone.yaml", "data", "nothing", "a mapping with name"),
    ("run string.yaml", "method", "'fedgl'", "did you mean method: {name: fedgl}?"),
    ("run .", ".", "a folder", "a YAML file or a shipped config's name"),
    ("run quikstart", "quikstart", "no such file", "did you mean quickstart?"),
    ("run nowhere/my.yaml", "nowhere/my.yaml", "no such file", "a YAML file"),
    ("run curve_quickstart", "curve_quickstart", "a curve's config", "securefg curve"),
    ("run", "CONFIG", "nothing", "--resume RUN"),
    ("run --resume nowhere", "nowhere", "no such folder", "a run's folder"),
    ("curve quickstart", "quickstart", "a run's config", "securefg run"),
    ("curve empty.yaml", "empty.yaml", "an empty file", "keys such as sweeps"),
    ("curve seeds.yaml", "sweeps", "[]", "with at least 1 entry"),
    ("curve defence.yaml", "defences.name", "'secag'", "a module path"),
    ("curve exclude.yaml", "sweeps.0.atacks", "an unknown key", "did you mean attacks?"),
    ("curve small.yaml --jobs 0", "--jobs", "0", "a number of at least 1"),
    ("curve small.yaml --jobs two", "--jobs", "two", "a whole number"),
    ("curve small.yaml --jobs", "--jobs", "nothing", "a value"),
    ("plan small.yaml --set a", "--set", "'a'", "KEY.KEY=VALUE"),
    ("explain quikstart", "quikstart", "no such file", "did you mean quickstart?"),
    ("audit nowhere", "nowhere", "no such folder", "a run's"),
    ("audit . --only telepathy", "attack", "'telepathy'", "securefg list attacks"),
    ("audit . --only whitned_links", "attack", "'whitned_links'", "did you mean whitened_links?"),
    ("audit . --adversary serve", "adversary", "'serve'", "server, client:3,5, wire or outsider"),
    ("audit . x", "audit", ". x", "`audit RUN`"),
    ("audit mechanism no.such", "audit mechanism no.such", "nothing", "that imports from here"),
    ("rehearse .", ".", "a folder", "a config"),
    ("report nowhere", "nowhere", "no such folder", "a run's folder"),
    ("report .", ".", "a folder without config.yaml", "a run's folder"),
    ("report exchange", "exchange", "a recorded exchange", "`securefg audit exchange"),
    ("report . --format pdf", "--format", "'pdf'", "html"),
    ("verify nowhere", "nowhere", "no such folder", "a run's folder"),
    ("compare nowhere", "RUN", "1", "two different runs"),
    ("runs nowhere", "nowhere", "no such folder", "a folder of runs"),
    ("reproduce fedgl-tabel2", "entry", "'fedgl-tabel2'", "did you mean fedgl-table2?"),
    ("init new --config starer", "--config", "'starer'", "did you mean starter?"),
    ("list method", "KIND", "'method'", "did you mean methods?"),
    ("data check nowhere", "nowhere", "no such folder", "one with tables in it"),
    ("rnu", "command", "'rnu'", "did you mean run?"),
    ("data chekc x", "command", "'chekc'", "did you mean check?"),
    ("run small.yaml --sett a=b", "--sett", "an unknown option", "did you mean --set?"),
    ("run small.yaml another.yaml", "arguments", "another.yaml", "fewer"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(tree(tmp_path / "runs")))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_table_of_bad_inputs_has_forty_lines() -> None:
    assert len({line for line, *_ in TABLE}) == len(TABLE) >= 40


@pytest.mark.parametrize(
    ("line", "key", "shown_value", "expected"), TABLE, ids=lambda text: text[:50]
)
def test_bad_input_gives_key_found_and_expected(
    line: str,
    key: str,
    shown_value: str,
    expected: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = sorted(folder.rglob("*"))
    monkeypatch.setattr(sys, "argv", ["securefg", *line.split(" ")])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    captured = capsys.readouterr()
    answer = captured.err.strip().splitlines()
    assert (stop.value.code, captured.out) == (2, "")
    assert 1 <= len(answer) <= 2
    assert max(map(len, answer)) <= WIDEST + len(str(Path.cwd()))
    pattern = rf"securefg: .*{re.escape(key)}\S*: found .*{re.escape(shown_value)}.*; expected "
    assert re.match(pattern, answer[0]), answer
    assert expected in answer[0], answer
    assert "Input should" not in captured.err
    assert "Traceback" not in captured.err
    assert sorted(folder.rglob("*")) == before
