"""Validation of metadata, wherever it comes from, and metadata files in the format of Bedrock knowledge bases."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.errors import UnparsableDocumentError
from opx.formats.metadata import MAX_BYTES, MAX_ITEMS, DocumentMetadata, parse_sidecar, validated


def read(**raw: object) -> DocumentMetadata:
    return validated(raw, name="a.md")


def refusal(**raw: object) -> str:
    with pytest.raises(UnparsableDocumentError) as caught:
        read(**raw)
    assert str(caught.value).startswith("a.md: metadata field ")
    return str(caught.value)


def test_nothing_given_gives_empty_fields() -> None:
    assert read() == DocumentMetadata()


def test_all_fields_are_read() -> None:
    found = read(
        title="Disk full",
        tags=["linux", "disk"],
        author="sre",
        version="1.8",
        severity="sev2",
        services=["orders"],
        language="en",
        created="2025-01-01",
        last_updated="2025-02-04",
        source_uri="https://example.org/a",
        category="runbooks/procedures",
    )
    assert found == DocumentMetadata(
        title="Disk full",
        tags=("linux", "disk"),
        author="sre",
        version="1.8",
        severity="sev2",
        services=("orders",),
        language="en",
        created="2025-01-01",
        last_updated="2025-02-04",
        source_uri="https://example.org/a",
        category="runbooks/procedures",
    )


def test_white_space_is_tidied() -> None:
    assert read(title="  Disk\n full ", tags=[" a ", "", "a"]) == DocumentMetadata(title="Disk full", tags=("a",))


def test_a_text_of_tags_is_split_at_commas() -> None:
    assert read(tags="Linux, disk full,,x ").tags == ("Linux", "disk full", "x")


def test_numbers_become_texts() -> None:
    assert read(version=2, tags=[1, "b"], title=1.5) == DocumentMetadata(version="2", tags=("1", "b"), title="1.5")


def test_authors_are_joined() -> None:
    assert read(author=["Ana", "Bo"]).author == "Ana, Bo"


@pytest.mark.parametrize(("given_", "kept"), [("en-GB", "en"), ("DE", "de"), ("zh_Hans_CN", "zh"), ("fil", "fil")])
def test_the_primary_language_is_kept(given_: str, kept: str) -> None:
    assert read(language=given_).language == kept


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        ("2025-02-04", "2025-02-04"),
        ("20250204", "2025-02-04"),
        (20250204, "2025-02-04"),
        ("2025-02-04T10:30:00.123+02:00", "2025-02-04T08:30:00Z"),
        ("2025-02-04 10:30:00", "2025-02-04T10:30:00Z"),
        (1_700_000_000, "2023-11-14T22:13:20Z"),
    ],
)
def test_dates_become_iso_in_utc(given_: object, kept: str) -> None:
    assert read(last_updated=given_).last_updated == kept


@pytest.mark.parametrize("key", ["last_updated", "lastUpdated", "updated"])
def test_other_names_of_a_field_are_known(key: str) -> None:
    assert read(**{key: "2025-02-04"}) == DocumentMetadata(last_updated="2025-02-04")


def test_of_two_names_of_a_field_that_of_the_interface_counts() -> None:
    found = read(last_updated="2020-01-01", lastUpdated="2025-02-04")
    assert found == DocumentMetadata(last_updated="2025-02-04")


def test_unknown_keys_are_attributes() -> None:
    assert read(title="T", reviewer="x", draft=True).attributes == {"reviewer": "x", "draft": True}


def test_nulls_are_nothing() -> None:
    assert read(title=None, tags=[None], reviewer=None) == DocumentMetadata()


def test_nul_and_half_characters_are_replaced() -> None:
    assert read(title="a\0b\ud800").title == "a\ufffdb\ufffd"


@pytest.mark.parametrize("field", ["title", "author", "version", "severity", "language", "source_uri", "category"])
@pytest.mark.parametrize("value", [True, {"a": 1}])
def test_a_wrong_type_is_refused_by_field(field: str, value: object) -> None:
    assert f"{field!r} must be" in refusal(**{field: value})


@pytest.mark.parametrize("field", ["tags", "services"])
@pytest.mark.parametrize("value", [True, {"a": 1}, [["a"]], [True]])
def test_a_list_of_other_things_is_refused_by_field(field: str, value: object) -> None:
    assert f"{field!r} must be" in refusal(**{field: value})


@pytest.mark.parametrize("value", ["soon", "2025-13-01", "04.02.2025", 1e300, float("nan"), float("inf")])
def test_a_date_that_is_none_is_refused(value: object) -> None:
    assert "'lastUpdated' must be a date" in refusal(lastUpdated=value)


@pytest.mark.parametrize("value", ["english", "e", "en us", "12"])
def test_a_language_that_is_no_code_is_refused(value: str) -> None:
    assert "language code" in refusal(language=value)


def test_too_many_tags_are_refused() -> None:
    assert read(tags=[str(at) for at in range(MAX_ITEMS)])
    assert "at most 50" in refusal(tags=[str(at) for at in range(MAX_ITEMS + 1)])


def test_a_tag_that_is_too_long_is_refused() -> None:
    assert read(tags=["x" * 128])
    assert "at most 128" in refusal(tags=["x" * 129])


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
)


@given(raw=st.dictionaries(st.sampled_from(["title", "tags", "author", "language", "created", "x"]), json_values))
def test_any_metadata_is_validated_or_refused_as_unparsable(raw: dict[str, object]) -> None:
    try:
        message = repr(validated(raw, name="a.md"))
    except UnparsableDocumentError as exc:
        message = str(exc)
    assert message.startswith(("DocumentMetadata(", "a.md: metadata field "))


NAME = "a.md.metadata.json"


def sidecar(**attributes: object) -> bytes:
    return json.dumps({"metadataAttributes": attributes}).encode()


def typed(kind: str, **value: object) -> dict[str, object]:
    return {"value": {"type": kind, **value}, "includeForEmbedding": True}


def sidecar_refusal(data: bytes) -> str:
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
    assert "may have 10240" in sidecar_refusal(data + b" " * (MAX_BYTES + 1 - len(data)))


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"metadataAttributes": []}', b"null"])
def test_a_file_without_attributes_is_refused(data: bytes) -> None:
    assert "metadataAttributes" in sidecar_refusal(data)


def test_invalid_json_is_refused_with_its_place() -> None:
    assert "line 1, column 3" in sidecar_refusal(b"{ x")


def test_invalid_utf8_is_refused_with_its_place() -> None:
    assert "at byte 2" in sidecar_refusal(b'{"\xff')


def test_deep_nesting_is_refused() -> None:
    assert sidecar_refusal(b"[" * 10_000)


@pytest.mark.parametrize("value", [None, [None], [["a"]]])
def test_other_values_are_refused_by_name(value: object) -> None:
    assert "attribute 'odd'" in sidecar_refusal(sidecar(odd=value))


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
    assert "allowed: STRING, NUMBER, BOOLEAN, STRING_LIST" in sidecar_refusal(sidecar(odd=value))


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
    assert f"value.{missing}" in sidecar_refusal(sidecar(odd=value))


def test_a_list_of_lists_is_refused() -> None:
    assert "attribute 'odd'" in sidecar_refusal(sidecar(odd=typed("STRING_LIST", stringListValue=[[1]])))
