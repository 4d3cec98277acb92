"""Metadata files in the format of Bedrock knowledge bases."""

from __future__ import annotations

import json

import pytest

from opx.errors import UnparsableDocumentError
from opx.formats.metadata import MAX_BYTES, parse_sidecar

NAME = "a.md.metadata.json"


def sidecar(**attributes: object) -> bytes:
    return json.dumps({"metadataAttributes": attributes}).encode()


def typed(kind: str, **value: object) -> dict[str, object]:
    return {"value": {"type": kind, **value}, "includeForEmbedding": True}


def refusal(data: bytes) -> str:
    with pytest.raises(UnparsableDocumentError) as caught:
        parse_sidecar(data, NAME)
    assert str(caught.value).startswith(f"{NAME}: ")
    return str(caught.value)


def test_plain_values_are_read() -> None:
    attributes = {"title": "T", "year": 2025, "final": True, "tags": ["a", "b"], "ports": [80, 4.5, True]}
    assert parse_sidecar(sidecar(**attributes), NAME) == attributes


def test_typed_values_are_read() -> None:
    data = sidecar(
        title=typed("STRING", stringValue="T"),
        year=typed("NUMBER", numberValue=2025),
        final=typed("BOOLEAN", booleanValue=False),
        tags=typed("STRING_LIST", stringListValue=["a", "b"]),
    )
    assert parse_sidecar(data, NAME) == {"title": "T", "year": 2025, "final": False, "tags": ["a", "b"]}


def test_a_byte_order_mark_is_dropped() -> None:
    assert parse_sidecar(b"\xef\xbb\xbf" + sidecar(a="b"), NAME) == {"a": "b"}


def test_a_file_of_exactly_ten_kilobytes_is_read() -> None:
    data = sidecar(a="b")
    assert parse_sidecar(data + b" " * (MAX_BYTES - len(data)), NAME) == {"a": "b"}


def test_a_larger_file_is_refused() -> None:
    data = sidecar(a="b")
    assert "may have 10240" in refusal(data + b" " * (MAX_BYTES + 1 - len(data)))


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"metadataAttributes": []}', b"null"])
def test_a_file_without_attributes_is_refused(data: bytes) -> None:
    assert "metadataAttributes" in refusal(data)


def test_invalid_json_is_refused_with_its_place() -> None:
    assert "line 1, column 3" in refusal(b"{ x")


def test_invalid_utf8_is_refused_with_its_place() -> None:
    assert "at byte 2" in refusal(b'{"\xff')


def test_deep_nesting_is_refused() -> None:
    assert refusal(b"[" * 10_000)


@pytest.mark.parametrize("value", [None, [None], [["a"]]])
def test_other_values_are_refused_by_name(value: object) -> None:
    assert "attribute 'odd'" in refusal(sidecar(odd=value))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"value": "x"},
        {"value": {"stringValue": "x"}},
        {"value": {"type": "DATE", "stringValue": "x"}},
        {"value": {"type": ["STRING"]}},
    ],
)
def test_an_unknown_type_is_refused_with_those_allowed(value: object) -> None:
    assert "allowed: STRING, NUMBER, BOOLEAN, STRING_LIST" in refusal(sidecar(odd=value))


@pytest.mark.parametrize(
    ("value", "missing"),
    [
        (typed("STRING", numberValue=1), "stringValue"),
        (typed("NUMBER", numberValue=True), "numberValue"),
        (typed("BOOLEAN", booleanValue="true"), "booleanValue"),
        (typed("STRING_LIST", stringListValue="a"), "stringListValue"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(value: object, missing: str) -> None:
    assert f"value.{missing}" in refusal(sidecar(odd=value))


def test_a_list_of_lists_is_refused() -> None:
    assert "attribute 'odd'" in refusal(sidecar(odd=typed("STRING_LIST", stringListValue=[[1]])))
