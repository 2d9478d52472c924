"""What lies in a file is read through readers that bound its size, and never run."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOTS = ("securefg", "attacks", "audits", "papers")
UNBOUNDED = {
    *("np.load", "numpy.load", "torch.load", "joblib.load", "marshal.loads", "json.load"),
    *("yaml.load", "yaml.safe_load", "yaml.full_load", "yaml.unsafe_load"),
    *("pickle.load", "pickle.loads", "pickle.Unpickler"),
}
PARSERS = ("loads", "model_validate_json", "parse_json")
WHOLE = ("read_text", "read_bytes", "read")
SAFETENSORS = {
    "securefg/data/partition.py": "safe_open maps the file, and checks its header against its size",
    "securefg/data/shard.py": "safe_open",
    "securefg/flare/coordinator.py": "safe_open",
    "securefg/runs/release_file.py": "safe_open",
    "securefg/data/sources.py": "our own cache, named by the digest of what it was made from",
    "securefg/engines/endpoint.py": "a host's own state, behind the checkpoint's digests",
    "securefg/runs/checkpoint.py": "behind the checkpoint's digests",
    "securefg/protocol/arrays.py": "bytes of a message, whose length the codec has checked",
}
"""Who reads safetensors: no array there can be larger than the file that it lies in."""


def dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


@cache
def calls(text: str) -> list[ast.Call]:
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]


def unbounded(text: str) -> set[str]:
    """Calls that read as much as a file says, or run what it says."""
    unbounded_calls = {dotted(call.func) for call in calls(text)} & UNBOUNDED
    for call in calls(text):
        last = dotted(call.func).rpartition(".")[2]
        inner = {dotted(c.func).rpartition(".")[2] for a in call.args for c in _calls_in(a)}
        inner |= {_attribute(c) for a in call.args for c in _calls_in(a)}
        if last in PARSERS and inner & set(WHOLE):
            unbounded_calls.add(last)
    return unbounded_calls


def _calls_in(node: ast.expr) -> list[ast.Call]:
    return [found for found in ast.walk(node) if isinstance(found, ast.Call)]


def _attribute(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def reads_safetensors(text: str) -> bool:
    names = {dotted(call.func).rpartition(".")[2] for call in calls(text)}
    whole = {dotted(call.func) for call in calls(text)}
    return bool({"safe_open", "load_file"} & names) or "safetensors.torch.load" in whole


SOURCES = [str(path) for root in ROOTS for path in sorted(Path(root).rglob("*.py"))]


def test_no_reader_takes_what_a_file_says_without_a_bound() -> None:
    found = {path: unbounded(Path(path).read_text()) for path in SOURCES}
    assert {path: names for path, names in found.items() if names} == {}


def test_safetensors_are_read_where_it_is_known_why_that_is_bounded() -> None:
    assert {path for path in SOURCES if reads_safetensors(Path(path).read_text())} == set(
        SAFETENSORS
    )


@pytest.mark.parametrize(
    "text",
    [
        "np.load(path, allow_pickle=False)",
        "yaml.safe_load(text)",
        "json.loads((folder / 'a').read_text())",
        "Summary.model_validate_json(path.read_bytes())",
        "json.load(file)",
        "pickle.loads(data)",
        "torch.load(path, weights_only=True)",
    ],
)
def test_the_fence_sees(text: str) -> None:
    assert unbounded(text)
