"""ACM and Wiki."""

from __future__ import annotations

from pathlib import Path

import pytest

from securefg.data.readers import published
from securefg.foundation.errors import DataError


def lay(root: Path, files: tuple[str, ...], contents: tuple[str, ...]) -> Path:
    for file, content in zip(files, contents, strict=True):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content.encode())
    return root


def test_acm_is_read_with_carriage_returns(tmp_path: Path):
    root = lay(
        tmp_path, published.files("acm"), ("1 0\n0 1\n1 1\n", "0\r\n1\r\n0\r\n", "0 2\r\n2 0\r\n")
    )
    dataset = published.read(root, "acm")
    assert dataset.features.tolist() == [[1, 0], [0, 1], [1, 1]]
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.edge_index.T.tolist() == [[0, 2], [2, 0]]
    assert dataset.num_splits == 0


def test_acm_with_too_few_labels_is_a_fault(tmp_path: Path):
    root = lay(tmp_path, published.files("acm"), ("1 0\n0 1\n", "0\r\n", "0 1\r\n"))
    with pytest.raises(DataError, match=r"acm_label\.txt: found 1 labels; wanted 2"):
        published.read(root, "acm")


def test_wiki_groups_are_renumbered_without_gaps(tmp_path: Path):
    texts = ("0\t1\t2.5\n2\t3\t1.0\n", "0\t19\n1\t13\n2\t15\n", "0\t1\n1\t0\n2\t2\n2\t1\n")
    dataset = published.read(lay(tmp_path, published.files("wiki"), texts), "wiki")
    assert dataset.labels.tolist() == [2, 0, 1]
    assert dataset.features.tolist() == [[0, 2.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    assert dataset.edge_index.T.tolist() == [[0, 1], [1, 0], [1, 2], [2, 1]]


@pytest.mark.parametrize(
    ("broken", "where"),
    [
        (("0\t1\t2\n9\t1\t2\n", "0\t1\n1\t2\n", "0\t1\n"), r"tfidf\.txt, line 2: found 9\.0"),
        (("0\t1\tnan\n", "0\t1\n1\t2\n", "0\t1\n"), r"tfidf\.txt, line 1: found nan"),
        (("0\t1\t2\n", "0\t1\n5\t2\n", "0\t1\n"), r"group\.txt, line 2: found 5"),
        (("0\t1\t2\n", "0\t1\n1\t2\n", "0\t1\n1\t7\n"), r"graph\.txt, line 2: found 7"),
    ],
)
def test_a_fault_in_wiki_names_the_file_and_the_line(tmp_path: Path, broken, where: str):
    with pytest.raises(DataError, match=where):
        published.read(lay(tmp_path, published.files("wiki"), broken), "wiki")
