"""Tests of parsed YAML as plain tuples, and of the default knowledge file that is kept in that form."""

from __future__ import annotations

import json
import marshal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opx.runtime.yaml_nodes import InvalidYamlError, as_plain, composed
from tests.support.cli_support import ROOT, environment

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)

PROGRAM = """
import json, sys
from opx.runtime.knowledge_file import load_knowledge, read_section
from opx.text.procedures.effects import SECTION, read_effects
model = load_knowledge()
read_effects()
print(json.dumps([sorted(model.categories), model.default_category, "yaml" in sys.modules]))
"""


@given(values)
def test_plain_value_is_that_of_the_parser(value: object) -> None:
    text = yaml.safe_dump(value).encode()
    node = composed(text)
    assert node is not None
    assert as_plain(node) == yaml.safe_load(text)


def test_aliases_share_one_node() -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 60))]
    node = composed("\n".join(lines).encode())
    assert node is not None
    assert len(as_plain(node)["a59"]) == 2


@pytest.mark.parametrize("text", [b"a: &a [*a]", b"&a {x: {y: *a}}"])
def test_an_anchor_within_itself_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidYamlError, match="contains itself"):
        composed(text)


def started(cache: Path, **variables: str) -> tuple[list[str], str, bool]:
    """Categories, the default one, and True if the parser was imported, of a process that reads the default file."""
    env = {**environment(), "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(cache), **variables}
    line = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(line, env=env, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    categories, default, has_parser = json.loads(done.stdout)
    return categories, default, has_parser


def test_the_second_process_needs_no_parser(tmp_path: Path) -> None:
    categories, default, has_parser = started(tmp_path)
    assert has_parser
    assert started(tmp_path) == (categories, default, False)


def test_a_file_that_changed_is_parsed_again(tmp_path: Path) -> None:
    found = started(tmp_path)
    (kept,) = tmp_path.rglob("*.nodes")
    release, node = marshal.loads(kept.read_bytes())
    pairs = [(key, ("", "nowhere", 0) if key[1] == "default_category" else value) for key, value in node[1]]
    kept.write_bytes(marshal.dumps(("of another file", (node[0], tuple(pairs), 0))))
    assert started(tmp_path) == found
    assert marshal.loads(kept.read_bytes()) == (release, node)
