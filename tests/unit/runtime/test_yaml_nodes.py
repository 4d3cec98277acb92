"""Tests of YAML that is parsed into nodes."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from opx.runtime.yaml_nodes import InvalidYamlError, as_plain, composed

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.dates()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


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
